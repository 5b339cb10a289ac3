// The files that gradwire compresses: a header, then the data of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gradwire/frame.h"

namespace gradwire::cli {

/// The format allows no more; a tensor with more is stored with one dimension.
inline constexpr std::size_t kMostDimensions = 32;

/// A tensor in the bytes of its file.
struct SourceTensor {
  std::string name;
  DType dtype = DType::u8;
  std::vector<std::uint64_t> shape;
  std::span<const std::uint8_t> data;

  TensorView view() const { return {dtype, shape, data}; }
};

/// A file taken apart. Its bytes are `header`, then the data of `tensors` in their order, no more.
struct Source {
  SourceKind kind = SourceKind::none;
  std::span<const std::uint8_t> header;
  std::vector<SourceTensor> tensors;
};

/// How to read a file that says nothing about itself.
struct RawLayout {
  std::optional<DType> dtype;
  std::optional<std::vector<std::uint64_t>> shape;  ///< absent: one dimension
};

/// Takes a file apart by its ending, or else as raw data if a dtype is given, or else by its first
/// bytes. The result points into `bytes`. Throws Error naming tensor and byte.
Source read_source(const std::string& path, std::span<const std::uint8_t> bytes,
                   const RawLayout& raw);

/// The same for each format.
Source read_safetensors(std::span<const std::uint8_t> bytes);
Source read_npy(std::span<const std::uint8_t> bytes);
Source read_raw(std::span<const std::uint8_t> bytes, DType dtype,
                const std::optional<std::vector<std::uint64_t>>& shape);

/// Looks at the first bytes only.
bool looks_like_safetensors(std::span<const std::uint8_t> bytes);
bool looks_like_npy(std::span<const std::uint8_t> bytes);
bool looks_like_frame(std::span<const std::uint8_t> bytes);

/// The product of the dimensions times `factor`, or nothing when it does not fit 62 bits.
std::optional<std::uint64_t> checked_product(std::span<const std::uint64_t> shape,
                                             std::uint64_t factor);

/// "10 x 20"; "scalar" without dimensions.
std::string shape_text(std::span<const std::uint64_t> shape);

}  // namespace gradwire::cli
