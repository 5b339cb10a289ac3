// Input that lies: cut, flipped, spliced or made up. It must be refused with an Error, read nothing
// past its end (AddressSanitizer sees to that) and ask for no more memory than the budget and its
// own size allow.

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>

#include "frame/tensor_body.h"
#include "stages/entropy/integer_array.h"
#include "tensor_testing.h"

namespace {
std::atomic<std::size_t> largest_request{0};
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  std::size_t seen = largest_request.load(std::memory_order_relaxed);
  while (size > seen && !largest_request.compare_exchange_weak(seen, size)) {
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace gradwire::testing {
namespace {

struct NamedFrame {
  std::string name;
  Bytes frame;
  Bytes data;  ///< what it holds; of an archive its tensors, one behind the other
};

Bytes archive_data(const Bytes& frame, bool verify) {
  const ArchiveReader reader(frame, {.max_output = 1 << 20, .verify = verify});
  Bytes all = reader.source_header();
  for (std::size_t k = 0; k < reader.size(); ++k) {
    const Tensor tensor = reader.tensor(k);
    all.insert(all.end(), tensor.data.begin(), tensor.data.end());
  }
  return all;
}

Bytes decode(const Bytes& frame, bool verify) {
  if (is_archive(frame)) return archive_data(frame, verify);
  return decompress(frame, {.max_output = 1 << 20, .verify = verify}).data;
}

/// Small frames that together use every pipeline, sign mode, zero mode, coder and kind of chunk.
std::vector<NamedFrame> small_frames() {
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

/// Hand-made frames of the repository, sound and malformed.
std::vector<Bytes> made_frames() {
  std::vector<Bytes> frames;
  for (const char* folder : {"/malformed", "/golden"}) {
    const std::filesystem::path path = std::string(GRADWIRE_TESTS_DIR) + folder;
    if (!std::filesystem::is_directory(path)) continue;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".gw" && entry.file_size() < 20000)
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream in(file, std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      frames.emplace_back(text.begin(), text.end());
    }
  }
  return frames;
}

constexpr std::size_t kBudget = 1 << 18;

/// Under AddressSanitizer, which is slow, every fifth bit stands for all.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kBitStep = 5;
#else
constexpr std::size_t kBitStep = 1;
#endif

/// Everything that can be asked of bytes that claim to be a frame.
void exercise(const Bytes& bytes, bool verify) {
  const DecompressOptions options{.max_output = kBudget, .verify = verify};
  const auto attempt = [](const auto& call) {
    try {
      call();
    } catch (const Error&) {
    }
  };
  attempt([&] {
    const Tensor tensor = decompress(bytes, options);
    ASSERT_EQ(tensor.data.size(), element_count(tensor.shape) * element_size(tensor.dtype));
  });
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

TEST(Hostile, TheSmallFramesAreSoundAndUseEveryPart) {
  std::string seen;
  for (const NamedFrame& frame : small_frames()) {
    EXPECT_TRUE(decode(frame.frame, true) == frame.data) << frame.name;
    if (is_archive(frame.frame)) continue;
    const TensorInfo info = tensor_info(frame.frame);
    seen += fmt::format("|{} {} {} {} {} {} {} constant{} stored{} {}\n", frame.name, info.pipeline,
                        info.prediction, info.signs, info.zeros, info.fractions, info.tables,
                        info.constant_chunks, info.stored_chunks, frame.frame.size());
  }
  for (const char* part : {" planes ", " scaled ", " kernels ", "rows+columns", "taps(a=", " raw ",
                           " tap ", " guess ", "in-band", " map ", "rows", "counted", "ans dynamic",
                           "huffman dynamic", "pairs", "gennorm", "constant1", "stored1"}) {
    EXPECT_NE(seen.find(part), std::string::npos) << part << " is not used by:\n" << seen;
  }
}

TEST(Hostile, EveryPrefixIsTruncated) {
  for (const NamedFrame& named : small_frames()) {
    for (std::size_t n = 0; n < named.frame.size(); ++n) {
      const Bytes cut(named.frame.begin(), named.frame.begin() + static_cast<std::ptrdiff_t>(n));
      const int kind = error_kind([&] { decompress(cut); });
      ASSERT_EQ(kind, static_cast<int>(ErrorKind::truncated))
          << named.name << ", " << n << " bytes";
      ASSERT_EQ(error_kind([&] { ArchiveReader reader(cut); }), kind);
      ASSERT_EQ(error_kind([&] { tensor_info(cut); }), kind);
    }
  }
}

TEST(Hostile, EveryPrefixWithItsLengthPutRightIsRefused) {
  for (const NamedFrame& named : small_frames()) {
    const std::size_t prelude = named.frame.size() - 9 < 128 ? 9 : 10;
    for (std::size_t n = prelude; n < named.frame.size(); ++n) {
      Bytes cut;
      gradwire::ByteWriter out(cut);
      out.bytes(std::span(named.frame).first(8));
      out.varint(n - prelude);
      out.bytes(std::span(named.frame).subspan(prelude, n - prelude));
      const Bytes input = exact(cut);
      for (const bool verify : {true, false}) {
        ASSERT_NE(error_kind([&] { decode(input, verify); }), 0)
            << named.name << ", " << n << " bytes";
      }
    }
  }
}

TEST(Hostile, EveryFlippedBitIsNoticed) {
  for (const NamedFrame& named : small_frames()) {
    Bytes frame = named.frame;
    for (std::size_t bit = 0; bit < 8 * frame.size(); bit += kBitStep) {
      const auto flip = static_cast<std::uint8_t>(1u << (bit & 7));
      frame[bit / 8] ^= flip;
      ASSERT_NE(error_kind([&] { decode(frame, true); }), 0)
          << named.name << ", bit " << bit % 8 << " of byte " << bit / 8;
      frame[bit / 8] ^= flip;
    }
  }
}

TEST(Hostile, EveryFlippedBitIsSafeWithoutChecksums) {
  for (const NamedFrame& named : small_frames()) {
    Bytes frame = named.frame;
    for (std::size_t bit = 0; bit < 8 * frame.size(); bit += 3 * kBitStep) {
      const auto flip = static_cast<std::uint8_t>(1u << (bit & 7));
      frame[bit / 8] ^= flip;
      exercise(frame, false);
      frame[bit / 8] ^= flip;
    }
  }
}

TEST(Hostile, ChunksAndHeadersCannotBeMovedBetweenTensors) {
  TensorMaker make(2);
  const Owned a = make(DType::u8, {70000}, Content::random_bits);
  Bytes frame = compress(a.view());
  // Stored chunks of the same length stand at the end, before the trailer of 2 x 8 bytes and its
  // head.
  Bytes swapped = frame;
  const std::size_t chunks = frame.size() - 18 - 70000;
  std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(chunks),
                   swapped.begin() + static_cast<std::ptrdiff_t>(chunks + 4464),
                   swapped.begin() + static_cast<std::ptrdiff_t>(chunks + 65536));
  expect_error(ErrorKind::corrupt, [&] { decompress(swapped); });
}

Bytes mutated(Bytes bytes, const Bytes& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit);
  };
  const auto at = [&](Bytes& b, std::size_t i) {
    return b.begin() + static_cast<std::ptrdiff_t>(i);
  };
  for (std::size_t k = 1 + below(4); k > 0 && !bytes.empty(); --k) {
    const std::size_t i = below(bytes.size());
    switch (below(8)) {
      case 0:
        bytes[i] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        bytes[i] = static_cast<std::uint8_t>(bytes[i] + 1);
        break;
      case 2:
        bytes[i] = static_cast<std::uint8_t>(bytes[i] - 1);
        break;
      case 3:
        bytes[i] = random() % 2 == 0 ? 0xFF : 0;
        break;
      case 4:
        bytes[i] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 5:
        bytes.insert(at(bytes, i), static_cast<std::uint8_t>(random()));
        break;
      case 6:
        bytes.erase(at(bytes, i));
        break;
      default:
        for (std::size_t n = below(20), from = below(other.size());
             n > 0 && from < other.size() && i + n < bytes.size(); --n) {
          bytes[i + n] = other[from++];
        }
    }
  }
  // Half of the time the frame's length is put right, so that inserted and erased bytes reach the
  // sections.
  if (bytes.size() > 10 && bytes.size() < 9 + 128 && random() % 2 == 0)
    bytes[8] = static_cast<std::uint8_t>(bytes.size() - 9);
  if (bytes.size() > 10 + 128 && bytes.size() < 10 + 16384 && random() % 2 == 0) {
    bytes[8] = static_cast<std::uint8_t>((bytes.size() - 10) | 128);
    bytes[9] = static_cast<std::uint8_t>((bytes.size() - 10) >> 7);
  }
  return bytes;
}

TEST(Hostile, RandomDamageIsSafeAndStaysWithinTheBudget) {
  std::vector<Bytes> seeds = made_frames();
  for (const NamedFrame& named : small_frames()) seeds.push_back(named.frame);
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 20000; ++trial) {
    const Bytes input =
        exact(mutated(seeds[random() % seeds.size()], seeds[random() % seeds.size()], random));
    largest_request = 0;
    exercise(input, random() % 4 == 0);
    // Buffers of one chunk of 65536 elements, and lines of a view of at most n / 4 + 65536.
    ASSERT_LE(largest_request.load(), std::size_t{2} << 20) << "trial " << trial;
  }
}

TEST(Hostile, RandomBytesBehindASoundPreludeAreSafe) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 20000; ++trial) {
    Bytes body;
    // Sections in order, of random content.
    for (unsigned id = 1; id <= 9; ++id) {
      if (id > 1 && random() % 3 == 0) continue;
      const std::size_t n = random() % 30;
      body.push_back(static_cast<std::uint8_t>(id));
      body.push_back(static_cast<std::uint8_t>(n));
      for (std::size_t k = 0; k < n; ++k)
        body.push_back(static_cast<std::uint8_t>(random() % (random() % 2 == 0 ? 4 : 256)));
    }
    if (body.size() > 127) body.resize(127);
    Bytes frame{'G', 'R', 'D', 'W', 0, 1, 0, 0, static_cast<std::uint8_t>(body.size())};
    frame.insert(frame.end(), body.begin(), body.end());
    largest_request = 0;
    exercise(exact(frame), true);
    ASSERT_LE(largest_request.load(), std::size_t{2} << 20) << "trial " << trial;
  }
}

