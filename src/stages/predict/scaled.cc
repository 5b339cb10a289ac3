#include "stages/predict/scaled.h"

#include <algorithm>
#include <cstring>

#include "base/clones.h"
#include "stages/predict/row_loops.h"
#include "stages/predict/tap_rows.h"
#include "stages/predict/tap_walk.h"

namespace gradwire::predict {
namespace {

std::uint64_t load_record(const std::uint8_t* src, unsigned bytes) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, src, bytes);
  return value;
}

/// Escape records hold x, the dropped fraction bits and, when the symbol would have held it, the
/// sign.
template <typename Word>
struct EscapeCoder {
  explicit EscapeCoder(const ScaledRun& run)
      : fields(run), bytes(escape_bytes(run.format, *run.parameters)) {}

  std::uint64_t record(Word word) const noexcept {
    const auto magnitude = static_cast<std::uint64_t>(word & fields.magnitude_mask);
    const std::uint64_t x = magnitude >> fields.x_shift;
    const std::uint64_t dropped = magnitude & ((std::uint64_t{1} << fields.dropped) - 1);
    const std::uint64_t value = x << fields.dropped | dropped;
    return fields.signed_symbols
               ? value << 1 | static_cast<std::uint64_t>(word >> fields.sign_shift)
               : value;
  }

  /// Puts an escape's word together; false when the record has too many bits.
  bool word(std::uint64_t record, Word raw, Word& out) const noexcept {
    std::uint64_t sign = raw & 1;
    std::uint64_t rest = raw >> 1;
    if (fields.signed_symbols) {
      sign = record & 1;
      record >>= 1;
      rest = raw;
    }
    const std::uint64_t x = record >> fields.dropped;
    const std::uint64_t dropped = record & ((std::uint64_t{1} << fields.dropped) - 1);
    if (x >> fields.x_bits != 0) return false;
    out = static_cast<Word>(sign << fields.sign_shift | x << fields.x_shift |
                            rest << fields.dropped | dropped);
    return true;
  }

  Fields<Word> fields;
  unsigned bytes;
};

template <typename Word>
std::size_t append_escapes(const EscapeCoder<Word>& coder, const Word* words,
                           const std::uint8_t* symbols, std::size_t n, std::uint8_t escape,
                           Bytes& out) {
  std::size_t count = 0;
  const std::uint8_t* const end = symbols + n;
  for (const std::uint8_t* at = symbols;
       (at = static_cast<const std::uint8_t*>(
            std::memchr(at, escape, static_cast<std::size_t>(end - at)))) != nullptr;) {
    std::uint8_t bytes[8];
    store(bytes, coder.record(words[at - symbols]));
    out.insert(out.end(), bytes, bytes + coder.bytes);
    ++count;
    if (++at == end) break;
  }
  return count;
}

/// Kernels whose taps lie apart, element by element.
template <typename Word>
void apply_distant_taps(const ScaledRun& run, const Word* words, bool mapped,
                        std::uint8_t* symbols) {
  const ScaledParameters& p = *run.parameters;
  const Fields<Word> fields(run);
  TapWalk walk(run);
  const auto escape = static_cast<std::uint8_t>(p.escape_symbol());
  const auto zero =
      static_cast<std::uint8_t>(p.has_zero || mapped ? p.zero_symbol() : p.escape_symbol());
  for (std::size_t i = 0; i < run.n; ++i) {
    const Word word = words[i];
    const auto sign = static_cast<unsigned>(word >> fields.sign_shift);
    if (word == 0) {
      symbols[i] = zero;
      walk.push(0, 0);
      continue;
    }
    const std::int32_t q = fields.x(word) - walk.prediction();
    const std::uint32_t t = static_cast<std::uint32_t>(q - walk.carried() - run.base);
    const bool fits = t < p.window && fields.exact(word);
    symbols[i] = fits ? static_cast<std::uint8_t>(2 * t + (sign ^ walk.guess())) : escape;
    walk.push(fits ? q : 0, sign);
  }
}

template <typename Word>
bool restore_distant_taps(const ScaledRun& run, const std::uint8_t* symbols, const Word* records,
                          const std::uint8_t* escapes, Word* words) {
  const ScaledParameters& p = *run.parameters;
  const EscapeCoder<Word> coder(run);
  const Fields<Word>& fields = coder.fields;
  TapWalk walk(run);
  const unsigned zero = p.zero_symbol();
  for (std::size_t i = 0; i < run.n; ++i) {
    const unsigned symbol = symbols[i];
    if (symbol >= zero) {
      words[i] = 0;
      if (symbol > zero) {
        if (!coder.word(load_record(escapes, coder.bytes), records[i], words[i])) return false;
        escapes += coder.bytes;
      }
      walk.push(0, static_cast<unsigned>(words[i] >> fields.sign_shift));
      continue;
    }
    const unsigned sign = (symbol & 1) ^ walk.guess();
    const std::int32_t q = static_cast<std::int32_t>(symbol >> 1) + run.base + walk.carried();
    words[i] = fields.word(sign, q + walk.prediction(), records[i]);
    walk.push(q, sign);
  }
  return true;
}

