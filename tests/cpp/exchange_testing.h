// What tests of exchanges share: buckets of several tensors, all ranks in one process, and what an
// all-reduce should give, written down element by element.
#pragma once

#include <functional>

#include "exchange/loopback.h"
#include "tensor_testing.h"

namespace gradwire::testing {

using exchange::Loopback;

// --- numbers, by another way than the library's ------------------------------------------------

/// A narrow float by its definition: `fraction` bits stored, exponents down to `least`.
struct NarrowFloat {
  int fraction, least, largest;
  double value(std::uint16_t bits) const {
    const double sign = bits >> 15 ? -1.0 : 1.0;
    const int field = (bits & 0x7fff) >> fraction;
    const int rest = bits & ((1 << fraction) - 1);
    if (field == largest - least + 2) return rest ? std::nan("") : sign * HUGE_VAL;
    if (field == 0) return sign * std::ldexp(rest, least - fraction);
    return sign * std::ldexp((1 << fraction) + rest, field - 1 + least - fraction);
  }
  /// To the nearest multiple of the last place, ties to even (nearbyint). Not for NaN.
  std::uint16_t nearest(double number) const {
    const auto sign = static_cast<std::uint16_t>(std::signbit(number) ? 0x8000 : 0);
    const double magnitude = std::fabs(number);
    const auto infinity = static_cast<std::uint16_t>(sign | (largest - least + 2) << fraction);
    if (std::isinf(magnitude)) return infinity;
    const int exponent = magnitude == 0 ? least : std::max(std::ilogb(magnitude), least);
    const double places = std::nearbyint(std::ldexp(magnitude, fraction - exponent));
    if (std::ldexp(places, exponent - fraction) >= std::ldexp(1, largest + 1)) return infinity;
    // A carry out of the fraction moves on to the next exponent by itself.
    return static_cast<std::uint16_t>(sign + ((exponent - least) << fraction) +
                                      static_cast<int>(places));
  }
};
inline constexpr NarrowFloat kHalf{10, -14, 15};
inline constexpr NarrowFloat kBrain{7, -126, 127};

/// The sum of two values: a NaN is the first of them, made quiet, or the negative one.
template <typename Value, typename Word>
Value reference_sum(Value a, Value b) {
  const Word quiet = Word{1} << (std::numeric_limits<Value>::digits - 2);
  const auto hushed = [&](Value nan) {
    return std::bit_cast<Value>(std::bit_cast<Word>(nan) | quiet);
  };
  if (std::isnan(a)) return hushed(a);
  if (std::isnan(b)) return hushed(b);
  if (std::isinf(a) && std::isinf(b) && a != b)
    return hushed(-std::numeric_limits<Value>::infinity());
  return a + b;
}

/// What an element of each dtype is as a number (float, double for f64), and back.
template <DType kDType>
struct Numbers {
  using Value = std::conditional_t<kDType == DType::f64, double, float>;
  using Word = std::conditional_t<kDType == DType::f64, std::uint64_t, std::uint32_t>;
  static constexpr bool kNarrow = kDType == DType::f16 || kDType == DType::bf16;
  static constexpr NarrowFloat kFormat = kDType == DType::f16 ? kHalf : kBrain;

  static Value get(const Bytes& data, std::size_t i) {
    if constexpr (kNarrow) {
      std::uint16_t bits;
      std::memcpy(&bits, data.data() + 2 * i, 2);
      return widen(bits);
    } else {
      Value value;
      std::memcpy(&value, data.data() + sizeof value * i, sizeof value);
      return value;
    }
  }
  static void put(Bytes& data, std::size_t i, Value value) {
    if constexpr (kNarrow) {
      const std::uint16_t bits = narrow(value);
      std::memcpy(data.data() + 2 * i, &bits, 2);
    } else {
      std::memcpy(data.data() + sizeof value * i, &value, sizeof value);
    }
  }
  static Value round(Value value) {
    if constexpr (kNarrow) return widen(narrow(value));
    return value;
  }

