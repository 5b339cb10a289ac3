// Speed of the codec on tensors in memory, and of memcpy beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "gradwire/options.h"
#include "source.h"

namespace gradwire::cli {

struct Speed {
  std::uint64_t original_bytes = 0;  ///< data of the tensors, each repetition counted
  std::uint64_t compressed_bytes = 0;
  double compress_s = 0;  ///< best run
  double decompress_s = 0;
};

/// Bytes a second of memcpy over 64 MiB of touched memory, shared out over threads; best run.
double memcpy_speed(int threads, int runs);

/// The tensors again and again under new names, until they reach this many bytes.
std::vector<SourceTensor> repeated(const std::vector<SourceTensor>& tensors,
                                   std::uint64_t least_bytes);

/// Throws Error(corrupt) if a tensor does not come back.
Speed measure(const std::vector<SourceTensor>& tensors, const CompressOptions& options, int runs);

}  // namespace gradwire::cli
