// Packed arrays (docs/format.md 11.3): elements as they are, or losslessly coded where that is
// less. In: elements of one dtype; or the payload of a section. Out: the payload; or the elements.
// Assumes: the reader knows dtype and count; nothing else of the bytes, behind which 16 more can be
// read.
#pragma once

#include "frame/sections.h"
#include "lossless/scratch.h"
#include "lossless/tensor_encoder.h"

namespace gradwire::lossy {

/// Appends an array, which is coded as a tensor of these dims. `body` is working memory.
void write_packed(DType dtype, std::span<const std::uint64_t> dims, ByteSpan elements,
                  lossless::EncoderMemory& memory, Bytes& body, Bytes& out);
/// Reads all of a section into `elements`, which has the size of the dims.
void read_packed(const frame::Span& section, const char* field, DType dtype,
                 std::span<const std::uint64_t> dims, lossless::Scratch& scratch,
                 std::span<std::uint8_t> elements);

}  // namespace gradwire::lossy
