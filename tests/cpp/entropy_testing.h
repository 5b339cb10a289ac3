// What the tests of src/stages/entropy share: seeded symbols, histograms and buffers of exact size,
// so that the address sanitizer sees every byte read or written out of turn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "gradwire/error.h"
#include "stages/entropy/sequence.h"

namespace gradwire::entropy::testing {

using Symbols = std::vector<std::uint8_t>;

inline std::uint64_t below(std::mt19937_64& random, std::uint64_t limit) {
  return random() % limit;
}

/// Symbols below `alphabet`; `skew` 1 is uniform, higher values favour the low ones.
inline Symbols random_symbols(std::mt19937_64& random, std::size_t n, unsigned alphabet,
                              double skew) {
  Symbols symbols(n);
  for (auto& symbol : symbols) {
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    symbol = static_cast<std::uint8_t>(std::pow(uniform, skew) * alphabet);
  }
  return symbols;
}

/// Counts of the symbols, or of the joint symbols of pairs with the phantom of an odd end.
inline std::vector<std::uint32_t> counts_of(const Symbols& symbols, unsigned alphabet, bool pairs) {
  std::vector<std::uint32_t> counts(pairs ? 256 : alphabet);
  if (!pairs) {
    for (const auto symbol : symbols) ++counts[symbol];
    return counts;
  }
  for (std::size_t i = 0; i < symbols.size(); i += 2) {
    const unsigned second = i + 1 < symbols.size() ? symbols[i + 1] : 0;
    ++counts[symbols[i] | second << 4];
  }
  return counts;
}

inline std::vector<std::uint64_t> weights_of(const std::vector<std::uint32_t>& counts) {
  return {counts.begin(), counts.end()};
}

inline Table table_for(const Symbols& symbols, unsigned alphabet, CoderId coder, bool pairs) {
  const auto weights = weights_of(counts_of(symbols, alphabet, pairs));
  Table table;
  table.coder = coder;
  table.pairs = pairs;
  table.alphabet = static_cast<std::uint16_t>(alphabet);
  table.values =
      coder == CoderId::huffman ? code_lengths(weights) : normalised_frequencies(weights);
  return table;
}

/// Streams as they lie in a frame, with no more than the promised slack behind them.
struct Encoded {
  Symbols bytes;
  std::vector<std::uint16_t> sizes;
  std::size_t size() const { return bytes.size() - kReadSlack; }
};

inline Encoded encode(const Table& table, const Symbols& symbols, unsigned streams_log2) {
  Encoded result;
  Symbols room(encode_room(symbols.size()));
  result.sizes.resize(stream_count(table, streams_log2));
  const std::size_t size = make_encoder(table)->encode(symbols.data(), symbols.size(), streams_log2,
                                                       room.data(), result.sizes.data());
  EXPECT_NE(size, SIZE_MAX);
  // Made at its final size: a vector that grew would own more than it shows.
  result.bytes = Symbols(size + kReadSlack, 0xA5);
  std::copy_n(room.begin(), size, result.bytes.begin());
  return result;
}

inline bool decode(const SequenceDecoder& decoder, const Encoded& encoded, unsigned streams_log2,
                   Symbols& symbols) {
  return decoder.decode(encoded.bytes.data(), encoded.sizes, symbols.size(), streams_log2,
                        symbols.data());
}

inline void expect_round_trip(const Table& table, const Symbols& symbols, unsigned streams_log2) {
  const Encoded encoded = encode(table, symbols, streams_log2);
  Symbols decoded(symbols.size(), 0xEE);
  ASSERT_TRUE(decode(*make_decoder(table), encoded, streams_log2, decoded));
  ASSERT_EQ(decoded, symbols);
}

/// Damages streams at random, `trials` times. What a decoder accepts must at least be symbols.
inline void expect_safe_when_damaged(const Table& table, const Symbols& symbols,
                                     unsigned streams_log2, unsigned alphabet, int trials) {
  std::mt19937_64 random(symbols.size() + streams_log2);
  const Encoded good = encode(table, symbols, streams_log2);
  const auto decoder = make_decoder(table);
  for (int trial = 0; trial < trials; ++trial) {
    Encoded bad = good;
    for (std::uint64_t flips = below(random, 4); flips-- > 0 && good.size() > 0;) {
      auto& byte = bad.bytes[below(random, good.size())];
      byte = static_cast<std::uint8_t>(byte ^ 1u << below(random, 8));
    }
    if (trial % 3 == 0) {  // move bytes from one stream to another, or cut them off
      auto& size = bad.sizes[below(random, bad.sizes.size())];
      size = static_cast<std::uint16_t>(size - std::min<std::uint64_t>(size, below(random, 40)));
    }
    Symbols decoded(symbols.size(), 0xEE);
    if (!decode(*decoder, bad, streams_log2, decoded)) continue;
    for (const auto symbol : decoded) ASSERT_LT(symbol, alphabet);
  }
}

inline double entropy_bits(const std::vector<std::uint32_t>& counts) {
  double total = 0;
  double bits = 0;
  for (const double count : counts) total += count;
  for (const double count : counts) {
    if (count > 0) bits -= count * std::log2(count / total);
  }
  return bits;
}

/// The kind of the error that `call` throws; fails when there is none or no field is named.
inline ErrorKind kind_of_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("at byte"), std::string::npos) << error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error was thrown";
  return ErrorKind::io;
}

/// Runs a reader over random bytes: it may refuse them, in the ways that a frame can be refused.
inline void expect_only_refusals(const std::function<void(ByteReader&)>& read, int trials,
                                 unsigned max_first = 255) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < trials; ++trial) {
    Bytes bytes(below(random, 60));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (!bytes.empty()) bytes[0] = static_cast<std::uint8_t>(below(random, max_first + 1));
    ByteReader in(bytes);
    try {
      read(in);
    } catch (const Error& error) {
      ASSERT_TRUE(error.kind() == ErrorKind::truncated || error.kind() == ErrorKind::corrupt ||
                  error.kind() == ErrorKind::unsupported)
          << error.what();
    }
  }
}

}  // namespace gradwire::entropy::testing
