#include "stages/predict/residuals.h"

#include "scaled_testing.h"

namespace gradwire::predict {
namespace {

TEST(Residuals, AreWhatTheSymbolsSayWithoutTheirWindow) {
  Setting setting(DType::f32, 3);
  auto& random = setting.random();
  std::vector<std::uint32_t> words(3000);
  for (auto& word : words)
    word = random() % 5 == 0
               ? 0
               : static_cast<std::uint32_t>(random() % 2 << 31 | (120 + random() % 8) << 23);
  for (const SignMode sign_mode : {SignMode::raw, SignMode::rank_one, SignMode::tap}) {
    ScaledParameters p;
    p.kept = 23;
    p.window = 62;
    p.has_zero = true;
    p.sign_mode = sign_mode;
    p.columns = 30;
    p.taps = 5;
    const Grid grid = setting.draw_grid(p, words.size());
    const std::int32_t base = sign_mode == SignMode::tap ? 50 : 100;
    const ScaledRun run{float_format(DType::f32), &p, &grid, base, 0, words.size()};
    std::vector<std::uint32_t> places(words.size());
    ScaledRun whole = run;
    whole.base = 0;
    collect_residuals(whole, words.data(), places.data());
    const auto half = static_cast<std::uint32_t>(residual_half(run.format, p));
    std::vector<std::uint8_t> symbols(words.size());
    std::vector<std::uint32_t> records(words.size());
    Bytes escapes;
    apply_scaled(run, words.data(), false, symbols.data(), records.data(), escapes);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (symbols[i] == p.escape_symbol()) continue;
      if (words[i] == 0) {
        EXPECT_EQ(places[i], 4 * half);
      } else if (sign_mode == SignMode::raw) {
        EXPECT_EQ(places[i], 2 * (symbols[i] + static_cast<unsigned>(base) + half));
      } else if (escapes.empty()) {
        EXPECT_EQ(places[i], symbols[i] + 2 * (static_cast<unsigned>(base) + half));
      }
    }
  }
}

}  // namespace
}  // namespace gradwire::predict
