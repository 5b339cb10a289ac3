// Networks of learned compression against a plain form of their layers, in double.
#include <cmath>

#include "error_testing.h"
#include "learned_testing.h"

namespace gradwire {
namespace {

using lossy::Network;
using testing::refusal;
using testing::TestNetwork;

using Channels = std::vector<std::vector<double>>;  // [channel][position]

double leaky(double v) { return v < 0 ? 0.01 * v : v; }

/// Reads weights in PyTorch's order, and applies layers as PyTorch defines them.
class Plain {
 public:
  explicit Plain(const TestNetwork& network) : network_(network), weights_(network.weights()) {}

  Channels encode(const std::vector<float>& values) {
    Channels x(1, std::vector<double>(values.begin(), values.end()));
    next_ = weights_.data();
    for (const std::size_t to : network_.encoder) x = convolve(x, to, 3, 2, 1, true);
    return convolve(x, network_.code, 1, 1, 0, false);
  }

  Channels decode(Channels x) {
    for (const std::size_t to : network_.decoder) x = transpose(x, to);
    return convolve(x, 1, 1, 1, 0, false);
  }

 private:
  Channels convolve(const Channels& in, std::size_t to, std::size_t kernel, std::size_t stride,
                    std::size_t padding, bool is_leaky) {
    const std::size_t length = in[0].size();
    Channels out(to, std::vector<double>(length / stride));
    const float* bias = next_ + to * in.size() * kernel;
    for (std::size_t o = 0; o < to; ++o) {
      for (std::size_t p = 0; p < length / stride; ++p) {
        double sum = bias[o];
        for (std::size_t c = 0; c < in.size(); ++c)
          for (std::size_t j = 0; j < kernel; ++j)
            if (const std::size_t at = p * stride + j - padding; at < length)
              sum += next_[(o * in.size() + c) * kernel + j] * in[c][at];
        out[o][p] = is_leaky ? leaky(sum) : sum;
      }
    }
    next_ = bias + to;
    return out;
  }

  Channels transpose(const Channels& in, std::size_t to) {
    const std::size_t length = in[0].size();
    const float* bias = next_ + in.size() * to * 3;
    Channels out(to, std::vector<double>(2 * length));
    for (std::size_t o = 0; o < to; ++o) {
      for (double& v : out[o]) v = bias[o];
      for (std::size_t c = 0; c < in.size(); ++c)
        for (std::size_t i = 0; i < length; ++i)
          for (std::size_t j = 0; j < 3; ++j)
            if (const std::size_t at = 2 * i + j - 1; at < 2 * length)
              out[o][at] += next_[(c * to + o) * 3 + j] * in[c][i];
      for (double& v : out[o]) v = leaky(v);
    }
    next_ = bias + to;
    return out;
  }

  TestNetwork network_;
  std::vector<float> weights_;
  const float* next_ = nullptr;
};

std::vector<float> values_of(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = 4 * (random_unit(RandomKey(9, 0), static_cast<std::uint32_t>(i)) - 0.5F);
  return values;
}

class Networks : public ::testing::TestWithParam<TestNetwork> {};

TEST_P(Networks, AreWhatPyTorchDefines) {
  const TestNetwork& given = GetParam();
  Network network(given.bytes());
  const std::size_t unit = std::size_t{1} << given.encoder.size();
  for (const std::size_t n : {std::size_t{1}, unit - 1, unit, 5 * unit + 1, std::size_t{1024}}) {
    const std::vector<float> values = values_of(n);
    std::vector<float> code(network.code_size(n)), restored(n);
    network.encode(values, code);
    network.decode(code, restored);

    std::vector<float> padded = values;
    padded.resize((n + unit - 1) / unit * unit);
    Plain plain(given);
    const Channels codes = plain.encode(padded);
    ASSERT_EQ(code.size(), codes.size() * codes[0].size());
    for (std::size_t i = 0; i < code.size(); ++i)
      ASSERT_NEAR(code[i], codes[i % codes.size()][i / codes.size()], 1e-4) << n << ", " << i;
    const Channels decoded = plain.decode(codes);
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(restored[i], decoded[0][i], 1e-4) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, Networks,
                         ::testing::Values(TestNetwork{}, TestNetwork{{1}, {1}, 1},
                                           TestNetwork{{64, 128, 256, 64}, {32, 64, 128, 32}, 4},
                                           TestNetwork{{16, 17}, {33, 16}, 16}));

TEST(Network, CodesBlocksByThemselves) {
  Network network(TestNetwork{}.bytes());
  const std::vector<float> values = values_of(2 * Network::kBlock + 77);
  std::vector<float> code(network.code_size(values.size())), last(network.code_size(77));
  network.encode(values, code);
  network.encode(std::span(values).last(77), last);
  EXPECT_TRUE(std::ranges::equal(std::span(code).last(last.size()), last));
  EXPECT_EQ(code.size(), 2 * network.code_size(Network::kBlock) + last.size());
}

TEST(Network, OfTheUsualWidthsTakesAQuarterOfTheFloats) {
  Network network(testing::usual_network());
  EXPECT_EQ(network.code_size(16 * 1000), 4000u);
}

TEST(Network, RefusesWhatIsNone) {
  const Bytes sound = TestNetwork{}.bytes();
  for (std::size_t n = 0; n < sound.size(); n += n < 40 ? 1 : 97)
    EXPECT_NE(refusal(ErrorKind::truncated, [&] { Network(ByteSpan(sound).first(n)); }), "") << n;
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    Bytes bytes = sound;
    bytes[at] = value;
    return bytes;
  };
  Bytes longer = sound;
  longer.push_back(0);
  refusal(ErrorKind::corrupt, [&] { Network{longer}; });
  refusal(ErrorKind::corrupt, [&] { Network(changed(0, 1)); });
  refusal(ErrorKind::unsupported, [&] { Network(changed(4, 2)); });
  refusal(ErrorKind::corrupt, [&] { Network(changed(5, 0)); });
  refusal(ErrorKind::corrupt, [&] { Network(changed(5, 9)); });
  refusal(ErrorKind::corrupt, [&] { Network(changed(6, 0)); });  // a width of 0
  Bytes infinite = sound;
  store(infinite.data() + infinite.size() - 4, std::uint32_t{0x7f800000});
  const std::string message = refusal(ErrorKind::corrupt, [&] { Network{infinite}; });
  EXPECT_NE(message.find("bias"), std::string::npos) << message;
  Bytes head;
  ByteWriter out(head);
  out.u32(0x4e4c5747);
  out.u8(1);
  out.u8(2);
  for (int i = 0; i < 5; ++i) out.u16(4096);
  refusal(ErrorKind::limit, [&] { Network{head}; });
}

}  // namespace
}  // namespace gradwire
