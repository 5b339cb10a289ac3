// The calls of gradwire/tables.h.

#include "gradwire/tables.h"

#include "api/frame_access.h"
#include "base/fail.h"
#include "base/hash.h"
#include "lossless/table_trainer.h"
#include "stages/entropy/static_tables.h"

namespace gradwire {

struct TableTrainer::State {
  lossless::HistogramCollector collector;
};

TableTrainer::TableTrainer(const CompressOptions& options) {
  api::check_options(options);
  state_ = std::make_unique<State>(State{lossless::HistogramCollector(options)});
}
TableTrainer::~TableTrainer() = default;

void TableTrainer::add(const TensorView& tensor) {
  api::check_tensor(tensor);
  state_->collector.add(tensor);
}

std::string TableTrainer::family(unsigned tables, const std::string& provenance) const {
  if (tables == 0) fail(ErrorKind::invalid_argument, "tables=0: at least 1 table an alphabet");
  return lossless::family_text(state_->collector.family(tables), provenance);
}

std::uint64_t training_file_hash(std::span<const std::uint8_t> bytes) noexcept {
  return hash64(bytes);
}

std::uint64_t static_family_hash() {
  return hash64(entropy::canonical_bytes(entropy::static_tables()));
}

std::size_t static_family_size() { return entropy::static_tables().size(); }

}  // namespace gradwire
