#include "api/frame_stream.h"

#include <algorithm>

#include "api/frame_access.h"
#include "base/fail.h"
#include "base/parallel.h"

namespace gradwire::api {
namespace {

/// Bytes that are looked at together, for each thread: some chunks.
constexpr std::size_t kSlice = std::size_t{1} << 18;
/// A chunk has this many readable bytes behind it.
constexpr std::size_t kSlack = frame::kTrailerSlack;

}  // namespace

bool FrameStream::feed(ByteSpan bytes, Bytes& out) {
  if (bytes.empty()) return complete();
  if (complete()) restart();
  received_ += bytes.size();
  const std::size_t before = out.size();
  const std::size_t slice = kSlice * static_cast<std::size_t>(options_.threads);
  try {
    while (!bytes.empty()) {
      const ByteSpan piece = bytes.first(std::min(slice, bytes.size()));
      pending_.insert(pending_.end(), piece.begin(), piece.end());
      bytes = bytes.subspan(piece.size());
      advance(out);
    }
  } catch (...) {
    out.resize(before);
    restart();
    throw;
  }
  return complete();
}

void FrameStream::restart() {
  part_ = Part::head;
  pending_.clear();
  at_ = received_ = size_ = next_ = 0;
  opened_.reset();
  sums_.clear();
  header_.reset();
}

void FrameStream::drop(std::size_t n) {
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(n));
  at_ += n;
}

void FrameStream::note_header(const frame::TensorHeader& header) {
  header_ = Tensor{header.dtype, header.dims, {}};
}

void FrameStream::advance(Bytes& out) {
  if (part_ == Part::done) frame::refuse_surplus(received_ - size_);
  if (part_ == Part::head) read_head(out);
  if (part_ == Part::chunks) decode_ready(out);
  if (part_ == Part::rest) read_rest();
}

void FrameStream::read_head(Bytes& out) {
  const auto prelude = frame::peek_prelude(pending_);
  if (!prelude) return;
  refuse_archive(*prelude);
  size_ = prelude->header_bytes + prelude->body_bytes;
  if (const auto chunks = frame::find_chunks(pending_, *prelude)) {
    open(*prelude, *chunks);
  } else if (pending_.size() >= size_) {
    decode_whole(out);
  }
}

/// A frame without chunks: an empty tensor's, a lossy one, or one to be refused.
void FrameStream::decode_whole(Bytes& out) {
  const OpenTensor open =
      open_frame(pending_, output_budget(options_, pending_.size()), options_.verify);
  const std::size_t before = out.size();
  out.resize(before + static_cast<std::size_t>(open.header().bytes()));
  open.decode(std::span(out).subspan(before), options_.threads, *scratch_);
  note_header(open.header());
  drop(pending_.size());
  part_ = Part::done;
}

void FrameStream::open(const frame::Prelude& prelude, const frame::ChunksPlace& chunks) {
  auto opened = std::make_unique<Opened>();
  const auto head = pending_.begin() + static_cast<std::ptrdiff_t>(chunks.offset);
  opened->head.assign(pending_.begin(), head);
  // The size that the frame claims may be a lie, so what is held in memory is bounded by the bytes
  // that came: the view here, the elements as they are restored.
  opened->body =
      frame::read_tensor_head(opened->head, prelude, chunks, output_budget(options_, size_));
  check_view(opened->body, output_budget(options_, received_));
  opened->decoder.emplace(opened->body, false);
  note_header(opened->body.header);
  opened_ = std::move(opened);
  drop(chunks.offset);
  part_ = Part::chunks;
}

void FrameStream::decode_ready(Bytes& out) {
  const std::vector<frame::ChunkEntry>& index = opened_->body.index;
  const std::uint64_t first = index[next_].offset;
  std::uint64_t end = next_;
  while (end < index.size() && index[end].offset + index[end].length - first <= pending_.size()) {
    ++end;
  }
  if (end == next_) return;
  decode_chunks(end, out);
  drop(static_cast<std::size_t>(index[end - 1].offset + index[end - 1].length - first));
  next_ = end;
  if (end == index.size()) part_ = Part::rest;
}

void FrameStream::check_budget(std::uint64_t output) const {
  const std::uint64_t budget = output_budget(options_, received_);
  if (output <= budget) return;
  fail(ErrorKind::limit,
       "feed: {} bytes of output are more than the limit of {} for {} bytes of input; raise "
       "max_output to allow it",
       output, budget, received_);
}

void FrameStream::decode_chunks(std::uint64_t end, Bytes& out) {
  frame::TensorBody& body = opened_->body;
  const frame::TensorHeader& header = body.header;
  const std::uint64_t chunk_bytes = header.chunk_elements * header.element_bytes();
  const std::uint64_t last = std::min(header.bytes(), end * chunk_bytes);
  check_budget(last);
  const std::size_t before = out.size();
  out.resize(before + static_cast<std::size_t>(last - next_ * chunk_bytes));
  sums_.resize(static_cast<std::size_t>(end));
  std::vector<lossless::Scratch>& workers = scratch_->workers;
  if (workers.size() < static_cast<std::size_t>(options_.threads))
    workers.resize(static_cast<std::size_t>(options_.threads));
  const std::size_t size = pending_.size();
  pending_.resize(size + kSlack);
  body.window = ByteSpan(pending_).first(size);
  body.window_first = body.index[next_].offset;
  parallel_for(end - next_, options_.threads, [&](std::size_t i, std::size_t worker) {
    const std::uint64_t c = next_ + i;
    const auto elements = std::span(out).subspan(before + i * chunk_bytes,
                                                 header.chunk_size(c) * header.element_bytes());
    lossless::Scratch& scratch = workers[worker];
    opened_->decoder->decode_chunk(c, elements, scratch);
    if (!options_.verify || !body.checksums) return;
    sums_[c] =
        frame::chunk_checksum(body.head_hash, c, elements, body.chunk(c).first(scratch.side_bytes));
  });
  pending_.resize(size);
}

void FrameStream::read_rest() {
  const std::uint64_t left = size_ - at_;
  if (pending_.size() < left) return;
  if (pending_.size() > left) frame::refuse_surplus(received_ - size_);
  frame::read_tensor_rest(opened_->body, pending_, static_cast<std::size_t>(at_));
  if (options_.verify && opened_->body.checksums) {
    for (std::uint64_t c = 0; c < sums_.size(); ++c) {
      frame::check_checksum(opened_->body, c, sums_[c]);
    }
  }
  drop(pending_.size());
  opened_.reset();
  part_ = Part::done;
}

}  // namespace gradwire::api
