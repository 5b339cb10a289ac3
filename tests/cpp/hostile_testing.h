// What tests of input that lies share: small frames that together use every part of the format, and
// everything that can be asked of bytes that claim to be a frame.
#pragma once

#include "tensor_testing.h"

namespace gradwire::testing {

struct NamedFrame {
  std::string name;
  Bytes frame;
  Bytes data;  ///< what it holds; of an archive its tensors, one behind the other
};

inline Bytes archive_data(const Bytes& frame, bool verify) {
  const ArchiveReader reader(frame, {.max_output = 1 << 20, .verify = verify});
  Bytes all = reader.source_header();
  for (std::size_t k = 0; k < reader.size(); ++k) {
    const Tensor tensor = reader.tensor(k);
    all.insert(all.end(), tensor.data.begin(), tensor.data.end());
  }
  return all;
}

inline Bytes decode(const Bytes& frame, bool verify) {
  if (is_archive(frame)) return archive_data(frame, verify);
  return decompress(frame, {.max_output = 1 << 20, .verify = verify}).data;
}

/// Small frames that together use every pipeline, sign mode, zero mode, coder and kind of chunk.
inline std::vector<NamedFrame> small_frames() {
  TensorMaker make(1);
  std::vector<NamedFrame> frames;
  const auto add = [&](const char* name, const Owned& tensor, const CompressOptions& options) {
    frames.push_back({name, exact(compress(tensor.view(), options)), tensor.data});
  };
  add("empty", make(DType::f32, {3, 0}, Content::zeros), {});
  add("scalar", make(DType::f64, {}, Content::normal), {});
  add("constant", make(DType::f32, {100}, Content::constant), {});
  add("zeros", make(DType::f32, {100}, Content::zeros), {});
  add("stored", make(DType::u8, {100}, Content::random_bits), {});
  add("planes huffman", make(DType::i32, {150}, Content::normal), {.coder = Coder::huffman});
  add("planes ans", make(DType::i16, {150}, Content::normal), {.coder = Coder::ans});
  add("bool", make(DType::boolean, {300}, Content::mostly_zero), {});
  add("exponents huffman", make(DType::bf16, {256}, Content::normal),
      {.level = 1, .coder = Coder::huffman});
  add("exponents ans", make(DType::bf16, {600}, Content::normal),
      {.level = 1, .coder = Coder::ans, .tables = Tables::dynamic});
  add("exponents pairs", make(DType::bf16, {1100}, Content::smooth),
      {.level = 1, .coder = Coder::huffman});
  add("gennorm", make(DType::bf16, {256}, Content::normal),
      {.level = 1, .tables = Tables::gennorm});
  add("scales", make(DType::f16, {24, 24}, Content::normal), {.level = 2});
  add("scales level 3", make(DType::bf16, {24, 24}, Content::normal), {.level = 3});
  add("zero symbol", make(DType::bf16, {256}, Content::mostly_zero), {.zeros = Zeros::in_band});
  add("zero map", make(DType::bf16, {256}, Content::mostly_zero), {.zeros = Zeros::bitmap});
  add("zero escapes", make(DType::bf16, {256}, Content::dead_lines), {.zeros = Zeros::none});
  add("dead lines", make(DType::bf16, {40, 21}, Content::dead_lines), {});
  add("few fraction bits", make(DType::f32, {128}, Content::bf16_values), {.level = 1});
  add("counted", make(DType::f32, {200}, Content::mean_of_bf16), {.level = 1});
  add("specials", make(DType::f16, {200}, Content::specials), {.level = 2});
  add("taps", make(DType::bf16, {14, 2, 3, 3}, Content::smooth), {.level = 2});
  add("kernels", make(DType::bf16, {30, 2, 3, 3}, Content::alike_kernels), {.level = 3});
  add("kernels f32", make(DType::f32, {20, 2, 3, 3}, Content::alike_kernels), {.level = 3});
  add("f64", make(DType::f64, {64}, Content::normal), {.level = 3});
  for (const bool derived : {false, true}) {
    ArchiveWriter writer;
    const Owned a = make(DType::bf16, {8, 8}, Content::normal);
    const Owned b = make(DType::u8, {3}, Content::random_bits);
    const std::string text =
        "{\"first\":{\"dtype\":\"BF16\",\"shape\":[8,8],\"data_offsets\":[0,128]},"
        "\"second\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[128,131]}}" +
        std::string(derived ? "" : "\n");
    Bytes header(8);
    header[0] = static_cast<std::uint8_t>(text.size());
    header.insert(header.end(), text.begin(), text.end());
    writer.set_source(SourceKind::safetensors, header);
    writer.add("first", a.view());
    writer.add("second", b.view());
    header.insert(header.end(), a.data.begin(), a.data.end());
    header.insert(header.end(), b.data.begin(), b.data.end());
    frames.push_back(
        {derived ? "archive, derived header" : "archive", exact(writer.finish()), header});
  }
  return frames;
}

inline constexpr std::size_t kBudget = 1 << 18;

/// Everything that can be asked of bytes that claim to be a frame.
inline void exercise(const Bytes& bytes, bool verify) {
  const DecompressOptions options{.max_output = kBudget, .verify = verify};
  const auto attempt = [](const auto& call) {
    try {
      call();
    } catch (const Error&) {
    }
  };
  bool sound = false;
  attempt([&] {
    const Tensor tensor = decompress(bytes, options);
    ASSERT_EQ(tensor.data.size(), element_count(tensor.shape) * element_size(tensor.dtype));
    sound = true;
  });
  bool complete = false;
  attempt([&] {
    Decompressor decompressor(options);
    Bytes out;
    const std::size_t half = bytes.size() / 2;
    decompressor.feed(exact(std::span(bytes).first(half)), out);
    complete = decompressor.feed(exact(std::span(bytes).subspan(half)), out);
  });
  ASSERT_EQ(complete, sound) << "a frame in two pieces";
  attempt([&] { tensor_info(bytes); });
  attempt([&] { decompress_range(bytes, 3, 5, options); });
  attempt([&] {
    const ArchiveReader reader(bytes, options);
    for (std::size_t k = 0; k < reader.size(); ++k) {
      attempt([&] { reader.info(k); });
      attempt([&] { reader.tensor(k); });
      attempt([&] { reader.range(k, 1, 2); });
    }
  });
}

}  // namespace gradwire::testing
