// The sum of what ranks have sent of one tensor: its order, and bodies that do not belong to it.
#include "exchange/lossy_sum.h"

#include "exchange/lossy_work.h"
#include "lossy_testing.h"

namespace gradwire {
namespace {

using exchange::LossySum;
using testing::expect_error;
using testing::Floats;
using testing::gradient;
using Shape = std::vector<std::uint64_t>;

/// What a rank sends of a tensor: its body, with its length in front and room behind.
struct Payload {
  Payload(const std::string& spec, const Floats& values, const Shape& shape,
          DType dtype = DType::f32) {
    lossy::CoderMemory memory;
    lossy::TensorCoder coder(lossy::parse_recipe(spec), "tensor", shape, 0, 1);
    Bytes body;
    coder.encode(values, dtype, {}, lossy::BodyEnd::none, memory, body);
    exchange::append_body(body, bytes);
    size = bytes.size();
    bytes.resize(size + 16);
  }
  ByteReader reader() const { return ByteReader(ByteSpan(bytes).first(size)); }

  Bytes bytes;
  std::size_t size = 0;
};

struct Sum {
  Floats mean(const std::vector<Payload>& payloads, const Shape& shape, std::size_t n) {
    sum.begin(DType::f32, shape, n, false);
    for (const Payload& payload : payloads) {
      ByteReader in = payload.reader();
      sum.add_next(in);
      in.expect_end("payload");
    }
    const std::span<const float> mean = sum.mean();
    return {mean.begin(), mean.end()};
  }

  lossy::DecodeMemory memory;
  lossy::Selected decoded;
  LossySum sum{false, memory, decoded};
};

const char* const kSpecs[] = {"topk(keep=1,values=f32)", "topk(dense_below=1000)"};

TEST(LossySum, AddsInTheOrderOfRanks) {
  const Shape shape{3, 40};
  for (const char* spec : kSpecs) {
    std::vector<Payload> payloads;
    Floats wanted(120, 0.0F);
    for (unsigned rank = 0; rank < 5; ++rank) {
      const Floats values = gradient(120, rank);
      payloads.emplace_back(spec, values, shape);
      for (std::size_t i = 0; i < values.size(); ++i) wanted[i] += values[i];
    }
    for (float& value : wanted) value *= 1.0F / 5;
    EXPECT_EQ(Sum().mean(payloads, shape, 120), wanted) << spec;
    std::swap(payloads[0], payloads[4]);
    EXPECT_NE(Sum().mean(payloads, shape, 120), wanted) << spec;
  }
}

TEST(LossySum, RefusesBodiesOfOtherTensors) {
  const Shape shape{3, 40};
  for (const char* spec : kSpecs) {
    for (const Shape& other : {Shape{40, 3}, Shape{1, 3, 40}, Shape{3, 39}})
      expect_error(ErrorKind::corrupt, "another dtype or shape", [&] {
        const Payload payload(spec, gradient(testing::count({{"", other}}), 1), other);
        Sum().mean({payload}, shape, 120);
      });
    expect_error(ErrorKind::corrupt, "another dtype or shape", [&] {
      Sum().mean({Payload(spec, gradient(120, 1), shape, DType::bf16)}, shape, 120);
    });
    const Payload larger(spec, gradient(240, 1), {6, 40});
    EXPECT_THROW(Sum().mean({larger}, shape, 120), Error) << spec;
  }
}

TEST(LossySum, RefusesWhatIsCutOff) {
  for (const char* spec : kSpecs) {
    Payload payload(spec, gradient(120, 1), {3, 40});
    for (payload.size = 0; payload.size < payload.bytes.size() - 16; ++payload.size)
      EXPECT_THROW(Sum().mean({payload}, {3, 40}, 120), Error) << payload.size;
  }
}

}  // namespace
}  // namespace gradwire
