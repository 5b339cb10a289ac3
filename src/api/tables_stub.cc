#include "gradwire/tables.h"
#include "stages/entropy/static_tables.h"
namespace gradwire {
std::uint64_t static_family_hash() { return 0; }
std::size_t static_family_size() { return entropy::static_tables().size(); }
struct TableTrainer::State {};
TableTrainer::TableTrainer(const CompressOptions&) {}
TableTrainer::~TableTrainer() = default;
void TableTrainer::add(const TensorView&) {}
std::string TableTrainer::family(unsigned, const std::string&) const { return {}; }
}
