// Prebuilt code tables from the histograms that the encoder makes (docs/format.md 4.5).
// In: tensors.
// Out: a family of tables and its text.
// Assumes: data and shape agree. The result depends on the tensors, their order and the options'
// level, coder and pairs only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gradwire/compress.h"
#include "stages/entropy/static_tables.h"
#include "stages/entropy/table_clusters.h"

namespace gradwire::lossless {

/// Sequences of different meaning are grouped apart, even where their alphabets are as large.
enum class SequenceUse : std::uint8_t { symbols, symbol_pairs, joint_pairs, counts };

class HistogramCollector {
 public:
  explicit HistogramCollector(const CompressOptions& options);
  /// Adds a tensor whole and in pieces of 0.5 KiB to 64 KiB.
  void add(const TensorView& tensor);
  /// Up to `tables` tables for each use and alphabet, with ids from 1.
  std::vector<entropy::StaticTable> family(unsigned tables) const;

 private:
  struct Use {
    SequenceUse use;
    unsigned alphabet;
    auto operator<=>(const Use&) const = default;
  };

  void add_whole(const TensorView& tensor);
  void keep(Use use, std::span<const std::uint32_t> counts);

  CompressOptions options_;
  std::map<Use, std::vector<entropy::ScaledHistogram>> histograms_;
};

/// Consecutive pieces of about `bytes`: whole rows where a row fits, parts of one row where it does
/// not. At most `most` of them, spread over the tensor; none unless it is larger than a piece.
std::vector<Tensor> cut_pieces(const TensorView& tensor, std::size_t bytes, std::size_t most);

/// The text of static_family.inc.
std::string family_text(const std::vector<entropy::StaticTable>& family,
                        const std::string& provenance);

}  // namespace gradwire::lossless
