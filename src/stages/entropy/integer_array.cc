#include "stages/entropy/integer_array.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "base/bits.h"
#include "base/fail.h"
#include "stages/entropy/huffman.h"
#include "stages/entropy/rice.h"

namespace gradwire::entropy {
namespace {

enum Mode : std::uint8_t {
  kEqual = 0,
  kValues = 1,
  kDeltas = 2,
  kCodedBytes = 3,
  kPlainBytes = 4,
  kRice = 5
};

// --- class symbols -----------------------------------------------------------------

/// Values of t below this are symbols themselves; larger ones share a symbol by their two top bits.
constexpr std::uint32_t kDirectSymbols = 32;
constexpr unsigned kClassSymbols = 86;

constexpr unsigned class_symbol(std::uint32_t t) {
  if (t < kDirectSymbols) return t;
  const unsigned top = static_cast<unsigned>(std::bit_width(t)) - 1;
  return kDirectSymbols + 2 * (top - 5) + (t >> (top - 1) & 1);
}

constexpr unsigned extra_bits(unsigned symbol) {
  return symbol < kDirectSymbols ? 0 : 4 + (symbol - kDirectSymbols) / 2;
}

/// The smallest t of a class.
constexpr std::uint32_t class_begin(unsigned symbol) {
  if (symbol < kDirectSymbols) return symbol;
  return (2 + (symbol & 1)) << extra_bits(symbol);
}

// --- one Huffman code and its single stream ------------------------------------------

using Histogram = std::array<std::uint64_t, kMaxSymbols>;

unsigned last_symbol(const Values& lengths) {
  unsigned last = kMaxSymbols - 1;
  while (last > 0 && lengths[last] == 0) --last;
  return last;
}

void write_code(const Values& lengths, ByteWriter& out) {
  const unsigned last = last_symbol(lengths);
  out.u8(static_cast<std::uint8_t>(last));
  for (unsigned s = 0; s <= last; s += 2) {
    const unsigned next = s < last ? lengths[s + 1] : 0u;
    out.u8(static_cast<std::uint8_t>(lengths[s] | next << 4));
  }
}

/// Symbols, their code, and what both take.
struct CodedStream {
  explicit CodedStream(Bytes all) : symbols(std::move(all)) {
    Histogram histogram{};
    for (const std::uint8_t s : symbols) ++histogram[s];
    lengths = quick_code_lengths(histogram);
    std::size_t bits = 0;
    for (std::size_t s = 0; s < kMaxSymbols; ++s) bits += histogram[s] * lengths[s];
    stream_bytes = (bits + 7) / 8;
    bytes = 1 + (last_symbol(lengths) / 2 + 1) + varint_size(stream_bytes) + stream_bytes;
  }

