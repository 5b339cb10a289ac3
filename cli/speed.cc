#include "speed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "errors.h"
#include "formatted.h"

namespace gradwire::cli {
namespace {

template <typename Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void copy_shared(std::vector<std::uint8_t>& to, const std::vector<std::uint8_t>& from,
                 int threads) {
  if (threads == 1) {
    std::memcpy(to.data(), from.data(), from.size());
    return;
  }
  const std::size_t share = from.size() / static_cast<std::size_t>(threads);
  std::vector<std::jthread> workers;
  for (std::size_t begin = 0; begin < from.size(); begin += share) {
    const std::size_t size = std::min(share, from.size() - begin);
    workers.emplace_back([&, begin, size] { std::memcpy(&to[begin], &from[begin], size); });
  }
}

/// As a training loop would: writer and frame are those of the run before.
void compress_all(const std::vector<SourceTensor>& tensors, ArchiveWriter& writer,
                  std::vector<std::uint8_t>& frame) {
  for (const SourceTensor& tensor : tensors) writer.add(tensor.name, tensor.view());
  writer.finish_into(frame);
}

void decompress_all(const std::vector<std::uint8_t>& frame, const DecompressOptions& options,
                    std::vector<std::vector<std::uint8_t>>& out) {
  const ArchiveReader reader(frame, options);
  for (std::size_t i = 0; i < out.size(); ++i) reader.tensor_into(i, out[i]);
}

void check_same(const std::vector<SourceTensor>& tensors,
                const std::vector<std::vector<std::uint8_t>>& out) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!std::equal(out[i].begin(), out[i].end(), tensors[i].data.begin(), tensors[i].data.end())) {
      fail(ErrorKind::corrupt,
           formatted("tensor {} did not come back", in_quotes(tensors[i].name)));
    }
  }
}

}  // namespace

double memcpy_speed(int threads, int runs) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  constexpr std::uint8_t kAnyByte = 0x5a;
  const std::vector<std::uint8_t> from(kBytes, kAnyByte);
  std::vector<std::uint8_t> to(kBytes);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    best = std::min(best, seconds_of([&] { copy_shared(to, from, threads); }));
  }
  if (to.back() != kAnyByte) fail(ErrorKind::corrupt, "memcpy did not copy");
  return static_cast<double>(kBytes) / best;
}

std::vector<SourceTensor> repeated(const std::vector<SourceTensor>& tensors,
                                   std::uint64_t least_bytes) {
  std::uint64_t bytes = 0;
  for (const SourceTensor& tensor : tensors) bytes += tensor.data.size();
  std::vector<SourceTensor> all = tensors;
  const std::uint64_t copies = bytes == 0 ? 1 : (least_bytes + bytes - 1) / bytes;
  for (std::uint64_t copy = 1; copy < copies; ++copy) {
    for (const SourceTensor& tensor : tensors) {
      all.push_back(tensor);
      all.back().name += formatted("#{}", copy);
    }
  }
  return all;
}

Speed measure(const std::vector<SourceTensor>& tensors, const CompressOptions& options, int runs) {
  Speed speed;
  speed.compress_s = speed.decompress_s = std::numeric_limits<double>::infinity();
  std::vector<std::vector<std::uint8_t>> out;
  for (const SourceTensor& tensor : tensors) {
    speed.original_bytes += tensor.data.size();
    out.emplace_back(tensor.data.size());
  }
  DecompressOptions decode;
  decode.threads = options.threads;
  decode.max_output = std::max<std::uint64_t>(speed.original_bytes, 1);
  ArchiveWriter writer(options);
  std::vector<std::uint8_t> frame;
  for (int i = 0; i < runs; ++i) {
    speed.compress_s =
        std::min(speed.compress_s, seconds_of([&] { compress_all(tensors, writer, frame); }));
    speed.decompress_s =
        std::min(speed.decompress_s, seconds_of([&] { decompress_all(frame, decode, out); }));
  }
  check_same(tensors, out);
  speed.compressed_bytes = frame.size();
  return speed;
}

}  // namespace gradwire::cli
