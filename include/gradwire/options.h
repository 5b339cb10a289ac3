// What a caller may ask of the codec, and the limits a decoder keeps.
#pragma once

#include <cstdint>
#include <string_view>

namespace gradwire {

/// Entropy coder of symbols. `automatic`: huffman unless ans saves 1 % or more of the chunk bytes.
enum class Coder : std::uint8_t { automatic, huffman, ans, stored };

/// Where code tables come from. `hybrid`: the cheaper of dynamic and static by exact cost.
enum class Tables : std::uint8_t { hybrid, dynamic, fixed, gennorm };

Coder parse_coder(std::string_view name);    ///< "auto", "huffman", "ans", "stored"
Tables parse_tables(std::string_view name);  ///< "hybrid", "dynamic", "static", "gennorm"

/// Where zeros are noted. `automatic`: the cheapest by exact size.
enum class Zeros : std::uint8_t { automatic, none, in_band, runs, bitmap };

struct CompressOptions {
  int level = 2;  ///< 1 published exponent coding, 2 scales and signs predicted, 3 values predicted
  Coder coder = Coder::automatic;
  Tables tables = Tables::hybrid;
  Zeros zeros = Zeros::automatic;  ///< for study; leave it automatic
  bool pairs = true;               ///< allow joint codes of neighbours
  bool checksum = true;            ///< XXH3-64 over headers and decoded chunks
  int threads = 1;                 ///< chunks are shared out; the bytes do not depend on it
};

struct DecompressOptions {
  std::uint64_t max_output = 0;  ///< bytes; 0 means max(1 GiB, 64 x input)
  bool verify = true;            ///< compare checksums where the frame has them
  int threads = 1;
};

}  // namespace gradwire
