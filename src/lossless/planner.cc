#include "lossless/planner.h"

#include <algorithm>
#include <numeric>

#include "base/counted.h"
#include "lossless/estimate.h"
#include "lossless/estimate_kernels.h"
#include "lossless/side_info.h"
#include "lossless/survey.h"
#include "stages/predict/kernels_fit.h"
#include "stages/split/words.h"

namespace gradwire::lossless {
namespace {

constexpr std::uint64_t kMinScaledElements = 64;
constexpr unsigned kHalfOctave = 3;  ///< in sixteenths, as a power of two
constexpr unsigned kQuarterOctave = 2;
constexpr std::uint64_t kSureShare = 16;  ///< kernels that seem to save less are tried against it

/// Tries candidate plans against each other and keeps the cheapest.
template <typename Word>
class Planner {
 public:
  Planner(const TensorView& tensor, const CompressOptions& options)
      : tensor_(tensor),
        options_(options),
        taps_(kernel_taps(tensor.shape)),
        survey_(survey_tensor<Word>(tensor)),
        sample_(tensor, survey_.zeros, taps_),
        significant_(count_significant(sample_, tensor.dtype)),
        estimate_(tensor.dtype, sample_, options) {}

  Plans choose() {
    best_ = base_plan();
    choose_zeros();
    choose_fractions();
    const ScaledParameters plain = best_.header.scaled;
    const predict::Grid dead = best_.grid;
    const std::uint64_t n = best_.header.elements;
    const std::uint64_t rows = n / plain.columns;
    if (options_.level >= 2 && n >= kMinScaledElements && rows > 1 &&
        rows + plain.columns <= side_limit(n)) {
      try_scales(plain, dead, 0, kHalfOctave);
      if (options_.level >= 3) try_scales(plain, dead, std::min(2u, plain.kept), kQuarterOctave);
    }
    if (options_.level >= 2 && taps_ > 1) try_taps(plain.step_log2);
    reconsider_zeros();
    if constexpr (sizeof(Word) < 8) {
      if (options_.level >= 3 && taps_ > 1) try_kernels(plain);
    }
    return {std::move(best_), std::move(rival_)};
  }

 private:
  /// Taps of a convolution kernel: the product of dimensions 2 and up, where it is small.
  static std::uint64_t kernel_taps(std::span<const std::uint64_t> shape) {
    if (shape.size() < 3 || shape.size() > 5) return 1;
    const std::uint64_t taps =
        std::accumulate(shape.begin() + 2, shape.end(), std::uint64_t{1}, std::multiplies<>());
    return taps >= 2 && taps <= 64 ? taps : 1;
  }

  Plan base_plan() const {
    Plan plan;
    plan.header = plain_header(tensor_);
    plan.header.pipeline = frame::Pipeline::scaled;
    ScaledParameters& p = plan.header.scaled;
    p.kept = survey_.fraction_bits;
    const std::uint64_t n = plan.header.elements;
    const std::uint64_t rows = tensor_.shape.size() >= 2 ? tensor_.shape[0] : 1;
    p.columns = n / rows;
    if (p.columns >= (std::uint64_t{1} << 31)) p.columns = 1;
    return plan;
  }

  /// Keeps the plan if it is the cheapest so far.
  void consider(Plan plan, std::size_t side) {
    const std::uint64_t bits = estimate_(plan, side);
    if (bits >= best_bits_) return;
    best_bits_ = bits;
    best_side_ = side;
    best_ = std::move(plan);
  }

  void choose_zeros() {
    const Plan base = best_;
    if (survey_.zeros == 0 || options_.zeros == Zeros::none) return consider(base, 0);
    predict::Grid dead;
    if (options_.zeros == Zeros::automatic && base.header.scaled.columns > 1) {
      find_dead_lines<Word>(tensor_, base.header.scaled.columns, dead);
    }
    for (const bool map : {false, true}) {
      if (map ? options_.zeros == Zeros::in_band
              : options_.zeros == Zeros::runs || options_.zeros == Zeros::bitmap)
        continue;
      Plan plan = base;
      plan.map_zeros = map;
      plan.header.scaled.has_zero = !map;
      consider(plan, 0);
      if (!has_dead(dead)) continue;
      plan.grid = dead;
      const std::size_t side = write_dead(dead).size();
      consider(std::move(plan), side);
    }
  }

  /// The plain plan could pair symbols, which suits in-band zeros; the best plan may not.
  void reconsider_zeros() {
    if (survey_.zeros == 0 || options_.zeros != Zeros::automatic) return;
    Plan plan = best_;
    plan.map_zeros = !plan.map_zeros;
    plan.header.scaled.has_zero = !plan.map_zeros;
    consider(std::move(plan), best_side_);
  }

