// Compress a tensor, restore it, compare the bytes; then many tensors in one archive.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <span>
#include <vector>

#include "gradwire/compress.h"
#include "gradwire/frame.h"

namespace {

/// Something like a gradient: each row of a matrix has a scale of its own.
std::vector<float> make_gradient(std::size_t rows, std::size_t columns) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (std::size_t row = 0; row < rows; ++row) {
    const float scale = 1e-3F / static_cast<float>(1 + row % 17);
    for (std::size_t column = 0; column < columns; ++column) {
      values.push_back(scale * normal(random));
    }
  }
  return values;
}

std::span<const std::uint8_t> bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)};
}

bool same_bytes(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return std::ranges::equal(a, b);
}

bool run() {
  constexpr std::array<std::uint64_t, 2> kShape{256, 512};
  const std::vector<float> gradient = make_gradient(kShape[0], kShape[1]);
  const gradwire::TensorView view{
      .dtype = gradwire::DType::f32, .shape = kShape, .data = bytes_of(gradient)};

  const std::vector<std::uint8_t> frame = gradwire::compress(view, {.level = 2, .threads = 2});
  const gradwire::Tensor restored = gradwire::decompress(frame);
  const bool same = same_bytes(view.data, restored.data);
  std::cout << "one tensor: " << view.data.size() << " bytes in " << frame.size() << ", "
            << (same ? "every bit came back" : "DIFFERENT") << '\n';

  gradwire::ArchiveWriter writer;
  writer.add("layer.weight", view);
  writer.add("layer.weight.twice", view);
  const std::vector<std::uint8_t> archive = writer.finish();
  const gradwire::ArchiveReader reader(archive);
  const std::size_t index = reader.find("layer.weight");
  const std::uint64_t row = kShape[1];
  const std::vector<std::uint8_t> third_row = reader.range(index, 2 * row, 3 * row);
  const bool row_is_same = same_bytes(
      bytes_of(gradient).subspan(2 * row * sizeof(float), row * sizeof(float)), third_row);
  std::cout << "archive: " << reader.size() << " tensors in " << archive.size() << " bytes, row 2 "
            << (row_is_same ? "decoded alone" : "DIFFERENT") << '\n';
  return same && row_is_same;
}

}  // namespace

int main() {
  try {
    return run() ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const gradwire::Error& error) {
    std::cerr << gradwire::error_kind_name(error.kind()) << ": " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