  Bytes symbols;
  Values lengths;
  std::size_t stream_bytes = 0;
  std::size_t bytes = 0;  ///< of code and stream
};

void write_stream(const CodedStream& coded, ByteWriter& out) {
  write_code(coded.lengths, out);
  Bytes stream(stream_room(coded.symbols.size()));
  stream.resize(HuffmanEncoder(coded.lengths, false)
                    .encode_stream(coded.symbols.data(), coded.symbols.size(), stream.data()));
  out.varint(stream.size());
  out.bytes(stream);
}

Values read_code(ByteReader& in, unsigned symbols, const char* field) {
  const std::size_t start = in.offset();
  const unsigned last = in.u8(field);
  if (last >= symbols) {
    fail(ErrorKind::corrupt, "{} at byte {}: largest symbol {} found, at most {} allowed", field,
         start, last, symbols - 1);
  }
  const ByteSpan nibbles = in.bytes(field, last / 2 + 1);
  Values lengths{};
  for (unsigned s = 0; s < 2 * nibbles.size(); ++s) {
    const unsigned length = nibbles[s / 2] >> (4 * (s & 1)) & 15;
    if (length > (s <= last ? kMaxCodeLength : 0)) {
      fail(ErrorKind::corrupt, "{} at byte {}: code length {} found, at most {} allowed", field,
           start + 1 + s / 2, length, s <= last ? kMaxCodeLength : 0);
    }
    lengths[s] = static_cast<std::uint16_t>(length);
  }
  if (!is_complete_code(lengths)) {
    fail(ErrorKind::corrupt,
         "{} at byte {}: code lengths are not those of a complete code (Kraft sum {}/{})", field,
         start, kraft_sum(lengths), 1u << kMaxCodeLength);
  }
  return lengths;
}

/// From here on a stream pays for the table of the fast decoder.
constexpr std::size_t kLongStream = 4096;

bool decode_symbols(ByteSpan stream, std::size_t bytes_behind, const Values& lengths,
                    std::span<std::uint8_t> symbols) {
  if (symbols.size() < kLongStream) return decode_short_stream(lengths, stream, symbols);
  Bytes with_slack;
  const std::uint8_t* src = stream.data();
  if (bytes_behind < kReadSlack) {
    with_slack.resize(stream.size() + kReadSlack);
    std::copy(stream.begin(), stream.end(), with_slack.begin());
    src = with_slack.data();
  }
  return HuffmanDecoder(lengths, false)
      .decode_stream(src, stream.size(), symbols.size(), symbols.data());
}

void read_stream(ByteReader& in, unsigned code_symbols, std::span<std::uint8_t> symbols,
                 const char* field) {
  const Values lengths = read_code(in, code_symbols, field);
  const std::size_t start = in.offset();
  const std::uint64_t bytes = in.varint(field);
  const std::uint64_t most = (symbols.size() * kMaxCodeLength + 7) / 8;
  if (bytes > most || bytes * 8 < symbols.size()) {
    fail(ErrorKind::corrupt,
         "{} at byte {}: stream of {} bytes found for {} symbols, {} to {} allowed", field, start,
         bytes, symbols.size(), (symbols.size() + 7) / 8, most);
  }
  const ByteSpan stream = in.bytes(field, static_cast<std::size_t>(bytes));
  if (!decode_symbols(stream, in.left(), lengths, symbols)) {
    fail(ErrorKind::corrupt, "{} at byte {}: stream does not hold exactly {} symbols", field, start,
         symbols.size());
  }
}

// --- modes 1 and 2 -------------------------------------------------------------------

/// Value less the one before it in mode 2; the value itself in mode 1.
std::vector<std::int64_t> terms_of(std::span<const std::int32_t> values, Mode mode) {
  std::vector<std::int64_t> terms(values.begin(), values.end());
  if (mode == kDeltas) {
    for (std::size_t i = terms.size(); i-- > 1;) terms[i] -= terms[i - 1];
  }
  return terms;
}

/// Values in one of these modes, ready to be written.
struct CodedTerms {
  Mode mode;
  std::int64_t least;
  CodedStream stream;
  Bytes extra;

  std::size_t bytes() const { return varint_size(zigzag(least)) + stream.bytes + extra.size(); }
  void write(ByteWriter& out) const {
    out.u8(mode);
    out.varint(zigzag(least));
    write_stream(stream, out);
    out.bytes(extra);
  }
};

/// None where the values lie too far apart.
std::optional<CodedTerms> code_terms(std::span<const std::int32_t> values, Mode mode) {
  const std::vector<std::int64_t> terms = terms_of(values, mode);
  const auto ends = std::minmax_element(terms.begin(), terms.end());
  const std::int64_t least = *ends.first;
  const std::int64_t reach = *ends.second - least;
  if (reach > UINT32_MAX) return std::nullopt;
  Bytes symbols(terms.size());
  Bytes extra;
  if (reach < kDirectSymbols) {
    std::transform(terms.begin(), terms.end(), symbols.begin(),
                   [&](std::int64_t term) { return static_cast<std::uint8_t>(term - least); });
  } else {
    extra.resize(4 * terms.size() + 8);
    BitWriter bits(extra.data());
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const auto t = static_cast<std::uint32_t>(terms[i] - least);
      const unsigned symbol = class_symbol(t);
      symbols[i] = static_cast<std::uint8_t>(symbol);
      bits.put(t - class_begin(symbol), extra_bits(symbol));
    }
    extra.resize(bits.finish());
  }
  return CodedTerms{mode, least, CodedStream(std::move(symbols)), std::move(extra)};
}

void read_terms(ByteReader& in, Mode mode, std::span<std::int32_t> values, std::int32_t low,
                std::int32_t high, const char* field) {
  const std::size_t start = in.offset();
  const std::int64_t least = unzigzag(in.varint(field));
  Bytes symbols(values.size());
  read_stream(in, kClassSymbols, symbols, field);
  std::size_t extra = 0;
  for (const std::uint8_t s : symbols) extra += extra_bits(s);
  BitReader bits(in.bytes(field, (extra + 7) / 8));
  std::int64_t previous = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t t = class_begin(symbols[i]) + bits.get(extra_bits(symbols[i]));
    const std::int64_t value = previous + least + static_cast<std::int64_t>(t);
    if (value < low || value > high) {
      fail(ErrorKind::corrupt, "{} at byte {}: value {} is {}, {} to {} allowed", field, start, i,
           value, low, high);
    }
    values[i] = static_cast<std::int32_t>(value);
    if (mode == kDeltas) previous = value;
  }
  if (!bits.at_exact_end()) {
    fail(ErrorKind::corrupt, "{} at byte {}: unused bits are not zero", field, start);
  }
}

