// What has a second form for some CPUs or vectors gives what the first form gives.

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "stages/predict/turned.h"

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace gradwire {
namespace {

TEST(Hash, IsXxh3OnThisCpuToo) {
  std::vector<std::uint8_t> bytes(3000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 131 >> (i % 5));
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    const std::uint64_t seed = n % 3;
    ASSERT_EQ(hash64({bytes.data(), n}, seed), XXH3_64bits_withSeed(bytes.data(), n, seed)) << n;
  }
}

template <typename Word>
class TurnedTest : public testing::Test {};
using Words = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(TurnedTest, Words);

template <typename Element, typename Word>
void expect_turned(std::size_t taps, std::size_t kernels) {
  std::vector<Element> elements(taps * kernels);
  std::iota(elements.begin(), elements.end(), Element{1});
  const std::size_t stride = kernels + 3;
  std::vector<Word> turned(taps * stride, Word{7});
  predict::turn_taps(elements.data(), taps, kernels, stride, turned.data());
  for (std::size_t t = 0; t < taps; ++t) {
    for (std::size_t k = 0; k < stride; ++k) {
      const Word expected = k < kernels ? Word{elements[k * taps + t]} : Word{7};
      ASSERT_EQ(turned[t * stride + k], expected) << t << " of " << taps << ", " << k;
    }
  }
  std::vector<Word> back(elements.size() + 1, Word{7});
  predict::turn_back(turned.data(), taps, kernels, stride, back.data());
  ASSERT_TRUE(std::equal(elements.begin(), elements.end(), back.begin())) << taps;
  ASSERT_EQ(back.back(), Word{7}) << "written past the end";
}

TYPED_TEST(TurnedTest, TurnsWordsAndSymbolsThereAndBack) {
  for (std::size_t taps = 1; taps <= 27; ++taps) {
    for (std::size_t kernels = 1; kernels <= 37; ++kernels) {
      expect_turned<TypeParam, TypeParam>(taps, kernels);
      expect_turned<std::uint8_t, TypeParam>(taps, kernels);
    }
  }
}

}  // namespace
}  // namespace gradwire
