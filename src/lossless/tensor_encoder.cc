#include "lossless/tensor_encoder.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/parallel.h"
#include "frame/tensor_body.h"
#include "lossless/chunk_encoder.h"
#include "lossless/planner.h"
#include "lossless/side_info.h"

namespace gradwire::lossless {
namespace {

constexpr std::size_t kMaxIndexEntry = 1 + 1 + 3;
constexpr std::size_t kMaxSectionHead = 1 + 9;
constexpr std::size_t kCountedPart = 8;  ///< of many chunks an eighth is counted
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;

std::size_t batch_size(const frame::TensorHeader& header, int threads) {
  if (threads <= 1) return 1;
  const std::size_t chunk = header.chunk_elements * header.element_bytes();
  return std::clamp<std::size_t>(kBatchBytes / chunk, static_cast<std::size_t>(threads), 64);
}

/// Tables from all symbols; of a tensor of many chunks from a share of each where that will do.
void count_and_choose(const CompressOptions& options, const frame::TensorHeader& header,
                      EncoderMemory& memory, bool kept, ChunkEncoder& encoder) {
  const std::uint64_t chunks = header.chunk_count();
  const std::size_t part = !kept && encoder.counts_by_sample() ? kCountedPart : 1;
  std::vector<Histograms> counts(memory.workers);
  parallel_for(static_cast<std::size_t>(chunks), options.threads,
               [&](std::size_t c, std::size_t worker) {
                 const std::size_t n = (header.chunk_size(c) + part - 1) / part;
                 encoder.count(c, n, memory.scratch[kept ? c : worker], counts[worker]);
               });
  for (std::size_t w = 1; w < counts.size(); ++w) counts[0].add(counts[w]);
  if (part > 1) {
    counts[0].scale(part);
    encoder.floor_counts(counts[0]);
  }
  encoder.choose_tables(counts[0], options);
}

/// Sections 1 to 6.
Bytes write_head(const Plan& plan) {
  Bytes payload;
  Bytes head;
  ByteWriter out(head);
  ByteWriter tensor(payload);
  frame::write_tensor_header(plan.header, tensor);
  frame::write_section(frame::Section::tensor, payload, out);
  if (plan.header.elements == 0) return head;
  if (!plan.tables.empty())
    frame::write_section(frame::Section::tables, write_tables(plan.tables), out);
  if (has_dead(plan.grid)) frame::write_section(frame::Section::dead, write_dead(plan.grid), out);
  if (plan.header.pipeline == frame::Pipeline::scaled) {
    const ScaledParameters& p = plan.header.scaled;
    if (p.has_scales) frame::write_section(frame::Section::scales, write_scales(plan.grid), out);
    if (p.sign_mode == SignMode::rank_one)
      frame::write_section(frame::Section::signs, write_signs(plan.grid), out);
  }
  if (plan.header.pipeline == frame::Pipeline::kernels) {
    Bytes taps;
    ByteWriter writer(taps);
    predict::write_taps(plan.taps, writer);
    frame::write_section(frame::Section::taps, taps, out);
  }
  return head;
}

class BodyWriter {
 public:
  BodyWriter(const TensorView& tensor, const CompressOptions& options, bool in_archive,
             EncoderMemory& memory, Bytes& out)
      : tensor_(tensor),
        options_(options),
        in_archive_(in_archive),
        memory_(memory),
        out_(out),
        start_(out.size()) {}

  void write(Plan plan) {
    const std::uint64_t chunks = plan.header.chunk_count();
    const std::size_t batch = batch_size(plan.header, options_.threads);
    const auto encoder = make_chunk_encoder(tensor_, plan);
    kept_ = !plan.all_stored && encoder->keeps_chunks();
    memory_.reserve(options_.threads, batch, kept_ ? chunks : 0);
    if (!plan.all_stored) count_and_choose(options_, plan.header, memory_, kept_, *encoder);
    const Bytes head = write_head(plan);
    const std::size_t front = front_room(plan, head);
    // Chunks are at most stored: room for all of them now spares copies as the frame grows.
    const std::size_t room =
        start_ + front + tensor_.data.size() + frame::section_bytes(trailer_bytes(plan));
    if (out_.capacity() < room) out_.reserve(std::max(room, 2 * out_.capacity()));
    out_.resize(start_ + front);
    encode_chunks(*encoder, chunks, batch);
    finish(plan, head, front);
  }

