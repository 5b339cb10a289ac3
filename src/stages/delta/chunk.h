// A chunk's changes, to bits and back (docs/format.md 12.5).
// In: a chunk's elements in the reference and in the result, laws; or the reference and bits.
// Out: bits; or the result, in the place of the reference.
// Assumes: at most kMaxChunk elements; nothing of the bits.
#pragma once

#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "stages/delta/classes.h"
#include "stages/delta/law.h"
#include "stages/delta/order.h"

namespace gradwire::delta {

/// What a tensor's chunks have in common.
struct Rules {
  ClassRule classes;
  bool is_signed_magnitude = false;
  std::vector<Law> laws;  ///< one a class
};

/// The changes of one class of a chunk.
template <typename Word>
struct Changes {
  std::vector<std::uint32_t> ranks;  ///< among the chunk's elements of the class, ascending
  std::vector<Step<Word>> steps;
};

/// Which changes of a class a question is asked of; keeps its memory.
struct Asked {
  std::vector<std::uint32_t> changes;  ///< by their place in the class, ascending
  std::vector<std::uint32_t> yes;      ///< of these by their place among them

  void start(std::size_t count);
  /// The next question is asked of those that were answered by yes.
  void go_on();
};

template <typename Word>
class ChunkEncoder {
 public:
  /// Finds the changes, by classes; laws are not looked at. False if there are none.
  bool compare(std::span<const Word> reference, std::span<const Word> result, const Rules& rules);
  /// Adds the chunk that was compared last to the counts of its tensor, one a class.
  void count(std::span<LawCounts> counts) const;
  /// Appends the chunk that was compared last, by the same classes.
  void encode(const Rules& rules, Bytes& out);

 private:
  LawCounts counts_of(unsigned c) const;
  void encode_class(const Law& law, unsigned c, BitWriter& out);
  std::uint64_t bound(const Law& law, unsigned c) const;

  ClassMap<Word> map_;
  std::vector<Changes<Word>> changes_;
  Asked asked_;
  Buffer stream_;
};

template <typename Word>
class ChunkDecoder {
 public:
  /// Replaces the reference by the result. False for bits that no encoder makes; the elements are
  /// then as they were.
  bool apply(const Rules& rules, ByteSpan bits, std::span<Word> elements);

 private:
  bool read_class(const Law& law, BitReader& in, std::uint32_t elements, Changes<Word>& changes);
  void place(unsigned c, bool is_signed_magnitude, std::span<Word> elements) const;

  ClassMap<Word> map_;
  std::vector<Changes<Word>> changes_;
  Asked asked_;
};

}  // namespace gradwire::delta
