// Prebuilt tables: training them, and what they do for small tensors.
#include "lossless/table_trainer.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entropy_testing.h"
#include "gradwire/compress.h"
#include "gradwire/frame.h"
#include "gradwire/tables.h"
#include "stages/entropy/huffman.h"
#include "stages/entropy/static_tables.h"

namespace gradwire {
namespace {

using entropy::StaticTable;
using ::testing::HasSubstr;

/// bf16 values whose magnitudes spread over some octaves, as gradients do.
Tensor made_up_tensor(std::vector<std::uint64_t> shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor tensor{DType::bf16, shape, {}};
  const std::uint64_t n =
      std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
  for (std::uint64_t i = 0; i < n; ++i) {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += static_cast<double>(random() >> 11) * 0x1p-53;
    const auto value = static_cast<float>(sum * 1e-3);
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    tensor.data.push_back(static_cast<std::uint8_t>(word >> 16 & 255));
    tensor.data.push_back(static_cast<std::uint8_t>(word >> 24));
  }
  return tensor;
}

TensorView view(const Tensor& tensor) { return {tensor.dtype, tensor.shape, tensor.data}; }

/// One tensor of a safetensors file of tests/data whose dtype is `dtype`, cut out by offsets.
std::vector<Tensor> sample_tensors(const std::string& name) {
  std::ifstream file(std::string(GRADWIRE_TESTS_DIR) + "/data/" + name + ".safetensors",
                     std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<Tensor> tensors;
  if (bytes.size() < 8) return tensors;
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const std::string header(bytes.data() + 8, length);
  const auto numbers = [&](std::size_t at) {
    std::vector<std::uint64_t> list;
    for (at = header.find('[', at) + 1; header[at - 1] != ']';) {
      std::size_t used = 0;
      if (header[at] == ']') break;
      list.push_back(std::stoull(header.substr(at, 20), &used));
      at += used + 1;
    }
    return list;
  };
  for (std::size_t at = 0; (at = header.find("\"dtype\":\"", at)) != std::string::npos; ++at) {
    const std::size_t word = at + 9;
    Tensor tensor;
    tensor.dtype = parse_dtype(header.substr(word, header.find('"', word) - word));
    tensor.shape = numbers(header.find("\"shape\"", at));
    const auto offsets = numbers(header.find("\"data_offsets\"", at));
    const auto data = bytes.begin() + 8 + static_cast<std::ptrdiff_t>(length);
    tensor.data.assign(data + static_cast<std::ptrdiff_t>(offsets[0]),
                       data + static_cast<std::ptrdiff_t>(offsets[1]));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// Tensors of 0.5 KiB to 16 KiB that the family was not trained on.
std::vector<Tensor> small_tensors() {
  std::vector<Tensor> small;
  for (const char* name : {"gpt-bf16-mid-r0", "resnet18-bf16-mid-r0"}) {
    for (const Tensor& tensor : sample_tensors(name)) {
      for (std::size_t bytes = 512; bytes <= 16384; bytes *= 2) {
        for (Tensor& piece : lossless::cut_pieces(view(tensor), bytes, 2)) {
          small.push_back(std::move(piece));
        }
      }
    }
  }
  return small;
}

std::vector<std::uint8_t> compressed(const Tensor& tensor, Tables tables) {
  CompressOptions options;
  options.tables = tables;
  return compress(view(tensor), options);
}

lossless::HistogramCollector trained_collector() {
  lossless::HistogramCollector collector{CompressOptions{}};
  collector.add(view(made_up_tensor({64, 128}, 1)));
  collector.add(view(made_up_tensor({32, 16, 3, 3}, 2)));
  collector.add(view(made_up_tensor({700}, 3)));
  return collector;
}

TEST(CutPieces, AreWholeRowsWhereARowFits) {
  const Tensor tensor = made_up_tensor({64, 96, 2}, 1);
  const auto pieces = lossless::cut_pieces(view(tensor), 1024, 100);
  ASSERT_EQ(pieces.size(), 64u / 2);  // a row has 384 bytes
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    EXPECT_EQ(pieces[k].shape, (std::vector<std::uint64_t>{2, 96, 2}));
    ASSERT_EQ(pieces[k].data.size(), 768u);
    EXPECT_EQ(std::memcmp(pieces[k].data.data(), tensor.data.data() + 768 * k, 768), 0);
  }
}

TEST(CutPieces, ArePartsOfOneRowWhereItDoesNot) {
  const Tensor tensor = made_up_tensor({3, 700}, 1);
  const auto pieces = lossless::cut_pieces(view(tensor), 512, 100);
  ASSERT_EQ(pieces.size(), 3u * 2);  // a row has 1400 bytes
  EXPECT_EQ(pieces[3].shape, (std::vector<std::uint64_t>{256}));
  EXPECT_EQ(std::memcmp(pieces[3].data.data(), tensor.data.data() + 1400 + 512, 512), 0);
  EXPECT_EQ(lossless::cut_pieces(view(tensor), 512, 2).size(), 2u);
  EXPECT_TRUE(lossless::cut_pieces(view(tensor), 3 * 1400, 100).empty()) << "that is the whole";
}

TEST(ClusterTables, SeparateWhatDiffers) {
  std::vector<entropy::ScaledHistogram> members;
  for (std::uint32_t i = 0; i < 100; ++i) {
    std::vector<std::uint32_t> counts(16, 1);
    counts[i < 60 ? 2 : 11] = 500 + i;
    members.push_back(entropy::scale_histogram(counts));
  }
  const auto tables = entropy::cluster_tables(members, 16, 2);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_GT(tables[0][2], 3500) << "the one with the most members comes first";
  EXPECT_GT(tables[1][11], 3500);
  EXPECT_EQ(entropy::cluster_tables(members, 16, 1).size(), 1u);
  EXPECT_TRUE(entropy::cluster_tables({}, 16, 4).empty());
}

TEST(ClusterTables, StopWhenNothingIsLeftToGain) {
  const std::vector<std::uint32_t> counts(16, 10);
  const std::vector<entropy::ScaledHistogram> members(20, entropy::scale_histogram(counts));
  EXPECT_EQ(entropy::cluster_tables(members, 16, 8).size(), 1u);
}

TEST(TableTrainer, CodesEverySymbolWithEveryTable) {
  const auto family = trained_collector().family(4);
  ASSERT_FALSE(family.empty());
  std::uint64_t previous = 0;
  for (const StaticTable& table : family) {
    EXPECT_GT(table.id, previous);
    previous = table.id;
    const unsigned symbols = table.pairs ? entropy::kMaxSymbols : table.alphabet;
    unsigned sum = 0;
    for (unsigned s = 0; s < entropy::kMaxSymbols; ++s) {
      sum += table.frequencies[s];
      EXPECT_EQ(table.frequencies[s] > 0, s < symbols) << table.id << ", symbol " << s;
    }
    EXPECT_EQ(sum, 4096u);
  }
}

TEST(TableTrainer, GivesTheSameFamilyAgain) {
  std::string first;
  for (int round = 0; round < 2; ++round) {
    CompressOptions options;
    options.threads = 1 + round;
    TableTrainer trainer(options);
    trainer.add(view(made_up_tensor({64, 128}, 1)));
    trainer.add(view(made_up_tensor({32, 16, 3, 3}, 2)));
    const std::string family = trainer.family(4, "from seeds 1 and 2\nand no more\n");
    if (round == 0) first = family;
    EXPECT_EQ(family, first);
  }
  EXPECT_THAT(first, HasSubstr("// from seeds 1 and 2\n// and no more\n"));
  EXPECT_THAT(first, HasSubstr("\n{1,16,0,{"));
}

TEST(TableTrainer, IgnoresWhatThePlanesPipelineTakes) {
  TableTrainer trainer;
  const std::vector<std::uint64_t> shape{4096};
  const std::vector<std::uint8_t> data(4096, 7);
  trainer.add({DType::u8, shape, data});
  EXPECT_EQ(trainer.family(4, "").find("\n{"), std::string::npos);
}

TEST(TableTrainer, RefusesToMakeNoTables) {
  try {
    TableTrainer().family(0, "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  }
}

TEST(StaticFamily, CodesEverySymbolAndHasItsHash) {
  for (const StaticTable& table : entropy::static_tables()) {
    const unsigned symbols = table.pairs ? entropy::kMaxSymbols : table.alphabet;
    for (unsigned s = 0; s < symbols; ++s) {
      EXPECT_GT(table.frequencies[s], 0) << table.id << ", symbol " << s;
      EXPECT_GT(entropy::static_code(table).lengths[s], 0) << table.id << ", symbol " << s;
    }
  }
  EXPECT_EQ(static_family_size(), entropy::static_tables().size());
  EXPECT_EQ(static_family_hash(), 0x962cbc35319b932c) << "docs/format.md 4.5 has this hash";
}

TEST(StaticFamily, DecodesAfterARoundTrip) {
  std::mt19937_64 random(3);
  for (const StaticTable& family : entropy::static_tables()) {
    for (const auto coder : {entropy::CoderId::huffman, entropy::CoderId::ans}) {
      entropy::Table table;
      table.source = entropy::Source::fixed;
      table.coder = coder;
      table.pairs = family.pairs;
      table.static_id = family.id;
      entropy::resolve(table, family.alphabet, "test");
      const auto symbols = entropy::testing::random_symbols(random, 1000, family.alphabet, 2);
      entropy::testing::expect_round_trip(table, symbols, 1);
    }
  }
}

TEST(StaticFamily, ServesSmallTensorsItWasNotTrainedOn) {
  std::map<Tables, std::size_t> sizes;
  std::size_t with_static = 0;
  const auto tensors = small_tensors();
  ASSERT_GT(tensors.size(), 100u);
  for (const Tensor& tensor : tensors) {
    std::map<Tables, std::size_t> now;
    for (const Tables tables : {Tables::dynamic, Tables::fixed, Tables::hybrid}) {
      const auto frame = compressed(tensor, tables);
      now[tables] = frame.size();
      ASSERT_EQ(decompress(frame).data, tensor.data);
      if (tables == Tables::hybrid) {
        with_static += tensor_info(frame).tables.find("static") != std::string::npos;
      }
    }
    // The choice compares bits; each of the tensor's streams is then filled up to a byte.
    const std::size_t streams = tensor.data.size() / 2 < 2048   ? 1
                                : tensor.data.size() / 2 < 8192 ? 2
                                                                : 8;
    EXPECT_LT(now[Tables::hybrid], now[Tables::dynamic] + streams) << tensor.data.size();
    EXPECT_LT(now[Tables::hybrid], now[Tables::fixed] + streams) << tensor.data.size();
    for (const auto& [tables, size] : now) sizes[tables] += size;
  }
  EXPECT_GT(with_static * 2, tensors.size());
  EXPECT_LT(sizes[Tables::hybrid] * 1000, sizes[Tables::dynamic] * 997);
}

TEST(StaticFamily, HasNoTableOfAnUnknownId) {
  const Tensor tensor = small_tensors().front();
  CompressOptions options;
  options.tables = Tables::fixed;
  options.checksum = false;
  const auto frame = compress(view(tensor), options);
  const std::string used = tensor_info(frame).tables;
  ASSERT_THAT(used, HasSubstr("static"));
  // `tables` is section 2: its id, its length, count 1, form, base, and last the table's id.
  const auto id = static_cast<std::uint8_t>(std::stoul(used.substr(used.find("static ") + 7)));
  for (std::size_t at = 8; at + 6 < frame.size(); ++at) {
    if (frame[at] != 2 || frame[at + 1] < 4 || frame[at + 1] > 6 || frame[at + 2] != 1) continue;
    const std::size_t last = at + 1 + frame[at + 1];
    if (last >= frame.size() || frame[last] != id) continue;
    auto changed = frame;
    changed[last] = 127;
    try {
      decompress(changed);
      FAIL() << "a table was found";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      EXPECT_THAT(error.what(), HasSubstr("static table 127"));
    }
    return;
  }
  FAIL() << "no tables section";
}

}  // namespace
}  // namespace gradwire
