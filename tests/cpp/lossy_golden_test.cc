// The golden frames of lossy bodies (tests/golden/lossy-*.gw) hold what was sent. With
// GRADWIRE_WRITE_GOLDEN=FOLDER in the environment the frames are written there: that is what
// tools/make_golden.py does.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "lossy_frames_testing.h"

namespace gradwire::lossy::testing {
namespace {

struct Golden {
  std::string name;
  Sent sent;
  bool checksums = true;
};

struct Form {
  const char* name;
  ValueCoding coding;  ///< none: f32, or a table
};

std::vector<Form> all_forms() {
  using enum QuantiserKind;
  const auto kind = [](QuantiserKind of, std::size_t bucket) {
    QuantiseOptions options{.kind = of, .bucket_values = bucket};
    if (of == sign) options.norm = Norm::l1;
    return options;
  };
  QuantiseOptions wide = kind(uniform, 0);
  wide.levels = 1000;
  return {{"f32", {}},
          {"bf16", kind(bf16, 0)},
          {"f16", kind(f16, 0)},
          {"natural", kind(natural, 0)},
          {"uniform", kind(uniform, 16)},
          {"uniform-wide", wide},
          {"sign", kind(sign, 0)},
          {"ternary", kind(ternary, 64)},
          {"e4m3", kind(e4m3, 10)},
          {"e5m2", kind(e5m2, 0)},
          {"table", {}}};
}

Coded coded_of(const Form& form, std::size_t k, std::uint64_t seed) {
  if (std::string(form.name) == "table") return table_values(k, 13, 20, seed);
  CodeMemory memory;
  Coded coded;
  EXPECT_TRUE(code_values(random_values(k, seed), form.coding, {seed, 0}, memory, coded));
  return coded;
}

constexpr std::array<const char*, 4> kSelections{"all", "flags", "gaps", "drawn"};

Sent choose(Selection selection, std::uint64_t n, std::uint64_t seed) {
  Sent sent{.dtype = DType::f32, .dims = {n}, .selection = selection};
  if (selection == Selection::flags) sent.indices = some(n, 3, seed);
  if (selection == Selection::gaps) sent.indices = some(n, 30, seed);
  if (selection == Selection::drawn) sent.indices = drawn(n, n / 10, seed);
  sent.seed = selection == Selection::drawn ? seed : 0;
  return sent;
}

std::size_t count_of(const Sent& sent) {
  return sent.selection == Selection::all ? static_cast<std::size_t>(sent.elements())
                                          : sent.indices.size();
}

/// Every selection with every form of values; dtypes take turns.
void add_crossed(std::vector<Golden>& list) {
  constexpr std::array<DType, 3> kDtypes{DType::f32, DType::bf16, DType::f16};
  std::size_t turn = 0;
  const std::vector<Form> forms = all_forms();
  for (unsigned s = 0; s < kSelections.size(); ++s) {
    for (std::size_t f = 0; f < forms.size(); ++f) {
      const auto selection = static_cast<Selection>(s);
      const std::uint64_t n = selection == Selection::all ? 70 : 400;
      Sent sent = choose(selection, n, 10 * s + f);
      sent.dtype = kDtypes[turn++ % kDtypes.size()];
      sent.coded = coded_of(forms[f], count_of(sent), 100 + f);
      list.push_back({std::string(kSelections[s]) + "-" + forms[f].name, sent});
    }
    ++turn;  // another dtype for each form
  }
}

/// Values enough to be coded, scales that are, gaps in every code, runs.
void add_large(std::vector<Golden>& list) {
  const std::vector<Form> forms = all_forms();
  for (const std::size_t f : {1u, 4u, 5u, 8u, 10u}) {
    Sent sent = choose(Selection::flags, 2400, f);
    sent.coded = coded_of(forms[f], count_of(sent), f);
    list.push_back({std::string("coded-") + forms[f].name, sent, f % 2 == 0});
  }
  for (const std::size_t f : {1u, 3u, 6u}) {  // coded as tensors of their own dims
    Sent matrix{.dtype = DType::f32, .dims = {40, 60}};
    matrix.coded = coded_of(forms[f], 2400, f);
    list.push_back({std::string("matrix-") + forms[f].name, matrix});
  }
  Sent sparse{.dtype = DType::bf16, .dims = {300, 1000}, .selection = Selection::gaps};
  sparse.indices = some(300000, 1000, 5);
  sparse.coded = coded_of(forms[2], sparse.indices.size(), 5);
  list.push_back({"gaps-rice", sparse});
  Sent clustered = sparse;
  clustered.dims = {40, 50, 1};
  clustered.indices.clear();
  for (std::uint32_t i = 0; i < 64; ++i) clustered.indices.push_back(600 + i + (i < 40 ? 0 : 700));
  clustered.coded = coded_of(forms[1], 64, 6);
  list.push_back({"gaps-classes", clustered});
  Sent even = sparse;
  even.dims = {900};
  even.indices.clear();
  for (std::uint32_t i = 0; i < 30; ++i) even.indices.push_back(7 + 8 * i);
  even.coded = coded_of(forms[0], 30, 7);
  list.push_back({"gaps-equal", even});
  Sent runs{.dtype = DType::f16, .dims = {2, 1000}, .selection = Selection::flags};
  for (std::uint32_t i = 0; i < 1500; ++i)
    if (i % 300 < 150 + i % 7) runs.indices.push_back(i + 3);
  runs.coded = coded_of(forms[6], runs.indices.size(), 8);
  list.push_back({"flags-runs", runs});
}

void add_edges(std::vector<Golden>& list) {
  const std::vector<Form> forms = all_forms();
  list.push_back({"none-selected", choose(Selection::gaps, 10, 0)});
  list.back().sent.indices.clear();
  Sent scalar{.dtype = DType::bf16, .dims = {}};
  scalar.coded = coded_of(forms[4], 1, 3);
  list.push_back({"scalar", scalar});
  for (const std::size_t k : {1u, 33u, 34u, 66u, 67u}) {
    Sent sent{.dtype = DType::f16, .dims = {67}, .selection = Selection::drawn, .seed = 77 + k};
    sent.indices = drawn(67, k, sent.seed);
    sent.coded = coded_of(forms[1], k, k);
    list.push_back({"drawn-" + std::to_string(k) + "-of-67", sent, false});
  }
  // What is beyond a type, halfway between two of its numbers, subnormal, or a negative zero.
  const std::vector<float> values{
      3.4e38F,   -3.39e38F, 65519.0F,  65520.0F, -1e6F,       0x1p-24F,    0x1p-25F, 0x3p-25F,
      0x1p-133F, 0x3p-134F, 0x1p-149F, -0.0F,    1.00390625F, 1.01171875F, -2049.0F, 2051.0F};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Sent sent{.dtype = dtype, .dims = {4, 4}};
    for (const std::size_t f : {0u, 2u}) {
      CodeMemory memory;
      EXPECT_TRUE(code_values(values, forms[f].coding, {0, 0}, memory, sent.coded));
      list.push_back(
          {std::string("edges-") + forms[f].name + "-" + std::string(dtype_name(dtype)), sent});
    }
  }
  for (Golden& golden : list)
    if (golden.name == "none-selected") golden.sent.coded = {};
}

const std::vector<Golden>& all_golden() {
  static const std::vector<Golden> made = [] {
    std::vector<Golden> list;
    add_crossed(list);
    add_large(list);
    add_edges(list);
    return list;
  }();
  return made;
}

std::filesystem::path file_of(const std::filesystem::path& folder, const Golden& golden) {
  return folder / ("lossy-" + golden.name + ".gw");
}

TEST(LossyGolden, FramesDecodeToWhatWasSent) {
  for (const Golden& golden : all_golden())
    EXPECT_EQ(decode_frame(frame_of(golden.sent, golden.checksums)), elements_of(golden.sent))
        << golden.name;
}

TEST(LossyGolden, FilesDecodeToWhatWasSent) {
  if (const char* folder = std::getenv("GRADWIRE_WRITE_GOLDEN")) {
    for (const Golden& golden : all_golden()) {
      const Bytes frame = frame_of(golden.sent, golden.checksums);
      std::ofstream out(file_of(folder, golden), std::ios::binary);
      out.write(reinterpret_cast<const char*>(frame.data()),
                static_cast<std::streamsize>(frame.size()));
    }
    GTEST_SKIP() << "files were written";
  }
  for (const Golden& golden : all_golden()) {
    std::ifstream in(file_of(std::string(GRADWIRE_TESTS_DIR) + "/golden", golden),
                     std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    ASSERT_FALSE(text.empty()) << golden.name;
    EXPECT_EQ(decode_frame(Bytes(text.begin(), text.end())), elements_of(golden.sent))
        << golden.name;
  }
}

}  // namespace
}  // namespace gradwire::lossy::testing
