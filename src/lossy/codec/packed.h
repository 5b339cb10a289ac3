// Packed arrays (docs/format.md 11.3): elements as they are, or losslessly coded where that is
// less. In: elements of one dtype; or the payload of a section. Out: the payload; or the elements.
// Assumes: the reader knows dtype and count; nothing else of the bytes, behind which 16 more can be
// read.
#pragma once

#include "frame/sections.h"
#include "lossless/scratch.h"
#include "lossless/tensor_encoder.h"

namespace gradwire::lossy {

/// Appends. `body` is working memory.
void write_packed(DType dtype, ByteSpan elements, lossless::EncoderMemory& memory, Bytes& body,
                  Bytes& out);
/// Reads all of a section into `elements`, which has the array's size.
void read_packed(const frame::Span& section, const char* field, DType dtype,
                 lossless::Scratch& scratch, std::span<std::uint8_t> elements);

}  // namespace gradwire::lossy
