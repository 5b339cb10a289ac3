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
#include "stages/predict/turned.h"

namespace gradwire::predict {

template <typename Word>
class TapBlock {
 public:
  using Signed = std::make_signed_t<Word>;

  explicit TapBlock(const ScaledRun& run)
      : base_(static_cast<Word>(run.base)),
        taps_(static_cast<std::size_t>(run.parameters->taps)),
        row_(0) {
    residuals_[0] = signs_[0] = 0;
  }

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

  /// `words` holds those of escapes already, and zeros everywhere else.
  template <typename Shift>
  void restore(const ScaledRun& run, Shift shift, const std::uint8_t* symbols, const Word* records,
               std::size_t n, Word* words) noexcept {
    const Chain chain{base_, static_cast<Word>(run.parameters->zero_symbol())};
    std::size_t j = 0;
    if (follows_[0] != 0) j = std::min(n, first_end_);
    restored_ = follow(chain, restored_, symbols, words, 0, j);
    const std::size_t whole = (n - j) / taps_;
    const std::size_t together = std::max(kRowBlock / taps_, std::size_t{1});
    for (std::size_t kernels = 0; kernels < whole; kernels += together) {
      const std::size_t at = j + kernels * taps_;
      const std::size_t n_of = std::min(together, whole - kernels);
      follow_kernels(chain, symbols + at, words + at, n_of, residuals_.data() + at);
    }
    j += whole * taps_;
    if (j < n) {
      restored_ = follow(chain, 0, symbols, words, j, n);
    } else if (whole > 0) {
      restored_ = residuals_[n - 1];
    }
    put_together(run, shift, symbols, records, n, words);
  }

 private:
  static constexpr unsigned kSign = sizeof(Word) * 8 - 1;

  /// What an element leaves behind: its residual modulo 2^kSign, its sign above. No magnitude has
  /// more bits.
  struct Chain {
    Word base;
    Word zero;

    /// `own` holds the sign of an element that is not coded.
    Word step(Word before, Word symbol, Word own) const noexcept {
      const auto q = static_cast<Word>(static_cast<Signed>(static_cast<Word>(before << 1)) >> 1);
      const auto carried = static_cast<Word>(static_cast<Word>(static_cast<Signed>(q) >> 1) +
                                             static_cast<Word>(q & 1));
      const auto residual = static_cast<Word>(static_cast<Word>(symbol >> 1) + base + carried);
      const auto sign = static_cast<Word>(static_cast<Word>(symbol << kSign) ^ before);
      constexpr auto kTop = static_cast<Word>(Word{1} << kSign);
      const auto coded = static_cast<Word>((residual & ~kTop) | (sign & kTop));
      return symbol < zero ? coded : static_cast<Word>(own & kTop);
    }
  };

  Word follow(const Chain& chain, Word before, const std::uint8_t* symbols, const Word* words,
              std::size_t j, std::size_t end) noexcept {
    for (; j < end; ++j) residuals_[j] = before = chain.step(before, symbols[j], words[j]);
    return before;
  }

  /// Kernels side by side: step t of all of them at once.
  void follow_kernels(const Chain& chain, const std::uint8_t* symbols, const Word* words,
                      std::size_t kernels, Word* residuals) noexcept {
    const Chain step = chain;
    std::array<Word, kRowBlock> coded, own, none;
    turn_taps(symbols, taps_, kernels, kernels, coded.data());
    const bool has_escapes =
        std::memchr(symbols, static_cast<int>(chain.zero) + 1, kernels * taps_) != nullptr;
    if (has_escapes) turn_taps(words, taps_, kernels, kernels, own.data());
    std::fill_n(none.data(), kernels, Word{0});
    const Word* before = none.data();
    for (std::size_t t = 0; t < taps_; ++t) {
      Word* const left = coded.data() + t * kernels;
      const Word* const own_of = has_escapes ? own.data() + t * kernels : none.data();
      for (std::size_t k = 0; k < kernels; ++k) left[k] = step.step(before[k], left[k], own_of[k]);
      before = left;
    }
    turn_back(coded.data(), taps_, kernels, kernels, residuals);
  }

  template <typename Shift>
  void put_together(const ScaledRun& run, Shift shift, const std::uint8_t* symbols,
                    const Word* records, std::size_t n, Word* words) noexcept {
    const Word* const predictions = row_.predictions.data();
    const Word* const residuals = residuals_.data();
    Word* const wide = row_.symbols.data();
    const auto zero = static_cast<Word>(run.parameters->zero_symbol());
    const auto x_mask = static_cast<Word>(Fields<Word>(run).x_mask);
    const auto unit = static_cast<Word>(Word{1} << Fields<Word>(run).dropped);
    constexpr auto kTop = static_cast<Word>(Word{1} << kSign);
    for (std::size_t j = 0; j < n; ++j) wide[j] = symbols[j];
    for (std::size_t j = 0; j < n; ++j) {
      const auto x = static_cast<Word>(static_cast<Word>(residuals[j] + predictions[j]) & x_mask);
      const auto word = static_cast<Word>((residuals[j] & kTop) | static_cast<Word>(x << shift) |
                                          static_cast<Word>(records[j] * unit));
      const Word kept = words[j];
      words[j] = wide[j] < zero ? word : kept;
    }
  }

  Word base_;
  std::size_t taps_;
  std::size_t first_end_ = 0;  ///< where the block's first kernel ends
  RowBlock<Word> row_;
  /// Applying: element j at j + 1; the last one of the block before at 0. Restoring: what element j
  /// leaves behind at j.
  alignas(64) std::array<Word, kRowBlock + 1> residuals_, signs_;
  alignas(64) std::array<Word, kRowBlock> follows_;  ///< 0 where a kernel begins, else all ones
  Word restored_ = 0;
};

/// Calls function(begin, n) over the blocks of a run, each entered.
template <typename Word, typename Function>
void for_each_tap_block(const ScaledRun& run, TapBlock<Word>& block, const Function& function) {
  for_each_row(run, [&](const RowRun& row) {
    for (std::size_t at = 0; at < row.n; at += kRowBlock) {
      const std::size_t n = std::min(row.n - at, kRowBlock);
      block.enter(run, row, at, n);
      function(row.begin + at, n);
    }
  });
}

}  // namespace gradwire::predict