  /// Fraction bits kept (what lies below becomes escapes), and records by count of significant
  /// bits.
  void choose_fractions() {
    const Plan base = best_;
    const std::size_t side = write_dead(base.grid).size();
    const unsigned kept = cheapest_kept(base);
    if (kept < base.header.scaled.kept) {
      best_.header.scaled.kept = kept;
      best_bits_ = estimate_(best_, side);
    }
    if (tensor_.dtype != DType::f32 && tensor_.dtype != DType::f16) return;
    if (base.header.scaled.kept == 0) return;
    for (const bool joint : {false, true}) {
      Plan plan = base;
      plan.header.scaled.counted = true;
      plan.header.scaled.low_count = cheapest_low_count(base.header.scaled.kept);
      plan.header.scaled.joint = joint;
      const bool pairs = options_.coder != Coder::ans && options_.tables != Tables::gennorm;
      if (!joint || (options_.pairs && pairs)) consider(std::move(plan), side);
    }
  }

  /// The lo whose 15 counts waste the fewest bits.
  unsigned cheapest_low_count(unsigned rest) const {
    unsigned best = 0;
    std::uint64_t least = UINT64_MAX;
    for (unsigned lo = 0; lo == 0 || lo + 14 <= rest; ++lo) {
      std::uint64_t bits = 0;
      for (unsigned u = 0; u <= rest; ++u) {
        const unsigned v = u <= lo ? 0 : u < lo + 15 ? u - lo : 15;
        bits += significant_[u] * open_bits(v, {rest, lo});
      }
      if (bits < least) {
        least = bits;
        best = lo;
      }
    }
    return best;
  }

  unsigned cheapest_kept(const Plan& base) const {
    const unsigned fraction = float_format(tensor_.dtype).fraction_bits;
    std::uint64_t beyond = 0;
    std::uint64_t least = UINT64_MAX;
    unsigned best = base.header.scaled.kept;
    const std::uint64_t count =
        std::accumulate(significant_.begin(), significant_.end(), std::uint64_t{0});
    for (unsigned kept = base.header.scaled.kept;; --kept) {
      ScaledParameters p = base.header.scaled;
      p.kept = kept;
      const std::uint64_t bits =
          count * kept + beyond * (8 * predict::escape_bytes(float_format(tensor_.dtype), p) + 8);
      if (bits < least) {
        least = bits;
        best = kept;
      }
      if (kept == 0) break;
      beyond += significant_[kept];
      if (beyond * 64 > count) break;  // escapes are for exceptions; a chunk holds 65535 at most
    }
    return std::min(best, fraction);
  }

  /// Scales in steps of `units` sixteenths, with raw signs and with rank-one signs.
  void try_scales(const ScaledParameters& plain, const predict::Grid& dead, unsigned step_log2,
                  unsigned units) {
    Plan plan = best_;
    plan.grid = dead;
    plan.header.scaled = plain;
    plan.header.scaled.has_scales = true;
    plan.header.scaled.step_log2 = step_log2;
    plan.header.scaled.halved = step_log2 == 0;
    if (step_log2 > 0 && plan.header.scaled.counted) {
      plan.header.scaled.joint = false;  // too many symbols for it
      if (plan.header.scaled.kept <= step_log2) return;
      plan.header.scaled.low_count =
          std::min(plan.header.scaled.low_count, plan.header.scaled.rest_bits());
    }
    if (means_.rows.empty()) means_ = fit_scales<Word>(tensor_, plain.columns, survey_.zeros);
    quantise_scales(means_, units, plan.grid);
    const std::size_t side = write_dead(dead).size() + write_scales(plan.grid).size();
    if (step_log2 == 0) scaled_ = plan;
    consider(plan, side);
    if (step_log2 > 0 && plan.header.scaled.counted) {
      plan.header.scaled.counted = false;  // the symbols have taken bits that counts had used
      consider(plan, side);
    }
    if (!signs_pay_) signs_pay_ = fit_signs<Word>(tensor_, plain.columns, survey_.zeros, signs_);
    if (!*signs_pay_) return;
    plan.grid.row_signs = signs_.row_signs;
    plan.grid.column_signs = signs_.column_signs;
    plan.header.scaled.sign_mode = SignMode::rank_one;
    plan.header.scaled.joint = false;
    const std::size_t signs = write_signs(plan.grid).size();
    consider(std::move(plan), side + signs);
  }

