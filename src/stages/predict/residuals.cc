#include "stages/predict/residuals.h"

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
void collect_taps(const ScaledRun& run, const Word* words, Word* out) {
  const Fields<Word> fields(run);
  const Places<Word> place(run);
  TapBlock<Word> block(run);
  for_each_tap_block(run, block, [&](std::size_t at, std::size_t n) {
    block.take_apart(fields, words + at, n);
    for (std::size_t j = 0; j < n; ++j)
      out[at + j] = place(words[at + j], block.unfolded(j), block.flip(j));
    block.close(n);
    return true;
  });
}

}  // namespace

template <typename Word>
void collect_residuals(const ScaledRun& run, const Word* words, Word* places) {
  if (run.parameters->sign_mode == SignMode::tap) return collect_taps(run, words, places);
  const Fields<Word> fields(run);
  const Places<Word> place(run);
  const auto flip_mask = static_cast<Word>(run.parameters->sign_factor() - 1);
  RowBlock<Word> block;
  for_each_row(run, [&](const RowRun& row) {
    for_each_block(run, row, block, [&](std::size_t at, std::size_t n) {
      const Word* const in = words + row.begin + at;
      Word* const out = places + row.begin + at;
      for (std::size_t j = 0; j < n; ++j) {
        const auto flip =
            static_cast<Word>(((in[j] >> fields.sign_shift) ^ block.guesses[j]) & flip_mask);
        const auto t = static_cast<Word>(((in[j] & fields.magnitude_mask) >> fields.x_shift) -
                                         block.predictions[j]);
        out[j] = place(in[j], t, flip);
      }
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
