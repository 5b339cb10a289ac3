// Feedback: what is sent and what is kept make up all gradients; momentum correction as in the
// paper's equations; state that survives.

#include "feedback/feedback.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "error_testing.h"

namespace gradwire::feedback {
namespace {

using testing::refusal;
using Values = std::vector<float>;
using Indices = std::vector<std::uint32_t>;
constexpr double kUnit = 0x1p-24;  ///< relative error of one rounding

Values normal_values(std::mt19937& random, std::size_t n) {
  std::normal_distribution<float> normal;
  Values values(n);
  for (float& value : values) value = normal(random);
  return values;
}

/// The k entries of largest magnitude, ascending.
Indices top(std::span<const float> values, std::size_t k) {
  Indices order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(
      order, [&](auto a, auto b) { return std::fabs(values[a]) > std::fabs(values[b]); });
  order.resize(k);
  std::ranges::sort(order);
  return order;
}

Feedback make(const FeedbackOptions& options, std::vector<std::uint64_t> shape = {37}) {
  return Feedback(options, "layer.weight", std::move(shape));
}

TEST(ErrorFeedback, WorkedByHand) {
  Feedback feedback = make({.decay = 0.5F}, {2});
  EXPECT_TRUE(std::ranges::equal(*feedback.before(Values{4, 1}), Values{4, 1}));
  feedback.after(Values{3, 0});  // keeps 1 and 1
  EXPECT_TRUE(std::ranges::equal(*feedback.before(Values{0, 2}, {.learning_rate_ratio = 2}),
                                 Values{1, 3}));  // g + 2 * 0.5 * e
  feedback.after(Indices{1});
  EXPECT_TRUE(std::ranges::equal(feedback.error(), Values{1, 0}));
  (void)feedback.before(Values{0, 0});
  feedback.after(Indices{0}, Values{0.25F});
  EXPECT_TRUE(std::ranges::equal(feedback.error(), Values{0.25F, 0}));
}

/// Sends 4 of 37 values a step, in one of three ways, and adds up all that was sent.
double worst_leak(int way) {
  constexpr std::size_t kElements = 37;
  std::mt19937 random(7);
  Feedback feedback = make({});
  std::vector<double> gradients(kElements), sent(kElements), bound(kElements);
  for (int step = 0; step < 100; ++step) {
    const Values gradient = normal_values(random, kElements);
    const auto given = feedback.before(gradient);
    const Values x(given->begin(), given->end());
    const Indices chosen = top(x, 4);
    Values dense(kElements);
    Values sparse;
    for (const std::uint32_t i : chosen) {
      dense[i] = way == 0 ? x[i] : std::ldexp(std::round(std::ldexp(x[i], 6)), -6);
      sparse.push_back(dense[i]);
    }
    if (way == 0) feedback.after(chosen);
    if (way == 1) feedback.after(chosen, sparse);
    if (way == 2) feedback.after(dense);
    for (std::size_t i = 0; i < kElements; ++i) {
      gradients[i] += double{gradient[i]};
      sent[i] += double{dense[i]};
      bound[i] += kUnit * (std::fabs(double{x[i]}) + std::fabs(double{feedback.error()[i]}));
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < kElements; ++i) {
    const double leak = std::fabs(sent[i] + double{feedback.error()[i]} - gradients[i]);
    worst = std::max(worst, leak / bound[i]);
  }
  return worst;
}

TEST(ErrorFeedback, SentAndKeptMakeUpAllGradientsToRounding) {
  for (const int way : {0, 1, 2}) EXPECT_LE(worst_leak(way), 1) << "way " << way;
}

TEST(ErrorFeedback, KeepsAllOfAStepThatWasNotSent) {
  Feedback feedback = make({}, {2});
  (void)feedback.before(Values{1, 2});
  (void)feedback.before(Values{3, 4});
  EXPECT_TRUE(std::ranges::equal(feedback.error(), Values{4, 6}));
}

TEST(Feedback, NoneGivesTheGradientAndKeepsNothing) {
  Feedback feedback = make({.kind = FeedbackKind::none}, {2});
  const Values gradient{1, 2};
  EXPECT_EQ(feedback.before(gradient)->data(), gradient.data());
  feedback.after(Indices{1});
  feedback.after(gradient);
  EXPECT_TRUE(feedback.error().empty() && feedback.momentum().empty());
}

/// The paper's equations (Lin et al. 2018, section 3) in double, of one rank.
struct NaiveDgc {
  FeedbackOptions options;
  std::vector<double> u = std::vector<double>(37);
  std::vector<double> v = std::vector<double>(37);

  void before(const Values& gradient) {
    double norm = 0;
    for (const float g : gradient) norm += double{g} * double{g};
    const double most = double{options.clip_norm} / std::sqrt(static_cast<double>(options.world));
    const double scale = options.clip_norm > 0 ? std::min(1.0, most / std::sqrt(norm)) : 1.0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double g = scale * double{gradient[i]};
      const double m = double{options.momentum};
      u[i] = options.nesterov ? m * (u[i] + g) : m * u[i] + g;
      v[i] += options.nesterov ? u[i] + g : u[i];
    }
  }
  void after(const Indices& sent) {
    for (const std::uint32_t i : sent) {
      v[i] = 0;
      if (options.mask) u[i] = 0;
    }
  }
};

/// Rounding errors of u and v, relative to the largest magnitude M that either had: u takes three
/// roundings a step and forgets them by m, v adds two and what u has; 60 steps.
double dgc_tolerance(const FeedbackOptions& options, double largest) {
  const double of_u = 3 / (1 - double{options.momentum});
  return 60 * (of_u + 2) * kUnit * largest;
}

void expect_dgc_agrees(const FeedbackOptions& options) {
  std::mt19937 random(11);
  Feedback feedback = make(options);
  NaiveDgc naive{options};
  double largest = 0;
  for (int step = 0; step < 60; ++step) {
    const Values gradient = normal_values(random, 37);
    const auto x = feedback.before(gradient);
    naive.before(gradient);
    for (std::size_t i = 0; i < 37; ++i) {
      largest = std::max({largest, std::fabs(naive.u[i]), std::fabs(naive.v[i])});
      ASSERT_NEAR(double{(*x)[i]}, naive.v[i], dgc_tolerance(options, largest)) << step;
      ASSERT_NEAR(double{feedback.momentum()[i]}, naive.u[i], dgc_tolerance(options, largest));
    }
    const Indices sent = top(*x, 3);
    feedback.after(sent);
    naive.after(sent);
  }
}

TEST(Dgc, FollowsThePapersEquations) {
  for (const bool nesterov : {false, true})
    for (const bool mask : {false, true})
      for (const float clip : {0.0F, 4.0F})
        expect_dgc_agrees({.kind = FeedbackKind::dgc,
                           .nesterov = nesterov,
                           .mask = mask,
                           .clip_norm = clip,
                           .world = 4});
}

TEST(Dgc, SendingAllWithoutMaskingIsMomentumSgd) {
  Feedback feedback = make({.kind = FeedbackKind::dgc, .momentum = 0.5F, .mask = false}, {1});
  float velocity = 0;
  for (const float gradient : {1.0F, -3.0F, 2.0F, 8.0F}) {
    velocity = 0.5F * velocity + gradient;  // exact
    EXPECT_EQ((*feedback.before(Values{gradient}))[0], velocity);
    feedback.after(Indices{0});
  }
}

TEST(Dgc, ClipsToTheLocalShareOfTheNorm) {
  const FeedbackOptions options{.kind = FeedbackKind::dgc, .clip_norm = 10, .world = 4};
  Feedback feedback = make(options, {2});
  EXPECT_TRUE(std::ranges::equal(*feedback.before(Values{6, 8}), Values{3, 4}));  // 10 to 10 / 2
  Feedback loose = make(options, {2});
  EXPECT_TRUE(std::ranges::equal(*loose.before(Values{3, 4}), Values{3, 4}));
  Feedback model = make(options, {2});  // the norm of the whole model decides
  EXPECT_TRUE(
      std::ranges::equal(*model.before(Values{3, 4}, {.gradient_norm = 20.0}), Values{0.75F, 1}));
}

TEST(Dgc, KeepsTheRoundingOfSentValuesAndMasksTheirMomentum) {
  for (const bool dense : {false, true}) {
    Feedback feedback = make({.kind = FeedbackKind::dgc}, {3});
    (void)feedback.before(Values{1.5F, 2, 3});
    if (dense) feedback.after(Values{1.25F, 0, 3});
    if (!dense) feedback.after(Indices{0, 2}, Values{1.25F, 3});
    EXPECT_TRUE(std::ranges::equal(feedback.error(), Values{0.25F, 2, 0}));
    EXPECT_TRUE(std::ranges::equal(feedback.momentum(), Values{0, 2, 0}));
  }
}

const FeedbackKind kKinds[] = {FeedbackKind::none, FeedbackKind::error, FeedbackKind::dgc};

Feedback used(const FeedbackOptions& options, std::uint32_t seed) {
  std::mt19937 random(seed);
  Feedback feedback = make(options, {5, 4});
  for (int step = 0; step < 3; ++step) {
    const Indices sent = top(*feedback.before(normal_values(random, 20)), 6);
    feedback.after(sent);
  }
  return feedback;
}

TEST(Feedback, ReportsWhatIsNotFiniteAndKeepsItsState) {
  for (const FeedbackKind kind : kKinds)
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      Feedback feedback = used({.kind = kind, .clip_norm = 1}, 3);
      const Bytes state = feedback.save();
      Values gradient(20, 1);
      gradient[19] = bad;
      EXPECT_FALSE(feedback.before(gradient).has_value());
      EXPECT_EQ(feedback.save(), state);
    }
  Feedback full = make({}, {1});
  EXPECT_TRUE(full.before(Values{3e38F}).has_value());
  EXPECT_FALSE(full.before(Values{3e38F}).has_value()) << "the sum overflows";
  EXPECT_EQ(full.error()[0], 3e38F);
}

TEST(Feedback, SavedStateGoesOnBitForBit) {
  for (const FeedbackKind kind : kKinds) {
    Feedback kept = used({.kind = kind}, 5);
    Feedback resumed = make({.kind = kind}, {5, 4});
    resumed.load(kept.save());
    EXPECT_EQ(resumed.save(), kept.save());
    std::mt19937 random(6);
    const Values gradient = normal_values(random, 20);
    const auto a = kept.before(gradient);
    const auto b = resumed.before(gradient);
    EXPECT_TRUE(std::ranges::equal(*a, *b));
  }
}

TEST(Feedback, RefusesStateOfAnotherShapeKindOrVersion) {
  const Bytes saved = used({}, 1).save();
  Feedback turned = make({}, {4, 5});
  const std::string shape = refusal(ErrorKind::invalid_argument, [&] { turned.load(saved); });
  EXPECT_EQ(shape,
            "feedback state of 'layer.weight': saved for shape [5, 4], the parameter has shape "
            "[4, 5]");
  Feedback dgc = make({.kind = FeedbackKind::dgc}, {5, 4});
  const std::string kind = refusal(ErrorKind::invalid_argument, [&] { dgc.load(saved); });
  EXPECT_NE(kind.find("saved with feedback error, this run uses dgc"), std::string::npos);
  Bytes newer = saved;
  newer[0] = 2;
  Feedback same = make({}, {5, 4});
  refusal(ErrorKind::unsupported, [&] { same.load(newer); });
  for (const float value : same.error()) EXPECT_EQ(value, 0) << "changed by a failed load";
}

TEST(Feedback, RefusesDamagedState) {
  const Bytes saved = used({.kind = FeedbackKind::dgc}, 1).save();
  Feedback feedback = make({.kind = FeedbackKind::dgc}, {5, 4});
  for (std::size_t n = 0; n < saved.size(); ++n)
    refusal(ErrorKind::truncated, [&] { feedback.load(ByteSpan(saved).first(n)); });
  Bytes longer = saved;
  longer.push_back(0);
  refusal(ErrorKind::corrupt, [&] { feedback.load(longer); });
  Bytes infinite = saved;
  store(infinite.data() + infinite.size() - 4, INFINITY);
  const std::string message = refusal(ErrorKind::corrupt, [&] { feedback.load(infinite); });
  EXPECT_NE(message.find("momentum"), std::string::npos) << message;
}

TEST(Feedback, MergingKeepsTheSumOfAllStates) {
  for (const unsigned old_world : {1u, 3u, 5u})
    for (const unsigned new_world : {1u, 2u, 5u, 7u}) {
      std::vector<Feedback> states;
      std::vector<const Feedback*> old;
      for (unsigned k = 0; k < old_world; ++k)
        states.push_back(used({.kind = FeedbackKind::dgc, .world = old_world}, k));
      for (const Feedback& state : states) old.push_back(&state);
      std::vector<double> kept(40), dealt(40), size(40);
      const auto count = [](const Feedback& state, std::vector<double>& sums) {
        for (std::size_t i = 0; i < 20; ++i) sums[i] += double{state.error()[i]};
        for (std::size_t i = 0; i < 20; ++i) sums[20 + i] += double{state.momentum()[i]};
      };
      for (const Feedback& state : states) count(state, kept);
      for (unsigned rank = 0; rank < new_world; ++rank) {
        const Feedback merged = Feedback::merge(old, new_world, rank);
        EXPECT_EQ(merged.options().world, new_world);
        count(merged, dealt);
        for (std::size_t i = 0; i < 20; ++i) size[i] += std::fabs(double{merged.error()[i]});
        for (std::size_t i = 0; i < 20; ++i)
          size[20 + i] += std::fabs(double{merged.momentum()[i]});
      }
      for (std::size_t i = 0; i < 40; ++i) EXPECT_NEAR(dealt[i], kept[i], 1.01 * kUnit * size[i]);
    }
}

TEST(Feedback, RefusesToMergeWhatDoesNotFit) {
  const Feedback one = used({}, 1);
  const Feedback other = make({}, {20});
  const Feedback dgc = used({.kind = FeedbackKind::dgc}, 1);
  const auto merge = [](std::vector<const Feedback*> states, unsigned world, unsigned rank) {
    return [=] { (void)Feedback::merge(states, world, rank); };
  };
  refusal(ErrorKind::invalid_argument, merge({&one, &other}, 1, 0));
  refusal(ErrorKind::invalid_argument, merge({&one, &dgc}, 1, 0));
  refusal(ErrorKind::invalid_argument, merge({}, 1, 0));
  refusal(ErrorKind::invalid_argument, merge({&one}, 2, 2));
}

TEST(Feedback, RefusesWhatDoesNotFitTheParameter) {
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  Feedback feedback = used({.kind = FeedbackKind::dgc}, 2);
  const Bytes state = feedback.save();
  const std::string message = refusal(kInvalid, [&] { (void)feedback.before(Values(19)); });
  EXPECT_EQ(message, "feedback of 'layer.weight': gradient of 19 elements, the parameter has 20");
  refusal(kInvalid, [&] { feedback.after(Values(21)); });
  refusal(kInvalid, [&] { feedback.after(Indices{0, 20}); });
  refusal(kInvalid, [&] { feedback.after(Indices{0, 20}, Values{1, 1}); });
  refusal(kInvalid, [&] { feedback.after(Indices{0}, Values{1, 1}); });
  for (const float ratio : {-1.0F, NAN, INFINITY})
    refusal(kInvalid, [&] { (void)feedback.before(Values(20), {.learning_rate_ratio = ratio}); });
  refusal(kInvalid, [&] { (void)feedback.before(Values(20), {.gradient_norm = NAN}); });
  EXPECT_EQ(feedback.save(), state);
}

TEST(Feedback, RefusesOptionsAndShapesOutOfRange) {
  for (const FeedbackOptions& options :
       {FeedbackOptions{.decay = -1}, FeedbackOptions{.decay = 1.5F}, FeedbackOptions{.decay = NAN},
        FeedbackOptions{.momentum = 1}, FeedbackOptions{.momentum = -0.5F},
        FeedbackOptions{.clip_norm = -1}, FeedbackOptions{.world = 0},
        FeedbackOptions{.kind = static_cast<FeedbackKind>(3)}})
    refusal(ErrorKind::invalid_argument, [&] { (void)make(options); });
  refusal(ErrorKind::limit, [&] { (void)make({}, {1u << 31, 1u << 31, 1u << 31}); });
  refusal(ErrorKind::limit, [&] { (void)make({}, std::vector<std::uint64_t>(65, 1)); });
}

TEST(Feedback, TakesEmptyParametersAndScalars) {
  for (const FeedbackKind kind : kKinds) {
    Feedback empty = make({.kind = kind, .clip_norm = 1}, {0, 3});
    EXPECT_TRUE(empty.before({})->empty());
    empty.after(Values{});
    empty.after(Indices{});
    empty.load(empty.save());
    Feedback scalar = make({.kind = kind}, {});
    EXPECT_EQ((*scalar.before(Values{2}))[0], 2);
  }
}

}  // namespace
}  // namespace gradwire::feedback
