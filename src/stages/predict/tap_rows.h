// Inner loops of the scaled predictor along the taps of kernels whose taps are neighbours
// (inner = 1).
// In: a run and a block of it that lies in one row.
// Out: symbols, or words.
// Assumes: as scaled.h. An element's guess needs its predecessor, but what the predecessor leaves
// behind is known from its own word unless it is an escape: loops take all to fit and what follows
// an escape is mended after.
#pragma once

#include <cstring>

#include "stages/predict/scaled_rows.h"

namespace gradwire::predict {

template <typename Word>
class TapBlock {
 public:
  using Signed = std::make_signed_t<Word>;

  explicit TapBlock(const ScaledRun& run)
      : base_(static_cast<Word>(run.base)),
        taps_(static_cast<std::size_t>(run.parameters->taps)),
        row_(0) {}

  /// Predictions (the base is not part of them), and where kernels begin.
  void enter(const ScaledRun& run, const RowRun& row, std::size_t at, std::size_t n) noexcept {
    row_.predict(run, row.row, row.column + at, n);
    std::fill_n(follows_.data(), n, static_cast<Word>(~Word{0}));
    const auto tap = static_cast<std::size_t>((run.first + row.begin + at) % taps_);
    for (std::size_t j = tap == 0 ? 0 : taps_ - tap; j < n; j += taps_) follows_[j] = 0;
    first_end_ = taps_ - tap;
  }
  /// Residuals against the scales, and signs; none for zeros.
  template <typename Shift>
  void take_apart(Shift shift, const Word* words, std::size_t n) noexcept {
    using F = Fields<Word>;
    const Word* const predictions = row_.predictions.data();
    Word* const q = residuals_.data() + 1;
    Word* const sign = signs_.data() + 1;
    for (std::size_t j = 0; j < n; ++j) {
      const Word word = words[j];
      const auto x = static_cast<Word>(static_cast<Word>(word & F::magnitude_mask) >> shift);
      const auto residual = static_cast<Word>(x - predictions[j]);
      q[j] = word == 0 ? Word{0} : residual;
      sign[j] = static_cast<Word>(word >> F::sign_shift);  // that of a zero is 0
    }
  }
  /// What loops over residuals and flips read.
  struct View {
    const Word* residuals;
    const Word* signs;
    const Word* follows;
    /// Residual of element j less half of its predecessor's, rounded up.
    Word unfolded(std::size_t j) const noexcept {
      const auto before = static_cast<Signed>(residuals[j]);
      const auto carried =
          static_cast<Word>(static_cast<Word>(static_cast<Signed>(before >> 1)) + (before & 1));
      return static_cast<Word>(residuals[j + 1] - static_cast<Word>(carried & follows[j]));
    }
    Word flip(std::size_t j) const noexcept {
      return static_cast<Word>(signs[j + 1] ^ static_cast<Word>(signs[j] & follows[j]));
    }
  };
  View view() const noexcept { return {residuals_.data(), signs_.data(), follows_.data()}; }
  /// What the block's last element leaves to the next block.
  void close(std::size_t n) noexcept {
    residuals_[0] = residuals_[n];
    signs_[0] = signs_[n];
  }

