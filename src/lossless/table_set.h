// The tables of a tensor, made ready for the alphabets that use them.
// In: the `tables` section, or chosen tables.
// Out: sequence coders by table index.
// Assumes: the section is untrusted.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "frame/sections.h"
#include "stages/entropy/sequence.h"

namespace gradwire::lossless {

/// Reads the list; an absent section gives an empty one.
std::vector<entropy::Table> read_tables(const frame::Span& span);
Bytes write_tables(const std::vector<entropy::Table>& tables);

/// Decoders of one alphabet, made for the indices that are asked for.
class DecoderSet {
 public:
  /// Makes the decoder of table `index` unless it is there. `where` names the user in messages.
  /// `symbols`: about how many the tensor has.
  void add(const std::vector<entropy::Table>& tables, std::size_t index, unsigned alphabet,
           std::uint64_t symbols, const char* where);
  const entropy::SequenceDecoder& decoder(std::size_t index) const noexcept {
    return *decoders_[index];
  }

 private:
  std::array<std::unique_ptr<entropy::SequenceDecoder>, entropy::kMaxTables + 1> decoders_;
};

}  // namespace gradwire::lossless