  void write_empty(const frame::TensorHeader& header) {
    Plan plan;
    plan.header = header;
    const Bytes head = write_head(plan);
    ByteWriter out(out_);
    const std::size_t trailer = options_.checksum ? frame::section_bytes(8) : 0;
    if (!in_archive_) frame::write_prelude(flags(), head.size() + trailer, out);
    out.bytes(head);
    if (!options_.checksum) return;
    Bytes sum(8);
    store(sum.data(), hash64(ByteSpan(out_).subspan(start_)));
    frame::write_section(frame::Section::trailer, sum, out);
  }

  std::size_t written() const noexcept { return out_.size() - start_; }

 private:
  std::uint16_t flags() const noexcept { return options_.checksum ? frame::kChecksums : 0; }

  void encode_chunks(const ChunkEncoder& encoder, std::uint64_t chunks, std::size_t batch) {
    index_.clear();
    side_.clear();
    if (batch == 1) {
      for (std::uint64_t c = 0; c < chunks; ++c) {
        const EncodedChunk coded = encoder.encode(c, memory_.scratch[kept_ ? c : 0], out_);
        index_.push_back(coded.entry);
        side_.push_back(coded.side_bytes);
      }
      return;
    }
    std::vector<EncodedChunk> coded(batch);
    for (std::uint64_t first = 0; first < chunks; first += batch) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(batch, chunks - first));
      parallel_for(n, options_.threads, [&](std::size_t k, std::size_t worker) {
        memory_.pieces[k].clear();
        coded[k] = encoder.encode(first + k, memory_.scratch[kept_ ? first + k : worker],
                                  memory_.pieces[k]);
      });
      for (std::size_t k = 0; k < n; ++k) {
        index_.push_back(coded[k].entry);
        side_.push_back(coded[k].side_bytes);
        out_.insert(out_.end(), memory_.pieces[k].begin(), memory_.pieces[k].end());
      }
    }
  }

  /// All that stands before the chunks.
  Bytes write_front(const Plan& plan, const Bytes& head, std::size_t chunk_bytes) const {
    Bytes index;
    ByteWriter index_writer(index);
    frame::write_index(index_, frame::has_second_sequence(plan.header), index_writer);
    const std::size_t trailer = trailer_bytes(plan);
    const std::size_t body = head.size() + frame::section_bytes(index.size()) +
                             frame::section_bytes(chunk_bytes) +
                             (trailer > 0 ? frame::section_bytes(trailer) : 0);
    Bytes front;
    ByteWriter writer(front);
    if (!in_archive_) frame::write_prelude(flags(), body, writer);
    writer.bytes(head);
    frame::write_section(frame::Section::index, index, writer);
    writer.u8(static_cast<std::uint8_t>(frame::Section::chunks));
    writer.varint(chunk_bytes);
    return front;
  }

  /// The front's size if every chunk were as long as its elements, and so no less than it will be;
  /// most lengths take as many bytes either way, and then no chunk has to move.
  std::size_t front_room(const Plan& plan, const Bytes& head) {
    const frame::TensorHeader& header = plan.header;
    index_.assign(static_cast<std::size_t>(header.chunk_count()), {});
    for (std::size_t c = 0; c < index_.size(); ++c) {
      index_[c].kind = frame::ChunkKind::coded;
      index_[c].length = header.chunk_size(c) * header.element_bytes();
    }
    return write_front(plan, head, tensor_.data.size()).size();
  }

  std::size_t trailer_bytes(const Plan& plan) const noexcept {
    return frame::trailer_bytes(plan.header.chunk_count(), options_.checksum, in_archive_);
  }