  template <typename Shift>
  void apply(const ScaledRun& run, Shift shift, bool mapped, const Word* words, std::size_t n,
             std::uint8_t* symbols) noexcept {
    const ScaledParameters& p = *run.parameters;
    const auto escape = static_cast<Word>(p.escape_symbol());
    const auto zero = static_cast<Word>(p.has_zero || mapped ? p.zero_symbol() : p.escape_symbol());
    const auto window = static_cast<Word>(p.window);
    const Word dropped_mask = Fields<Word>(run).dropped_mask;
    take_apart(shift, words, n);
    const auto symbol_of = [view = view(), base = base_, escape, zero, window, dropped_mask,
                            words](std::size_t j) {
      const auto t = static_cast<Word>(view.unfolded(j) - base);
      const auto coded = static_cast<Word>(static_cast<Word>(t << 1) + view.flip(j));
      const bool fits = (t < window) & ((words[j] & dropped_mask) == 0);
      const Word symbol = fits ? coded : escape;
      return words[j] == 0 ? zero : symbol;
    };
    Word* const wide = row_.symbols.data();
    for (std::size_t j = 0; j < n; ++j) wide[j] = symbol_of(j);
    for (std::size_t j = 0; j < n; ++j) symbols[j] = static_cast<std::uint8_t>(wide[j]);
    for (std::size_t j = 0; j < n; ++j) {
      const auto* at = static_cast<const std::uint8_t*>(
          std::memchr(symbols + j, static_cast<int>(escape), n - j));
      if (at == nullptr) break;
      j = static_cast<std::size_t>(at - symbols);
      residuals_[j + 1] = 0;
      if (j + 1 < n) symbols[j + 1] = static_cast<std::uint8_t>(symbol_of(j + 1));
    }
    close(n);
  }

  /// `escape_word(record)` gives the words of escapes, in order.
  template <typename EscapeWord>
  bool restore(const ScaledRun& run, const Fields<Word>& fields, const std::uint8_t* symbols,
               const Word* records, std::size_t n, Word* words, const EscapeWord& escape_word) {
    const unsigned zero = run.parameters->zero_symbol();
    std::int32_t q = restored_.q;
    std::uint32_t sign = restored_.sign;
    Word* const residuals = residuals_.data();
    Word* const signs = signs_.data();
    for (std::size_t j = 0, end = 0; j < n;) {
      if (follows_[j] == 0) q = 0, sign = 0;  // a constant: kernels do not wait for each other
      end = std::min(n, end == 0 ? first_end_ : j + taps_);
      for (; j < end; ++j) {
        const unsigned symbol = symbols[j];
        const bool coded = symbol < zero;
        q = coded ? static_cast<std::int32_t>(symbol >> 1) + run.base + ((q + 1) >> 1) : 0;
        sign = coded ? (symbol & 1) ^ sign : 0;
        residuals[j] = static_cast<Word>(q);
        signs[j] = static_cast<Word>(sign);
        if (symbol > zero) [[unlikely]] {
          if (!escape_word(records[j], words[j])) return false;
          sign = static_cast<std::uint32_t>(words[j] >> fields.sign_shift);
        }
      }
    }
    restored_ = {q, sign};
    const auto x_mask = static_cast<Word>(fields.x_mask);
    for (std::size_t j = 0; j < n; ++j) {
      const auto x = static_cast<Word>((residuals[j] + row_.predictions[j]) & x_mask);
      const auto word = static_cast<Word>((signs[j] << fields.sign_shift) | (x << fields.x_shift) |
                                          (records[j] << fields.dropped));
      const Word kept = symbols[j] > zero ? words[j] : Word{0};
      words[j] = symbols[j] < zero ? word : kept;
    }
    return true;
  }

 private:
  struct Left {
    std::int32_t q = 0;
    std::uint32_t sign = 0;
  };
  Word base_;
  std::size_t taps_;
  std::size_t first_end_ = 0;  ///< where the block's first kernel ends
  RowBlock<Word> row_;
  /// Element j at j + 1; the last one of the block before at 0.
  alignas(64) std::array<Word, kRowBlock + 1> residuals_{}, signs_{};
  alignas(64) std::array<Word, kRowBlock> follows_;  ///< 0 where a kernel begins, else all ones
  Left restored_;
};

/// Calls function(begin, n) over the blocks of a run, each entered; stops when it returns false.
template <typename Word, typename Function>
bool for_each_tap_block(const ScaledRun& run, TapBlock<Word>& block, const Function& function) {
  bool sound = true;
  for_each_row(run, [&](const RowRun& row) {
    for (std::size_t at = 0; at < row.n && sound; at += kRowBlock) {
      const std::size_t n = std::min(row.n - at, kRowBlock);
      block.enter(run, row, at, n);
      sound = function(row.begin + at, n);
    }
  });
  return sound;
}

}  // namespace gradwire::predict