/// Words of the escapes among n elements alone; `escapes` moves past their records.
template <typename Word>
bool restore_escapes(const EscapeCoder<Word>& coder, const std::uint8_t* symbols, std::size_t n,
                     std::uint8_t escape, const Word* records, const std::uint8_t*& escapes,
                     Word* words) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto* at = static_cast<const std::uint8_t*>(std::memchr(symbols + i, escape, n - i));
    if (at == nullptr) return true;
    i = static_cast<std::size_t>(at - symbols);
    if (!coder.word(load_record(escapes, coder.bytes), records[i], words[i])) return false;
    escapes += coder.bytes;
  }
  return true;
}

template <typename Word>
GRADWIRE_CLONES void apply_taps(const ScaledRun& run, const Word* words, bool mapped,
                                std::uint8_t* symbols) {
  TapBlock<Word> block(run);
  with_layout(Fields<Word>(run), [&](auto shift, auto) {
    for_each_tap_block(run, block, [&](std::size_t at, std::size_t n) {
      block.apply(run, shift, mapped, words + at, n, symbols + at);
    });
  });
}

template <typename Word>
GRADWIRE_CLONES bool restore_taps(const ScaledRun& run, const std::uint8_t* symbols,
                                  const Word* records, const std::uint8_t* escapes, Word* words) {
  const EscapeCoder<Word> coder(run);
  const auto escape = static_cast<std::uint8_t>(run.parameters->escape_symbol());
  TapBlock<Word> block(run);
  bool sound = true;
  with_layout(Fields<Word>(run), [&](auto shift, auto) {
    for_each_tap_block(run, block, [&](std::size_t at, std::size_t n) {
      std::fill_n(words + at, n, Word{0});
      sound = sound &&
              restore_escapes(coder, symbols + at, n, escape, records + at, escapes, words + at);
      block.restore(run, shift, symbols + at, records + at, n, words + at);
    });
  });
  return sound;
}

template <typename Word>
GRADWIRE_CLONES void apply_rows(const ScaledRun& run, const Word* words, bool mapped,
                                std::uint8_t* symbols) {
  RowBlock<Word> block(run.base);
  with_layout(Fields<Word>(run), [&](auto shift, auto is_signed) {
    const ApplyLoop<Word, decltype(is_signed)::value, decltype(shift)> loop(run, mapped, shift);
    for_each_block(run, block, [&](std::size_t at, std::size_t n) {
      loop(words + at, n, block, symbols + at);
    });
  });
}

template <typename Word>
GRADWIRE_CLONES void restore_rows(const ScaledRun& run, const std::uint8_t* symbols,
                                  const Word* records, Word* words) {
  RowBlock<Word> block(run.base);
  with_layout(Fields<Word>(run), [&](auto shift, auto is_signed) {
    const RestoreLoop<Word, decltype(is_signed)::value, decltype(shift)> loop(run, shift);
    for_each_block(run, block, [&](std::size_t at, std::size_t n) {
      loop(symbols + at, records + at, n, block, words + at);
    });
  });
}

}  // namespace

unsigned escape_bytes(FloatFormat format, const ScaledParameters& p) noexcept {
  return (format.exponent_bits + p.step_log2 + format.fraction_bits - p.kept + p.sign_factor() - 1 +
          7) /
         8;
}

template <typename Word>
std::size_t apply_scaled(const ScaledRun& run, const Word* words, bool mapped,
                         std::uint8_t* symbols, Word* records, Bytes& escapes) {
  const ScaledParameters& p = *run.parameters;
  if (p.sign_mode != SignMode::tap) {
    apply_rows(run, words, mapped, symbols);
  } else if (p.inner == 1) {
    apply_taps(run, words, mapped, symbols);
  } else {
    apply_distant_taps(run, words, mapped, symbols);
  }
  take_records(Fields<Word>(run), words, run.n, records);
  return append_escapes(EscapeCoder<Word>(run), words, symbols, run.n,
                        static_cast<std::uint8_t>(p.escape_symbol()), escapes);
}

template <typename Word>
bool restore_scaled(const ScaledRun& run, const std::uint8_t* symbols, const Word* records,
                    const std::uint8_t* escapes, Word* words) {
  const ScaledParameters& p = *run.parameters;
  if (p.sign_mode == SignMode::tap) {
    return p.inner == 1 ? restore_taps(run, symbols, records, escapes, words)
                        : restore_distant_taps(run, symbols, records, escapes, words);
  }
  restore_rows(run, symbols, records, words);
  return restore_escapes(EscapeCoder<Word>(run), symbols, run.n,
                         static_cast<std::uint8_t>(p.escape_symbol()), records, escapes, words);
}

#define GRADWIRE_SCALED(Word)                                                                 \
  template std::size_t apply_scaled<Word>(const ScaledRun&, const Word*, bool, std::uint8_t*, \
                                          Word*, Bytes&);                                     \
  template bool restore_scaled<Word>(const ScaledRun&, const std::uint8_t*, const Word*,      \
                                     const std::uint8_t*, Word*);

GRADWIRE_SCALED(std::uint16_t)
GRADWIRE_SCALED(std::uint32_t)
GRADWIRE_SCALED(std::uint64_t)
#undef GRADWIRE_SCALED

}  // namespace gradwire::predict