 private:
  static std::uint16_t narrow(float value) {
    if (!std::isnan(value)) return kFormat.nearest(value);
    if (kDType == DType::bf16) return 0x7fc0;
    return std::signbit(value) ? 0xfe00 : 0x7e00;
  }
  static float widen(std::uint16_t bits) {
    if ((bits & 0x7fff) > (kDType == DType::f16 ? 0x7c00 : 0x7f80)) {  // a NaN keeps its bits
      const std::uint32_t fraction = bits & ((1u << kFormat.fraction) - 1);
      return std::bit_cast<float>((bits & 0x8000u) << 16 | 0x7f800000u |
                                  fraction << (23 - kFormat.fraction));
    }
    return static_cast<float>(kFormat.value(bits));
  }
};

// --- the reference -----------------------------------------------------------------------------

/// Elements of a chunk of Gloo's ring, as the research notes give it.
inline std::uint64_t reference_chunk(std::uint64_t n, std::uint64_t width, std::uint64_t world) {
  const auto ceil = [](std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); };
  const std::uint64_t size = n * width;
  const std::uint64_t cap = 1048576 - 1048576 % width;
  std::uint64_t segments = std::max(ceil(size, cap), 2 * world);
  while (segments % world != 0) ++segments;
  return ceil(ceil(size, segments), width) * (segments / world);
}

template <DType kDType>
Bytes reference_of(const std::vector<Bytes>& inputs, SumOrder order, bool mean) {
  using N = Numbers<kDType>;
  using Value = typename N::Value;
  const std::size_t world = inputs.size();
  const std::size_t width = element_size(kDType);
  const std::size_t n = inputs[0].size() / width;
  if (world == 1) return inputs[0];
  const auto factor = static_cast<Value>(1.0 / static_cast<double>(world));
  const std::uint64_t chunk = reference_chunk(n, width, world);
  Bytes result(inputs[0].size());
  for (std::size_t i = 0; i < n; ++i) {
    const auto sum = [](Value a, Value b) { return reference_sum<Value, typename N::Word>(a, b); };
    if (order == SumOrder::rank) {
      Value total = N::get(inputs[0], i);
      for (std::size_t r = 1; r < world; ++r) total = sum(total, N::get(inputs[r], i));
      total = N::round(total);
      N::put(result, i, mean ? total * factor : total);
      continue;
    }
    const auto value = [&](std::size_t r) {
      const Value own = N::get(inputs[r], i);
      return mean ? N::round(own * factor) : own;
    };
    std::size_t r = (i / chunk + world - 1) % world;
    Value total = value(r);
    for (std::size_t k = 1; k < world; ++k) {
      r = r == 0 ? world - 1 : r - 1;
      total = N::round(sum(total, value(r)));
    }
    N::put(result, i, total);
  }
  return result;
}

inline Bytes reference(DType dtype, const std::vector<Bytes>& inputs, SumOrder order, bool mean) {
  switch (dtype) {
    case DType::bf16:
      return reference_of<DType::bf16>(inputs, order, mean);
    case DType::f16:
      return reference_of<DType::f16>(inputs, order, mean);
    case DType::f64:
      return reference_of<DType::f64>(inputs, order, mean);
    default:
      return reference_of<DType::f32>(inputs, order, mean);
  }
}

// --- buckets and ranks
// ----------------------------------------------------------------------------

