// What coded symbols take beside their empirical entropy, and recipes that do not compose.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "error_testing.h"
#include "lossy/codec/body.h"
#include "lossy/codec/code_values.h"
#include "lossy/method/recipe.h"

namespace gradwire::lossy {
namespace {

constexpr std::size_t kValues = 1 << 20;

/// Laplace variables whose scale differs by row, as gradients' do.
const std::vector<float>& gradient() {
  static const std::vector<float> values = [] {
    std::vector<float> drawn(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      const std::uint64_t bits = random_bits(5, i);
      const double uniform = (static_cast<double>(bits >> 11) + 1) * 0x1p-53;
      const double scale = 1e-3 * std::exp2(static_cast<double>(i / 1024 % 5));
      drawn[i] = static_cast<float>((bits & 1 ? scale : -scale) * std::log(uniform));
    }
    return drawn;
  }();
  return values;
}

/// Bits a symbol of a code that knows the shares of all symbols.
double entropy(const Coded& coded) {
  const std::size_t width = element_size(coded.rule.dtype);
  std::map<std::uint32_t, std::size_t> counts;
  for (std::size_t at = 0; at < coded.symbols.size(); at += width)
    ++counts[width == 1 ? coded.symbols[at] : load<std::uint16_t>(&coded.symbols[at])];
  const double n = static_cast<double>(coded.symbols.size() / width);
  double bits = 0;
  for (const auto& [symbol, count] : counts)
    bits -= static_cast<double>(count) / n * std::log2(static_cast<double>(count) / n);
  return bits;
}

class CodedBits : public ::testing::TestWithParam<const char*> {};

TEST_P(CodedBits, AreNearTheSymbolsEntropy) {
  const Recipe recipe = parse_recipe(GetParam());
  CodeMemory codes;
  Coded coded;
  BodyMemory memory;
  Bytes body;
  ASSERT_TRUE(code_values(gradient(), recipe.values, {1, 0}, codes, coded));
  const std::vector<std::uint64_t> dims{1024, 1024};
  const BodyBytes bytes = write_body({.dims = dims}, coded, BodyEnd::none, 0, memory, body);
  const double bits = 8.0 * static_cast<double>(bytes.values) / static_cast<double>(kValues);
  EXPECT_LE(bits, 1.03 * entropy(coded)) << entropy(coded);
  RecordProperty("bits", std::to_string(bits));
  RecordProperty("entropy", std::to_string(entropy(coded)));
}

INSTANTIATE_TEST_SUITE_P(Methods, CodedBits,
                         ::testing::Values("qsgd", "qsgd(levels=1)", "qsgd(levels=127)", "qgz",
                                           "qgz(bits=8)", "terngrad", "natural", "sign", "efsign",
                                           "onebit", "gennorm", "gennorm(levels=3)", "co3",
                                           "cast(values=e4m3)", "cast(values=int8)"));

TEST(Recipe, WhatDoesNotComposeIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"topk(feedback=false)", "force=true"},
      {"randomk(feedback=true)", "unbiased=true and feedback do not go together"},
      {"qsgd(rounding=nearest)", "force=true"},
      {"randomk(unbiased=false)", "force=true"},
      {"randomk(values=int8)", "force=true"},
      {"efsign(feedback=false)", "force=true"},
      {"onebit(feedback=false)", "force=true"},
      {"gennorm(feedback=false)", "force=true"},
      {"co3(feedback=false)", "force=true"},
      {"lhc(feedback=false)", "force=true"},
      {"powersgd(feedback=false)", "force=true"},
      {"acpsgd(feedback=false)", "force=true"},
      {"threshold(warmup=4)", "parameter 'warmup' is unknown"},
      {"topk(keep=0)", "keep: 0 given"},
      {"topk(keep=1.5)", "keep: 1.5 given"},
      {"topk(keep=nan)", "keep: nan given"},
      {"dgc(momentum=1)", "momentum: 1 given"},
      {"dgc(level=3)", "dgc: parameter 'level' is unknown"},
      {"topk(keep=0.1,keep=0.1)", "given twice"},
      {"topk(keep)", "has no value"},
      {"topk(keep=0.1", "does not end with ')'"},
      {"topkk", "did you mean 'topk'"},
      {"sidco(model=normal)", "model 'normal' is unknown"},
      {"topk(schedule=0.5/2)", "schedule: 2 given"},
      {"thc(bits=4,top=9)", "top: 9 given, at least 15 needed"},
      {"thc(rotation=1000)", "rotation: 1000 given"},
      {"lhc(cells=0.05)", "cells"},
      {"powersgd(matrix_rank=0)", "matrix_rank: 0 given"},
      {"co3(exponent_bits=5,fraction_bits=4)", "bits"},
      {"gcomp(bits=2,fewest=9)", "fewest"},
      {"threshold(bound=-1)", "bound: -1 given"},
      {"lgc(feedback=false)", "force=true"},
      {"lgc(mode=star)", "mode 'star' is unknown"},
      {"lgc(innovation=0)", "innovation: 0 given"},
  };
  for (const auto& [spec, words] : cases) {
    const std::string message =
        gradwire::testing::refusal(ErrorKind::invalid_argument, [&] { parse_recipe(spec); });
    EXPECT_NE(message.find(words), std::string::npos) << spec << ": " << message;
  }
}

TEST(Recipe, WhatIsRefusedWithoutForceIsTakenWithIt) {
  for (const char* spec :
       {"topk(feedback=false,force=true)", "randomk(unbiased=false,force=true)",
        "randomk(unbiased=false,feedback=true)", "efsign(feedback=false,force=true)",
        "gennorm(feedback=false,force=true)", "powersgd(feedback=false,force=true)"})
    EXPECT_NO_THROW(parse_recipe(spec)) << spec;
}

TEST(Recipe, ACastToTheSameFloatsStaysOneWhateverItsBucket) {
  const Recipe recipe = parse_recipe("cast(values=f32,bucket=256)");
  EXPECT_TRUE(std::holds_alternative<ExactValues>(recipe.values));
  const Recipe levels = parse_recipe("cast(bucket=256,values=int8)");
  EXPECT_EQ(bucket_of(levels.values), 256u);
}

TEST(Recipe, TheCanonicalFormHasNoDefaultsAndOneOrder) {
  EXPECT_EQ(parse_recipe(" topk ( keep = 0.010 ) ").canonical, "topk");
  EXPECT_EQ(parse_recipe("topk(values=f16,keep=1e-3)").canonical, "topk(keep=0.001,values=f16)");
  EXPECT_EQ(parse_recipe("dgc(mask=1,nesterov=0,values=fp16)").canonical, "dgc");
  EXPECT_EQ(parse_recipe("dgc(mask=0)").canonical, "dgc(mask=false)");
  for (const Method& method : recipes()) {
    EXPECT_EQ(parse_recipe(method.name).canonical, method.name);
    std::string full;
    for (const MethodParameter& parameter : method.parameters) {
      full += full.empty() ? "" : ",";
      full += std::string(parameter.name) + "=" + std::string(parameter.default_value);
    }
    EXPECT_EQ(parse_recipe(std::string(method.name) + "(" + full + ")").canonical, method.name);
  }
}

}  // namespace
}  // namespace gradwire::lossy
