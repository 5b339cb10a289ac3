// NumPy's .npy header, both ways.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gradwire/dtype.h"

namespace gradwire::cli {

/// What the Python dict in a .npy header says.
struct NpyDict {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

/// Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" and nothing cleverer.
/// `start` is the text's byte in the file, for errors: corrupt, or unsupported for structured
/// types.
NpyDict parse_npy_dict(std::span<const std::uint8_t> text, std::uint64_t start);

/// A complete header, version 1, to stand before the data.
std::vector<std::uint8_t> npy_header(DType dtype, std::span<const std::uint64_t> shape);

}  // namespace gradwire::cli