/// Tensors of n elements together: matrices, kernels, vectors, scalars, empty ones in between.
inline std::vector<BucketTensor> draw_tensors(std::uint64_t n, std::mt19937_64& random) {
  std::vector<BucketTensor> tensors;
  while (n > 0) {
    std::vector<std::uint64_t> shape;
    const std::uint64_t rows = 1 + random() % 200, columns = 1 + random() % 300;
    switch (random() % 6) {
      case 0:
        shape = {rows, columns};
        break;
      case 1:
        shape = {1 + rows / 8, 1 + columns / 16, 3, 3};
        break;
      case 2:
        shape = {1 + random() % 5000};
        break;
      case 3:
        shape = {};
        break;
      case 4:
        shape = {rows, 0, columns};
        break;
      default:
        shape = {n};
        if (random() % 4 != 0) shape = {1 + random() % n};
    }
    if (element_count(shape) > n) continue;
    n -= element_count(shape);
    tensors.push_back({std::move(shape)});
  }
  return tensors;
}

/// Values of one rank: each tensor with its own content.
inline Bytes draw_values(DType dtype, const std::vector<BucketTensor>& tensors,
                         std::uint64_t seed) {
  constexpr Content kGradients[] = {Content::normal,      Content::bf16_values, Content::specials,
                                    Content::mostly_zero, Content::smooth,      Content::normal};
  TensorMaker make(seed);
  Bytes data;
  for (const BucketTensor& tensor : tensors) {
    const Owned values = make(dtype, tensor.shape, kGradients[make.random()() % 6]);
    data.insert(data.end(), values.data.begin(), values.data.end());
  }
  return data;
}

/// Runs exchanges of all ranks to their ends; returns the number of steps.
inline std::uint64_t run_all(const std::vector<std::unique_ptr<Exchange>>& exchanges,
                             std::uint64_t seed, Loopback::Tamper tamper = nullptr) {
  std::vector<Exchange*> pointers;
  for (const auto& exchange : exchanges) pointers.push_back(exchange.get());
  Loopback loopback(pointers, seed, std::move(tamper));
  loopback.run();
  return loopback.steps();
}

/// All ranks of one bucket.
struct Ranks {
  DType dtype;
  std::vector<BucketTensor> tensors;
  ExchangeOptions options;
  std::vector<ExchangeBucket> buckets;
  std::vector<Bytes> data;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  Bytes expected;

  Ranks(DType type, std::vector<BucketTensor> shapes, unsigned world, const ExchangeOptions& chosen,
        std::uint32_t index = 0)
      : dtype(type), tensors(std::move(shapes)), options(chosen) {
    for (unsigned r = 0; r < world; ++r)
      buckets.emplace_back(index, dtype, tensors, r, world, options);
  }
  void fill(std::uint64_t seed) {
    data.clear();
    for (std::size_t r = 0; r < buckets.size(); ++r)
      data.push_back(draw_values(dtype, tensors, 1000 * seed + r));
    expected = reference(dtype, data, options.order, options.mean);
  }
  void start(bool gather, std::uint32_t step) {
    exchanges.clear();
    for (std::size_t r = 0; r < buckets.size(); ++r)
      exchanges.push_back(gather ? buckets[r].gather_merge(data[r], step)
                                 : buckets[r].two_shot(data[r], step));
  }
  /// Returns the number of steps.
  std::uint64_t run(std::uint64_t seed, Loopback::Tamper tamper = nullptr) {
    return run_all(exchanges, seed, std::move(tamper));
  }
  void expect_right() const {
    for (std::size_t r = 0; r < exchanges.size(); ++r) {
      EXPECT_FALSE(exchanges[r]->error()) << exchanges[r]->error()->what();
      EXPECT_TRUE(exchanges[r]->done());
      EXPECT_TRUE(data[r] == expected) << "rank " << r << " has other bits";
    }
  }
  /// Every rank has an error or the right bits; the number of those with an error.
  std::size_t expect_safe() const {
    std::size_t errors = 0;
    for (std::size_t r = 0; r < exchanges.size(); ++r) {
      if (exchanges[r]->error()) {
        ++errors;
        continue;
      }
      EXPECT_TRUE(exchanges[r]->done()) << "rank " << r << " waits";
      EXPECT_TRUE(data[r] == expected) << "rank " << r << " is silently wrong";
    }
    return errors;
  }
};

}  // namespace gradwire::testing
