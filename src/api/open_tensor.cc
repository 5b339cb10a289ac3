#include "api/open_tensor.h"

#include <algorithm>

#include "base/fail.h"
#include "base/parallel.h"
#include "lossless/tensor_decoder.h"

namespace gradwire::api {
namespace {

using Body = std::variant<frame::TensorBody, lossy::Body>;

constexpr std::uint64_t kLineBytes =
    8;  ///< that the side information of a row or column takes in memory
constexpr std::uint64_t kFewLines = 65536;  ///< allowed whatever the budget

lossy::BodyEnd body_end(const BodyContext& context) noexcept {
  const bool in_archive = context.prelude == 0;
  if (context.checksums) return in_archive ? lossy::BodyEnd::archive : lossy::BodyEnd::frame;
  return in_archive ? lossy::BodyEnd::none : lossy::BodyEnd::bare;
}

Body read(ByteSpan bytes, const BodyContext& context, std::uint64_t max_output, bool verify) {
  if (context.lossy && lossy::is_lossy_body(bytes.subspan(context.prelude)))
    return lossy::read_body(bytes, {context.prelude, context.origin, body_end(context), verify},
                            max_output);
  return frame::read_tensor_body(bytes, context.prelude, context.origin, context.checksums,
                                 max_output);
}

// --- exact bodies --------------------------------------------------------------------

void decode_chunks(const lossless::TensorDecoder& decoder, std::span<std::uint8_t> out, int threads,
                   std::vector<lossless::Scratch>& scratch) {
  const frame::TensorHeader& header = decoder.body().header;
  const auto workers = static_cast<std::size_t>(std::max(threads, 1));
  if (scratch.size() < workers) scratch.resize(workers);
  const std::size_t width = header.element_bytes();
  parallel_for(decoder.body().index.size(), threads, [&](std::size_t c, std::size_t worker) {
    decoder.decode_chunk(
        c, out.subspan(c * header.chunk_elements * width, header.chunk_size(c) * width),
        scratch[worker]);
  });
}

std::vector<std::uint8_t> exact_range(const frame::TensorBody& body, bool verify,
                                      std::uint64_t first, std::uint64_t last) {
  const lossless::TensorDecoder decoder(body, verify);
  const frame::TensorHeader& header = body.header;
  const std::size_t width = header.element_bytes();
  std::vector<std::uint8_t> out(static_cast<std::size_t>(last - first) * width);
  std::vector<std::uint8_t> chunk;
  lossless::Scratch scratch;
  for (std::uint64_t at = first; at < last;) {
    const std::uint64_t c = at / header.chunk_elements;
    const std::uint64_t begin = c * header.chunk_elements;
    const std::uint64_t end = begin + header.chunk_size(c);
    const auto n = static_cast<std::size_t>(std::min(end, last) - at);
    chunk.resize(static_cast<std::size_t>(end - begin) * width);
    decoder.decode_chunk(c, chunk, scratch);
    std::memcpy(out.data() + static_cast<std::size_t>(at - first) * width,
                chunk.data() + static_cast<std::size_t>(at - begin) * width, n * width);
    at += n;
  }
  return out;
}

// --- lossy bodies --------------------------------------------------------------------

std::vector<std::uint8_t> lossy_range(const lossy::Body& body, std::uint64_t first,
                                      std::uint64_t last, std::uint64_t budget) {
  const std::uint64_t bytes = body.header.bytes();
  if (bytes > budget) {
    fail(ErrorKind::limit,
         "range {}:{} of a lossy tensor, which is decoded whole: its {} bytes are more than the "
         "limit of {}; raise max_output to allow it",
         first, last, bytes, budget);
  }
  DecodeScratch scratch;
  lossy::decode_body(body, scratch.lossy, scratch.selected);
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(bytes));
  lossy::place_values(scratch.selected, body.header.dtype, whole);
  const auto width = static_cast<std::ptrdiff_t>(body.header.element_bytes());
  return {whole.begin() + static_cast<std::ptrdiff_t>(first) * width,
          whole.begin() + static_cast<std::ptrdiff_t>(last) * width};
}

void check_range(const frame::TensorHeader& header, std::uint64_t first, std::uint64_t last,
                 std::uint64_t budget) {
  if (first > last || last > header.elements) {
    fail(ErrorKind::invalid_argument, "range {}:{} is not within the tensor's {} elements", first,
         last, header.elements);
  }
  if (last - first > budget / header.element_bytes()) {
    fail(ErrorKind::limit,
         "range {}:{} has more bytes than the limit of {}; raise max_output to allow it", first,
         last, budget);
  }
}

}  // namespace

