// In: parameters of the scaled predictor, a grid, then symbols, records and escape records. Out:
// restoring them is safe, and the words restored survive another turn.

#include "base/float_format.h"
#include "fuzz_input.h"
#include "stages/predict/scaled.h"
#include "stages/split/records.h"
#include "stages/split/words.h"

namespace {

using namespace gradwire;
using namespace gradwire::predict;
using fuzz::expect;

ScaledParameters draw_parameters(fuzz::FuzzInput& input, FloatFormat format) {
  ScaledParameters p;
  p.kept = static_cast<unsigned>(input.between(0, format.fraction_bits));
  p.step_log2 = static_cast<unsigned>(input.between(0, std::min(2u, p.kept)));
  p.window = static_cast<unsigned>(input.between(1, 62));
  const unsigned modes = input.u8();
  p.has_scales = (modes & 1) != 0;
  p.halved = p.has_scales && (modes & 2) != 0;
  p.has_zero = (modes & 4) != 0;
  p.sign_mode = static_cast<SignMode>((modes >> 3) % 3);
  p.columns = input.between(1, 500);
  p.origin = input.between(0, p.columns - 1);
  p.taps = input.between(1, input.flag() ? UINT64_MAX >> 2 : 30);
  p.inner = input.between(1, input.flag() ? UINT64_MAX >> 2 : 30);
  return p;
}

Grid draw_grid(fuzz::FuzzInput& input, const ScaledParameters& p, std::uint64_t elements) {
  const auto rows = static_cast<std::size_t>((elements + p.origin + p.columns - 1) / p.columns);
  const auto columns = static_cast<std::size_t>(p.columns);
  Grid grid;
  if (p.has_scales) {
    grid.row_scales.resize(rows);
    grid.column_scales.resize(columns);
    for (auto& scale : grid.row_scales) scale = static_cast<std::int16_t>(input.between(0, 65535));
    for (auto& scale : grid.column_scales)
      scale = static_cast<std::int16_t>(input.between(0, 65535));
  }
  if (p.sign_mode == SignMode::rank_one) {
    for (std::size_t r = 0; r < rows; ++r) grid.row_signs.push_back(input.flag());
    for (std::size_t c = 0; c < columns; ++c) grid.column_signs.push_back(input.flag());
  }
  return grid;
}

template <typename Word>
void restore(fuzz::FuzzInput& input, FloatFormat format) {
  const ScaledParameters p = draw_parameters(input, format);
  const auto n = static_cast<std::size_t>(input.between(1, 2000));
  const std::uint64_t first = input.between(0, 5000);
  const std::int32_t base = input.signed_between(-65536, 65536);
  const Grid grid = draw_grid(input, p, first + n);
  const ScaledRun run{format, &p, &grid, base, first, n};
  Bytes symbols = input.bytes(n);
  symbols.resize(n);
  for (std::uint8_t& symbol : symbols) symbol = static_cast<std::uint8_t>(symbol % p.alphabet());
  const auto escapes = static_cast<std::size_t>(
      std::count(symbols.begin(), symbols.end(), static_cast<std::uint8_t>(p.escape_symbol())));
  Bytes escape_records = input.bytes(escapes * escape_bytes(format, p));
  escape_records.resize(escapes * escape_bytes(format, p));
  Bytes raw = input.rest();
  raw.resize(split::record_bytes(n, p.record_bits()) + 8);
  std::vector<Word> records(n);
  split::unpack_records(raw.data(), n, p.record_bits(), records.data());
  std::vector<Word> words(n);
  if (!restore_scaled(run, symbols.data(), records.data(), escape_records.data(), words.data()))
    return;

  Bytes symbols_again(n);
  std::vector<Word> records_again(n);
  Bytes escapes_again;
  apply_scaled(run, words.data(), false, symbols_again.data(), records_again.data(), escapes_again);
  const Bytes exact(escapes_again.begin(), escapes_again.end());
  std::vector<Word> back(n);
  expect(restore_scaled(run, symbols_again.data(), records_again.data(), exact.data(), back.data()),
         "an encoder's escapes are sound");
  expect(back == words, "words come back");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  constexpr DType kDtypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  const DType dtype = kDtypes[input.between(0, 3)];
  split::with_word(dtype, [&](auto word) { restore<decltype(word)>(input, float_format(dtype)); });
  return 0;
}