// --- modes 0, 3 and 4 ----------------------------------------------------------------

void write_equal(std::int64_t value, ByteWriter& out) {
  out.u8(kEqual);
  out.varint(zigzag(value));
}

template <typename T>
bool all_equal(std::span<const T> values) {
  return std::all_of(values.begin(), values.end(), [&](T v) { return v == values.front(); });
}

std::int64_t read_equal(ByteReader& in, std::int64_t low, std::int64_t high, const char* field) {
  const std::size_t start = in.offset();
  const std::int64_t value = unzigzag(in.varint(field));
  if (value < low || value > high) {
    fail(ErrorKind::corrupt, "{} at byte {}: value {} found, {} to {} allowed", field, start, value,
         low, high);
  }
  return value;
}

[[noreturn]] void refuse_mode(std::size_t at, unsigned mode, const char* allowed,
                              const char* field) {
  fail(ErrorKind::corrupt, "{} at byte {}: mode {} found, allowed are {}", field, at, mode,
       allowed);
}

void read_byte_modes(ByteReader& in, unsigned mode, std::span<std::uint8_t> values,
                     const char* field) {
  if (mode == kCodedBytes) {
    read_stream(in, kMaxSymbols, values, field);
  } else {
    const ByteSpan plain = in.bytes(field, values.size());
    std::copy(plain.begin(), plain.end(), values.begin());
  }
}

void read_small_integers(ByteReader& in, unsigned mode, std::span<std::int32_t> values,
                         std::int32_t low, std::int32_t high, const char* field) {
  const std::size_t start = in.offset();
  if (mode == kPlainBytes && in.left() < values.size()) in.bytes(field, values.size());  // refuses
  Bytes bytes(values.size());
  read_byte_modes(in, mode, bytes, field);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (bytes[i] < low || bytes[i] > high) {
      fail(ErrorKind::corrupt, "{} at byte {}: value {} is {}, {} to {} allowed", field, start, i,
           bytes[i], low, high);
    }
    values[i] = bytes[i];
  }
}

}  // namespace

void write_integers(std::span<const std::int32_t> values, ByteWriter& out) {
  if (values.empty()) return;
  if (all_equal(values)) return write_equal(values.front(), out);
  const std::optional<CodedTerms> plain = code_terms(values, kValues);
  const std::optional<CodedTerms> deltas = code_terms(values, kDeltas);
  (deltas && deltas->bytes() < plain->bytes() ? *deltas : *plain).write(out);
}

void write_distances(std::span<const std::int32_t> values, ByteWriter& out) {
  if (values.empty()) return;
  if (all_equal(values)) return write_equal(values.front(), out);
  const std::optional<CodedTerms> classes = code_terms(values, kValues);
  const RiceCode rice = choose_rice(values);
  if (classes->bytes() <= rice.bytes()) return classes->write(out);
  out.u8(kRice);
  write_rice(values, rice, out);
}

void read_integers(ByteReader& in, std::span<std::int32_t> values, std::int32_t low,
                   std::int32_t high, const char* field) {
  if (values.empty()) return;
  const std::size_t start = in.offset();
  const unsigned mode = in.u8(field);
  switch (mode) {
    case kEqual: {
      const auto value = static_cast<std::int32_t>(read_equal(in, low, high, field));
      std::fill(values.begin(), values.end(), value);
      break;
    }
    case kValues:
    case kDeltas:
      return read_terms(in, static_cast<Mode>(mode), values, low, high, field);
    case kCodedBytes:
    case kPlainBytes:
      return read_small_integers(in, mode, values, low, high, field);
    case kRice:
      return read_rice(in, values, low, high, field);
    default:
      refuse_mode(start, mode, "0 to 5", field);
  }
}

void write_bytes(std::span<const std::uint8_t> values, ByteWriter& out) {
  if (values.empty()) return;
  if (all_equal(values)) return write_equal(values.front(), out);
  const CodedStream coded(Bytes(values.begin(), values.end()));
  const bool pays = coded.bytes < values.size();
  out.u8(pays ? kCodedBytes : kPlainBytes);
  pays ? write_stream(coded, out) : out.bytes(values);
}

void read_bytes(ByteReader& in, std::span<std::uint8_t> values, const char* field) {
  if (values.empty()) return;
  const std::size_t start = in.offset();
  const unsigned mode = in.u8(field);
  if (mode == kEqual) {
    const auto value = static_cast<std::uint8_t>(read_equal(in, 0, 255, field));
    std::fill(values.begin(), values.end(), value);
  } else if (mode == kCodedBytes || mode == kPlainBytes) {
    read_byte_modes(in, mode, values, field);
  } else {
    refuse_mode(start, mode, "0, 3 and 4", field);
  }
}

}  // namespace gradwire::entropy