  /// Exponent and sign from the previous tap, on top of the scales found so far (or none).
  void try_taps(unsigned step_log2) {
    if (best_.header.scaled.step_log2 != step_log2) return;
    const bool scales = best_.header.scaled.has_scales;
    try_taps_on(best_);
    // Pairs of plain symbols can beat scales without taps, and still lose to scales with them.
    if (!scales && scaled_.header.scaled.has_scales) try_taps_on(scaled_);
  }

  void try_taps_on(Plan plan) {
    ScaledParameters& p = plan.header.scaled;
    p.sign_mode = SignMode::tap;
    p.joint = false;
    p.taps = taps_;
    p.inner = 1;
    plan.grid.row_signs.clear();
    plan.grid.column_signs.clear();
    const std::size_t side =
        write_dead(plan.grid).size() + (p.has_scales ? write_scales(plan.grid).size() : 0);
    consider(std::move(plan), side);
  }

  /// Values of kernels given a least-squares guess from their earlier taps.
  void try_kernels(const ScaledParameters& plain) {
    Plan plan;
    plan.header = plain_header(tensor_);
    plan.header.pipeline = frame::Pipeline::kernels;
    plan.header.chunk_elements =
        static_cast<std::uint32_t>(frame::kMaxChunkElements / taps_ * taps_);
    KernelParameters& p = plan.header.kernels;
    p.taps = taps_;
    p.counted = plain.counted && tensor_.dtype == DType::f32;
    p.kept = std::max(plain.kept, predict::kernel_fraction(tensor_.dtype));
    const unsigned low = p.kept - predict::kernel_fraction(tensor_.dtype);
    p.counted = p.counted && low > 0;
    // Counts start where they did for the whole fraction, less what the lattice takes.
    const unsigned taken = predict::kernel_fraction(tensor_.dtype);
    p.low_count = p.counted && plain.low_count > taken ? std::min(plain.low_count - taken, low) : 0;
    const predict::Taps taps = fit_kernels<Word>(tensor_, p);
    const KernelSample<Word> kernels(tensor_.dtype, sample_, p, taps);
    const std::uint64_t scaled_bits = best_bits_;
    const auto better = [&](unsigned effort, std::uint64_t than) {
      plan.taps = predict::with_effort(taps, effort);
      const std::uint64_t bits = estimate_kernels<Word>(kernels, plan);
      if (bits >= than) return UINT64_MAX;
      if (bits < best_bits_) {
        best_bits_ = bits;
        if (best_.header.pipeline == frame::Pipeline::scaled) rival_ = std::move(best_);
        best_ = plan;
      }
      return bits;
    };
    // Bits fall and then rise with the effort: up from the usual one, else one down.
    const std::uint64_t usual = better(1, UINT64_MAX);
    std::uint64_t least = usual;
    for (unsigned effort = 2; effort <= 3 && least != UINT64_MAX; ++effort) {
      const std::uint64_t bits = better(effort, least);
      if (effort == 2 && bits == UINT64_MAX) better(0, usual);
      least = bits;
    }
    if (best_bits_ <= scaled_bits - scaled_bits / kSureShare) rival_.reset();
  }

  const TensorView& tensor_;
  const CompressOptions& options_;
  std::uint64_t taps_;
  Survey survey_;
  Sample<Word> sample_;
  std::array<std::uint64_t, 65> significant_;
  Estimator<Word> estimate_;
  ScaleMeans means_;
  predict::Grid signs_;
  std::optional<bool> signs_pay_;  ///< once they have been fitted
  Plan best_;
  Plan scaled_;                ///< with scales and raw signs, once they have been tried
  std::optional<Plan> rival_;  ///< so near to the best that only encoding tells
  std::uint64_t best_bits_ = UINT64_MAX;
  std::size_t best_side_ = 0;  ///< bytes of its side information
};

}  // namespace

frame::TensorHeader plain_header(const TensorView& tensor) {
  frame::TensorHeader header;
  header.dtype = tensor.dtype;
  header.dims.assign(tensor.shape.begin(), tensor.shape.end());
  header.elements = tensor.data.size() / element_size(tensor.dtype);
  header.streams_log2 = header.elements < 2048 ? 0 : header.elements < 8192 ? 1 : 3;
  return header;
}

Plan stored_plan(const TensorView& tensor) {
  Plan plan;
  plan.header = plain_header(tensor);
  plan.all_stored = true;
  return plan;
}

Plans make_plans(const TensorView& tensor, const CompressOptions& options) {
  if (options.coder == Coder::stored) return {stored_plan(tensor), {}};
  if (!is_float(tensor.dtype)) {
    Plan plan;
    plan.header = plain_header(tensor);
    return {std::move(plan), {}};
  }
  return split::with_word(
      tensor.dtype, [&](auto word) { return Planner<decltype(word)>(tensor, options).choose(); });
}

}  // namespace gradwire::lossless
