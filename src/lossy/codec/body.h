// Lossy bodies (docs/format.md 11): which elements of a tensor have values, and which values.
// In: selected elements and what a quantiser made of their values; or the bytes of a body.
// Out: those bytes; or the values of the selected elements.
// Assumes: nothing of the bytes. What selected the elements, and what the sender keeps of the
// others, is not known here.
#pragma once

#include <span>
#include <vector>

#include "frame/sections.h"
#include "frame/tensor_header.h"
#include "lossless/scratch.h"
#include "lossless/tensor_encoder.h"
#include "lossy/select/select.h"

namespace gradwire::lossy {

enum class Selection : std::uint8_t {
  all = 0,
  flags = 1,
  gaps = 2,
  drawn = 3,  ///< by a seed that the receiver draws with as well
};

enum class ValueForm : std::uint8_t { floats = 0, levels = 1, octets = 2, table = 3 };

/// How symbols become values: the rules of docs/format.md 11.3.
struct ValueRule {
  ValueForm form = ValueForm::floats;
  DType dtype = DType::f32;  ///< of symbols: floats f32, bf16, f16; octets an f8; others u8 or u16
  std::int32_t shift = 0;    ///< floats: values are times 2^shift
  std::uint32_t step = 1, offset = 0, levels = 1;  ///< levels
  std::vector<float> table{};                      ///< table, 1 to 256 entries
  std::uint64_t bucket = 0;                        ///< values that share a scale; 0: all

  bool has_scales() const noexcept { return form != ValueForm::floats; }
  std::uint64_t scale_count(std::uint64_t k) const noexcept;
};

/// The values of the selected elements, quantised.
struct Coded {
  ValueRule rule;
  Bytes symbols;              ///< one a value, of rule.dtype
  std::vector<float> scales;  ///< one a bucket
};

/// Writes the values that symbols stand for, all finite. Throws corrupt for symbols or scales that
/// the rule does not allow, which a sender's own never are.
void restore_values(const ValueRule& rule, ByteSpan symbols, std::span<const float> scales,
                    std::span<float> values);

/// A tensor's body before it is written.
struct Outline {
  DType dtype = DType::f32;  ///< f32, bf16, f16
  std::span<const std::uint64_t> dims = {};
  Selection selection = Selection::all;
  std::span<const std::uint32_t> indices = {};  ///< ascending; of flags, gaps (which may be
                                                ///< exchanged for one another) and drawn
  std::uint64_t seed = 0;                       ///< drawn
};

/// How a body ends: docs/format.md 11, `check`.
enum class BodyEnd : std::uint8_t {
  none,     ///< on the wire, which has checksums of its own, and in archives without
  archive,  ///< a checksum
  frame,    ///< a checksum and padding
  bare,     ///< of a frame without checksums: padding alone
};

/// Where a body's bytes went.
struct BodyBytes {
  std::uint64_t elements = 0, selected = 0;
  std::uint64_t index = 0, scales = 0, values = 0;  ///< the sections' payloads
  std::uint64_t whole = 0;                          ///< of the body
};

/// Memory that keeps its capacity.
struct BodyMemory {
  lossless::EncoderMemory encoder;
  Bytes section, packed;
  std::vector<std::int32_t> gaps;
  std::vector<std::uint8_t> flags;
};

/// Appends a body. A checksum covers `out` from `from` on. dims must have an element at least.
BodyBytes write_body(const Outline& outline, const Coded& coded, BodyEnd end, std::size_t from,
                     BodyMemory& memory, Bytes& out);

/// Most bytes of a body of n elements on the wire, whatever was selected, with scales for buckets
/// of this many values.
std::size_t body_bound(std::uint64_t n, std::uint64_t bucket) noexcept;

/// A body that has been read; spans point into its bytes.
struct Body {
  frame::TensorHeader header;
  Selection selection = Selection::all;
  std::uint64_t selected = 0;  ///< k
  std::uint64_t seed = 0;
  ValueRule rule;
  frame::Sections sections;
  bool is_checked = false;  ///< has a checksum
};

struct BodyPlace {
  std::size_t prelude = 0;  ///< bytes before the body, which the checksum covers; 0: no frame's own
  std::size_t origin = 0;   ///< offset of the bytes in the frame, for messages
  BodyEnd end = BodyEnd::none;
  bool verify = true;
};

/// Reads the header and compares the checksum. `bytes` run from the first that the checksum covers
/// to the end of the body and have 16 readable ones behind them. Demands that the tensor has at
/// most `max_output` bytes (`limit`).
Body read_body(ByteSpan bytes, const BodyPlace& place, std::uint64_t max_output);

/// Whether a body is a lossy one, from its first section; false where that cannot be read.
bool is_lossy_body(ByteSpan body) noexcept;

/// What a body holds.
struct Selected {
  bool all = true;
  Indices indices;            ///< unless all; ascending
  std::vector<float> values;  ///< one a selected element, finite, not yet rounded to the dtype
};

struct DecodeMemory {
  lossless::Scratch scratch;
  SelectScratch select;
  Bytes symbols;
  std::vector<std::uint8_t> flags;
  std::vector<std::int32_t> gaps;
  std::vector<float> scales;
};

/// Takes up to 21 bytes of memory for each element of the tensor, however few bytes the body has.
void decode_body(const Body& body, DecodeMemory& memory, Selected& out);

/// The whole tensor: zeros but for what is selected, rounded to the body's dtype.
void place_values(const Selected& selected, DType dtype, std::span<std::uint8_t> elements);

}  // namespace gradwire::lossy
