#include "file_report.h"

#include <utility>

namespace gradwire::cli {
namespace {

ValueReport look_at(const TensorView& tensor) { return {zero_share(tensor), order0_bound(tensor)}; }

}  // namespace

std::uint64_t FileReport::original_bytes() const {
  std::uint64_t sum = source_header_bytes;
  for (const TensorReport& tensor : tensors) sum += tensor.info.original_bytes;
  return sum;
}

std::optional<ValueReport> FileReport::mean() const {
  ValueReport mean;
  double elements = 0, bytes = 0;
  for (const TensorReport& tensor : tensors) {
    if (!tensor.values) return std::nullopt;
    const auto tensor_elements = static_cast<double>(tensor.info.elements);
    const auto tensor_bytes = static_cast<double>(tensor.info.original_bytes);
    mean.zero_share += tensor.values->zero_share * tensor_elements;
    mean.order0_bound += tensor.values->order0_bound * tensor_bytes;
    elements += tensor_elements;
    bytes += tensor_bytes;
  }
  if (elements == 0) return std::nullopt;
  return ValueReport{mean.zero_share / elements, mean.order0_bound / bytes};
}

FileReport report_frame(std::span<const std::uint8_t> bytes, const DecompressOptions& options,
                        bool with_values) {
  const FrameFile frame(bytes, options);
  FileReport report;
  report.kind = frame.kind();
  report.file_bytes = bytes.size();
  report.source_header_bytes = frame.header().size();
  std::vector<std::uint8_t> data;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    TensorReport tensor{frame.info(i), std::nullopt};
    if (with_values) {
      frame.read(i, data);
      tensor.values = look_at({tensor.info.dtype, tensor.info.shape, data});
    }
    report.tensors.push_back(std::move(tensor));
  }
  return report;
}

FileReport report_source(const Source& source, std::uint64_t file_bytes, bool with_values) {
  FileReport report;
  report.is_compressed = false;
  report.kind = source.kind;
  report.file_bytes = file_bytes;
  report.source_header_bytes = source.header.size();
  for (const SourceTensor& tensor : source.tensors) {
    TensorReport entry;
    entry.info.name = tensor.name;
    entry.info.dtype = tensor.dtype;
    entry.info.shape = tensor.shape;
    entry.info.elements = tensor.data.size() / element_size(tensor.dtype);
    entry.info.original_bytes = tensor.data.size();
    if (with_values) entry.values = look_at(tensor.view());
    report.tensors.push_back(std::move(entry));
  }
  return report;
}

}  // namespace gradwire::cli
