// The header of an archive's source file: kept verbatim, or derived from the directory
// (docs/format.md 8.1).
// In: a safetensors header and the tensors of its archive.
// Out: the `source` section; and the header again.
// Assumes: nothing of the header; what cannot be derived byte for byte is kept verbatim.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "gradwire/dtype.h"

namespace gradwire::api {

/// What a safetensors header says of one tensor.
struct SourceTensor {
  std::string name;
  DType dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes;
};

/// A safetensors header rendered from its tensors. Throws Error(limit) past `budget` bytes.
Bytes render_safetensors(ByteSpan prefix, std::span<const SourceTensor> tensors,
                         std::uint64_t spaces, std::uint64_t budget);

/// The parts of a header that render_safetensors gives back byte for byte.
struct DerivedHeader {
  Bytes prefix;
  std::uint64_t spaces;
};
std::optional<DerivedHeader> derive_safetensors(ByteSpan header,
                                                std::span<const SourceTensor> tensors);

}  // namespace gradwire::api