  void finish(const Plan& plan, const Bytes& head, std::size_t room) {
    const std::size_t chunk_bytes = out_.size() - start_ - room;
    const Bytes front = write_front(plan, head, chunk_bytes);
    std::memcpy(out_.data() + start_, front.data(), front.size());
    if (front.size() != room) {
      std::memmove(out_.data() + start_ + front.size(), out_.data() + start_ + room, chunk_bytes);
      out_.resize(start_ + front.size() + chunk_bytes);
    }
    const std::size_t trailer = trailer_bytes(plan);
    if (trailer == 0) return;
    ByteWriter out(out_);
    frame::write_section(frame::Section::trailer, checksums(plan, front, trailer), out);
  }

  Bytes checksums(const Plan& plan, const Bytes& front, std::size_t size) const {
    Bytes sums(size, 0);
    if (!options_.checksum) return sums;
    const std::uint64_t head_hash = hash64(front);
    std::vector<std::size_t> offsets;
    std::size_t offset = start_ + front.size();
    for (const frame::ChunkEntry& entry : index_) {
      offsets.push_back(offset);
      offset += static_cast<std::size_t>(entry.length);
    }
    const std::size_t width = plan.header.element_bytes();
    parallel_for(index_.size(), options_.threads, [&](std::size_t c, std::size_t) {
      const ByteSpan decoded = tensor_.data.subspan(c * plan.header.chunk_elements * width,
                                                    plan.header.chunk_size(c) * width);
      store(sums.data() + 8 * c,
            frame::chunk_checksum(head_hash, c, decoded, {out_.data() + offsets[c], side_[c]}));
    });
    return sums;
  }

  const TensorView& tensor_;
  const CompressOptions& options_;
  bool in_archive_;
  EncoderMemory& memory_;
  Bytes& out_;
  std::size_t start_;
  bool kept_ = false;  ///< chunks stay in their scratch between counting and encoding
  std::vector<frame::ChunkEntry> index_;
  std::vector<std::size_t> side_;
};

}  // namespace

void EncoderMemory::reserve(int threads, std::size_t batch, std::uint64_t kept_chunks) {
  workers = static_cast<std::size_t>(std::max(threads, 1));
  const std::size_t wanted = std::max(workers, static_cast<std::size_t>(kept_chunks));
  if (scratch.size() < wanted) scratch.resize(wanted);
  if (pieces.size() < batch) pieces.resize(batch);
}

void encode_tensor(const TensorView& tensor, const CompressOptions& options, bool in_archive,
                   EncoderMemory& memory, Bytes& out) {
  const std::size_t start = out.size();
  if (tensor.data.empty()) {
    BodyWriter(tensor, options, in_archive, memory, out).write_empty(plain_header(tensor));
    return;
  }
  Plans plans = make_plans(tensor, options);
  BodyWriter(tensor, options, in_archive, memory, out).write(std::move(plans.best));
  // Two bodies stand behind each other for a moment; the shorter one stays.
  const auto contest = [&](Plan plan) {
    const std::size_t end = out.size();
    BodyWriter(tensor, options, in_archive, memory, out).write(std::move(plan));
    if (out.size() - end < end - start) {
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(start),
                out.begin() + static_cast<std::ptrdiff_t>(end));
    } else {
      out.resize(end);
    }
  };
  if (plans.rival) contest(std::move(*plans.rival));
  // Side information may have cost more than it saved.
  if (out.size() - start >= tensor.data.size() && options.coder != Coder::stored)
    contest(stored_plan(tensor));
}

std::size_t encoded_bound(DType dtype, std::uint64_t n) noexcept {
  const std::size_t fixed =
      frame::kMaxPrelude + 4 * kMaxSectionHead + 2 + 9 * frame::kMaxDimensions + 3 + 2 + 8 + 16;
  const std::uint64_t chunks = (n + frame::kMaxChunkElements - 1) / frame::kMaxChunkElements;
  return static_cast<std::size_t>(n * element_size(dtype) + chunks * (kMaxIndexEntry + 8)) + fixed;
}

}  // namespace gradwire::lossless
