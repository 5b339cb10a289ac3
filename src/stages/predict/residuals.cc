#include "stages/predict/residuals.h"

#include "stages/predict/scaled_rows.h"

namespace gradwire::predict {
namespace {

template <typename Word>
void collect_taps(const ScaledRun& run, const Word* words, std::int32_t* out) {
  const Fields<Word> fields(run);
  TapWalk walk(run);
  for (std::size_t i = 0; i < run.n; ++i) {
    const Word word = words[i];
    if (word == 0) {
      out[i] = kNoResidual;
      walk.push(0, 0);
      continue;
    }
    const std::int32_t q = fields.x(word) - walk.prediction();
    const auto sign = static_cast<unsigned>(word >> fields.sign_shift);
    out[i] = (q - walk.carried()) * 2 + static_cast<std::int32_t>(sign ^ walk.guess());
    walk.push(q, sign);
  }
}

}  // namespace

template <typename Word>
void collect_residuals(const ScaledRun& run, const Word* words, std::int32_t* out) {
  if (run.parameters->sign_mode == SignMode::tap) return collect_taps(run, words, out);
  const Fields<Word> fields(run);
  const auto flip_mask = static_cast<Word>(run.parameters->sign_factor() - 1);
  RowBlock<Word> block;
  for_each_row(run, [&](const RowRun& row) {
    for_each_block(run, row, block, [&](std::size_t at, std::size_t n) {
      const Word* const in = words + row.begin + at;
      std::int32_t* const residuals = out + row.begin + at;
      for (std::size_t j = 0; j < n; ++j) {
        const auto flip =
            static_cast<Word>(((in[j] >> fields.sign_shift) ^ block.guesses[j]) & flip_mask);
        const auto t = static_cast<Word>(((in[j] & fields.magnitude_mask) >> fields.x_shift) -
                                         block.predictions[j]);
        const auto d = static_cast<std::int32_t>(static_cast<std::make_signed_t<Word>>(t));
        residuals[j] = in[j] == 0 ? kNoResidual : d * 2 + static_cast<std::int32_t>(flip);
      }
    });
  });
}

template void collect_residuals<std::uint16_t>(const ScaledRun&, const std::uint16_t*,
                                               std::int32_t*);
template void collect_residuals<std::uint32_t>(const ScaledRun&, const std::uint32_t*,
                                               std::int32_t*);
template void collect_residuals<std::uint64_t>(const ScaledRun&, const std::uint64_t*,
                                               std::int32_t*);

}  // namespace gradwire::predict
