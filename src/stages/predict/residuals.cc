#include "stages/predict/residuals.h"

#include "stages/predict/scaled_rows.h"

namespace gradwire::predict {
namespace {

template <typename Word>
void collect_taps(const ScaledRun& run, const Word* words, std::int32_t* out) {
  const Fields<Word> fields(run);
  TapWalk<Word> walk(run);
  for (std::size_t i = 0; i < run.n; ++i) {
    const Word word = words[i];
    if (word == 0) {
      out[i] = kNoResidual;
      walk.push(0, 0);
      continue;
    }
    const std::int32_t q = fields.x(word) - walk.prediction(i);
    const auto sign = static_cast<unsigned>(word >> fields.sign_shift);
    out[i] = (q - walk.carried(i)) * 2 + static_cast<std::int32_t>(sign ^ walk.guess(i));
    walk.push(q, sign);
  }
}

}  // namespace

template <typename Word>
void collect_residuals(const ScaledRun& run, const Word* words, std::int32_t* out) {
  if (run.parameters->sign_mode == SignMode::tap) return collect_taps(run, words, out);
  const Fields<Word> fields(run);
  const unsigned flip_mask = run.parameters->sign_factor() - 1;
  for_each_row(run, [&](const RowRun& row) {
    with_row_models(run, row, [&](const auto prediction, const auto signs) {
      for (std::size_t j = 0; j < row.n; ++j) {
        const Word word = words[row.begin + j];
        const unsigned flip = (static_cast<unsigned>(word >> fields.sign_shift) ^ signs(j)) & flip_mask;
        const std::int32_t d = fields.x(word) - prediction(j);
        out[row.begin + j] = word == 0 ? kNoResidual : d * 2 + static_cast<std::int32_t>(flip);
      }
    });
  });
}

template void collect_residuals<std::uint16_t>(const ScaledRun&, const std::uint16_t*, std::int32_t*);
template void collect_residuals<std::uint32_t>(const ScaledRun&, const std::uint32_t*, std::int32_t*);
template void collect_residuals<std::uint64_t>(const ScaledRun&, const std::uint64_t*, std::int32_t*);

}  // namespace gradwire::predict