/// A frame of any header and sections, without checksums.
Bytes made_frame(const frame::TensorHeader& header,
                 const std::vector<std::pair<frame::Section, Bytes>>& sections) {
  Bytes body, tensor, frame;
  ByteWriter tensor_out(tensor), body_out(body), out(frame);
  frame::write_tensor_header(header, tensor_out);
  frame::write_section(frame::Section::tensor, tensor, body_out);
  for (const auto& [id, payload] : sections) frame::write_section(id, payload, body_out);
  frame::write_section(frame::Section::trailer, Bytes(16), body_out);
  frame::write_prelude(0, body.size(), out);
  out.bytes(body);
  return exact(frame);
}

/// Index entries of constant chunks of zeros: two bytes for each 65536 elements.
Bytes constant_index(std::uint64_t chunks) {
  Bytes index;
  for (std::uint64_t c = 0; c < chunks; ++c) {
    index.push_back(2);
    index.push_back(0);
  }
  return index;
}

TEST(Budget, IsCheckedBeforeMemoryIsAskedFor) {
  frame::TensorHeader header;
  header.dtype = DType::f32;
  header.dims = {std::uint64_t{1} << 40};
  header.elements = std::uint64_t{1} << 40;
  header.pipeline = frame::Pipeline::scaled;
  const Bytes frame =
      made_frame(header, {{frame::Section::index, {}}, {frame::Section::chunks, {}}});
  ASSERT_LT(frame.size(), 64u);
  largest_request = 0;
  expect_error(ErrorKind::limit, [&] { decompress(frame); });
  EXPECT_LT(largest_request.load(), 10000u);
  // What reads the header only has no output to refuse, but must not believe the count of chunks
  // either.
  largest_request = 0;
  expect_error(ErrorKind::corrupt, [&] { tensor_info(frame); });
  expect_error(ErrorKind::corrupt, [&] { decompress_range(frame, 0, 1); });
  EXPECT_LT(largest_request.load(), 10000u);
}