OpenTensor::OpenTensor(ByteSpan bytes, const BodyContext& context, std::uint64_t max_output,
                       bool verify)
    : body_(read(bytes, context, max_output, verify)), verify_(verify) {}

const frame::TensorHeader& OpenTensor::header() const noexcept {
  const auto* const exact = std::get_if<frame::TensorBody>(&body_);
  return exact != nullptr ? exact->header : std::get_if<lossy::Body>(&body_)->header;
}

void OpenTensor::decode(std::span<std::uint8_t> out, int threads, DecodeScratch& scratch) const {
  if (out.size() != header().bytes()) {
    fail(ErrorKind::invalid_argument, "decompress: the output has {} bytes, the tensor {}",
         out.size(), header().bytes());
  }
  if (const auto* const lossy = std::get_if<lossy::Body>(&body_)) {
    lossy::decode_body(*lossy, scratch.lossy, scratch.selected);
    return lossy::place_values(scratch.selected, header().dtype, out);
  }
  const lossless::TensorDecoder decoder(std::get<frame::TensorBody>(body_), verify_);
  decode_chunks(decoder, out, threads, scratch.workers);
}

void OpenTensor::restore(Tensor& tensor, int threads, DecodeScratch& scratch) const {
  const auto size = static_cast<std::size_t>(header().bytes());
  if (const auto* const lossy = std::get_if<lossy::Body>(&body_)) {
    lossy::decode_body(*lossy, scratch.lossy, scratch.selected);
    tensor.data.resize(size);
    lossy::place_values(scratch.selected, header().dtype, tensor.data);
  } else {
    const lossless::TensorDecoder decoder(std::get<frame::TensorBody>(body_), verify_);
    tensor.data.resize(size);
    decode_chunks(decoder, tensor.data, threads, scratch.workers);
  }
  tensor.dtype = header().dtype;
  tensor.shape = header().dims;
}

std::vector<std::uint8_t> OpenTensor::range(std::uint64_t first, std::uint64_t last,
                                            std::uint64_t budget) const {
  if (const auto* const lossy = std::get_if<lossy::Body>(&body_)) {
    check_range(header(), first, last, budget);
    return lossy_range(*lossy, first, last, budget);
  }
  const auto& exact = std::get<frame::TensorBody>(body_);
  check_view(exact, budget);
  check_range(header(), first, last, budget);
  return exact_range(exact, verify_, first, last);
}

TensorInfo OpenTensor::describe(std::uint64_t compressed_bytes, std::uint64_t budget) const {
  TensorInfo info;
  if (const auto* const lossy = std::get_if<lossy::Body>(&body_)) {
    info = api::describe(*lossy);
  } else {
    const auto& exact = std::get<frame::TensorBody>(body_);
    check_view(exact, budget);
    info = api::describe(exact);
  }
  info.dtype = header().dtype;
  info.shape = header().dims;
  info.elements = header().elements;
  info.original_bytes = header().bytes();
  info.compressed_bytes = compressed_bytes;
  return info;
}

void check_view(const frame::TensorBody& body, std::uint64_t budget) {
  const frame::TensorHeader& header = body.header;
  const bool lines_needed = body[frame::Section::dead].present ||
                            body[frame::Section::scales].present ||
                            body[frame::Section::signs].present;
  if (header.elements == 0 || header.pipeline != frame::Pipeline::scaled || !lines_needed) return;
  const std::uint64_t lines = header.rows() + header.scaled.columns;
  if (lines > budget / kLineBytes + kFewLines) {
    fail(ErrorKind::limit,
         "columns: a view of {} x {} needs more memory than the limit of {} bytes", header.rows(),
         header.scaled.columns, budget);
  }
}

}  // namespace gradwire::api
