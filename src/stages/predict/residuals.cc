#include "stages/predict/residuals.h"

#include "base/clones.h"
#include "stages/predict/row_loops.h"
#include "stages/predict/tap_rows.h"

namespace gradwire::predict {
namespace {

/// The place of residual t (modulo the word) and its flip, or of a zero.
template <typename Word>
class Places {
 public:
  using Signed = std::make_signed_t<Word>;
  explicit Places(const ScaledRun& run)
      : half_(static_cast<Signed>(residual_half(run.format, *run.parameters))) {}
  Word operator()(Word word, Word t, Word flip) const noexcept {
    const Signed d = std::clamp(static_cast<Signed>(t), static_cast<Signed>(-half_),
                                static_cast<Signed>(half_ - 1));
    const auto place = static_cast<Word>(static_cast<Word>(2 * (d + half_)) + flip);
    return word == 0 ? static_cast<Word>(4 * half_) : place;
  }

 private:
  Signed half_;
};

template <typename Word>
GRADWIRE_CLONES void collect_taps(const ScaledRun& run, const Word* words, Word* out) {
  const Places<Word> place(run);
  TapBlock<Word> block(run);
  with_layout(Fields<Word>(run), [&](auto shift, auto) {
    for_each_tap_block(run, block, [&](std::size_t at, std::size_t n) {
      block.take_apart(shift, words + at, n);
      const auto view = block.view();
      for (std::size_t j = 0; j < n; ++j)
        out[at + j] = place(words[at + j], view.unfolded(j), view.flip(j));
      block.close(n);
    });
  });
}

template <typename Word, bool kSigned, typename Shift>
void collect_block(const RowBlock<Word>& block, Places<Word> place, Shift shift, const Word* words,
                   std::size_t n, Word* out) {
  using F = Fields<Word>;
  const Word* const predictions = block.predictions.data();
  const Word* const guesses = block.guesses.data();
  for (std::size_t j = 0; j < n; ++j) {
    const Word word = words[j];
    const auto x = static_cast<Word>(static_cast<Word>(word & F::magnitude_mask) >> shift);
    const auto flip = static_cast<Word>(kSigned ? (word >> F::sign_shift) ^ guesses[j] : 0);
    out[j] = place(word, static_cast<Word>(x - predictions[j]), flip);
  }
}

}  // namespace

template <typename Word>
void collect_residuals(const ScaledRun& run, const Word* words, Word* places) {
  if (run.parameters->sign_mode == SignMode::tap) return collect_taps(run, words, places);
  const Places<Word> place(run);
  RowBlock<Word> block(run.base);
  with_layout(Fields<Word>(run), [&](auto shift, auto is_signed) {
    for_each_block(run, block, [&](std::size_t at, std::size_t n) {
      collect_block<Word, decltype(is_signed)::value>(block, place, shift, words + at, n,
                                                      places + at);
    });
  });
}

template void collect_residuals<std::uint16_t>(const ScaledRun&, const std::uint16_t*,
                                               std::uint16_t*);
template void collect_residuals<std::uint32_t>(const ScaledRun&, const std::uint32_t*,
                                               std::uint32_t*);
template void collect_residuals<std::uint64_t>(const ScaledRun&, const std::uint64_t*,
                                               std::uint64_t*);

}  // namespace gradwire::predict