TEST(Budget, ConstantChunksCannotMakeMoreThanIsAllowed) {
  frame::TensorHeader header;
  header.dtype = DType::f64;
  header.dims = {std::uint64_t{1} << 30};
  header.elements = std::uint64_t{1} << 30;
  header.pipeline = frame::Pipeline::scaled;
  const Bytes frame = made_frame(
      header, {{frame::Section::index, constant_index(1 << 14)}, {frame::Section::chunks, {}}});
  largest_request = 0;
  expect_error(ErrorKind::limit, [&] { decompress(frame); });
  expect_error(ErrorKind::limit, [&] { decompress_range(frame, 0, header.elements); });
  EXPECT_EQ(decompress_range(frame, (1 << 30) - 5, 1 << 30, {.max_output = 40}), Bytes(40));
  EXPECT_EQ(tensor_info(frame).elements, header.elements);
  EXPECT_LT(largest_request.load(), std::size_t{4} << 20);
}

TEST(Budget, CoversTheLinesOfAView) {
  // 2^32 elements in constant chunks, a view of 2^30 rows: `dead` says in three bytes that none is
  // dead.
  frame::TensorHeader header;
  header.dtype = DType::bf16;
  header.dims = {std::uint64_t{1} << 32};
  header.elements = std::uint64_t{1} << 32;
  header.pipeline = frame::Pipeline::scaled;
  header.scaled.columns = 4;
  const Bytes frame = made_frame(header, {{frame::Section::dead, {1, 2, 0}},
                                          {frame::Section::index, constant_index(1 << 16)},
                                          {frame::Section::chunks, {}}});
  largest_request = 0;
  expect_error(ErrorKind::limit, [&] { decompress_range(frame, 0, 1, {.max_output = 1 << 20}); });
  expect_error(ErrorKind::limit, [&] { tensor_info(frame); });
  EXPECT_LT(largest_request.load(), std::size_t{4} << 20);
}

}  // namespace
}  // namespace gradwire::testing
