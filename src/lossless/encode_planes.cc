// Chunks of the planes pipeline, encoded: integers, bool and fp8 byte by byte.

#include <algorithm>
#include <numeric>

#include "lossless/chunk_encoder.h"
#include "lossless/chunk_parts.h"

namespace gradwire::lossless {
namespace {

class PlaneEncoder final : public ChunkEncoder {
 public:
  PlaneEncoder(const TensorView& tensor, Plan& plan)
      : ChunkEncoder(tensor, plan), width_(plan.header.element_bytes()) {}

  void count(std::uint64_t c, std::size_t n, Scratch&, Histograms& histograms) const override {
    if (is_constant(c)) return;
    const ByteSpan bytes = chunk_bytes(c).first(n * width_);
    for (std::size_t i = 0; i < bytes.size(); i += width_) {
      for (std::size_t b = 0; b < width_; ++b) ++histograms.single[b][bytes[i + b]];
    }
  }

  void choose_tables(const Histograms& histograms, const CompressOptions& options) override {
    const auto parts = static_cast<unsigned>(plan_->header.chunk_count());
    for (std::size_t b = 0; b < width_; ++b) choose_plane(histograms, b, options, parts);
    for (const entropy::Table& table : plan_->tables)
      coders_.push_back(entropy::make_encoder(table));
  }

 protected:
  bool encode_coded(std::uint64_t c, Scratch& scratch, std::size_t limit, Bytes& out,
                    EncodedChunk& result) const override {
    const ByteSpan bytes = chunk_bytes(c);
    const std::size_t n = bytes.size() / width_;
    std::uint8_t* plane = Scratch::sized(scratch.symbols, n);
    scratch.side.clear();
    scratch.escapes.clear();
    scratch.streams.clear();
    scratch.sizes.clear();
    scratch.raw.clear();
    for (std::size_t b = 0; b < width_; ++b) {
      const frame::PlaneParameters& parameters = plan_->header.planes[b];
      if (parameters.mode == frame::PlaneMode::constant) continue;
      for (std::size_t i = 0; i < n; ++i) plane[i] = bytes[i * width_ + b];
      if (parameters.mode == frame::PlaneMode::raw) {
        scratch.raw.insert(scratch.raw.end(), plane, plane + n);
      } else if (!append_sequence(*coders_[parameters.value], plan_->tables[parameters.value],
                                  plan_->header.streams_log2, plane, n, scratch)) {
        return false;
      }
    }
    result.entry.kind = frame::ChunkKind::coded;
    return join_chunk(scratch, 0, limit, out);
  }

 private:
  void choose_plane(const Histograms& histograms, std::size_t b, const CompressOptions& options,
                    unsigned parts) {
    frame::PlaneParameters& plane = plan_->header.planes[b];
    const SymbolCounts& counts = histograms.single[b];
    const std::uint64_t n = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    const auto most = std::max_element(counts.begin(), counts.end());
    if (*most == n) {
      plane = {frame::PlaneMode::constant, static_cast<std::uint8_t>(most - counts.begin())};
      return;
    }
    CompressOptions dynamic = options;  // no prebuilt table covers bytes
    dynamic.tables = Tables::dynamic;
    const unsigned shift = histograms.shift();
    const auto narrowed = narrow(counts, shift);
    entropy::Choice choice = choose_for_options({narrowed, {}}, dynamic, 0, parts);
    if (choice.bits >= 8 * (n >> shift)) return;
    plane = {frame::PlaneMode::coded, static_cast<std::uint8_t>(plan_->tables.size())};
    plan_->tables.push_back(std::move(choice.table));
  }

  std::size_t width_;
  std::vector<std::unique_ptr<entropy::SequenceEncoder>> coders_;
};

}  // namespace

std::unique_ptr<ChunkEncoder> make_plane_encoder(const TensorView& tensor, Plan& plan) {
  return std::make_unique<PlaneEncoder>(tensor, plan);
}

}  // namespace gradwire::lossless
