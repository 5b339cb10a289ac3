// One tensor by a lossy method, as the first step of a training with one rank sends it.
// In: a tensor and a recipe.
// Out: a lossy body, or word that the tensor goes exactly; what it lost.
// Assumes: data and shape agree.
#pragma once

#include <string_view>

#include "gradwire/compress.h"
#include "gradwire/lossy.h"
#include "lossy/method/coder.h"

namespace gradwire::api {

/// Whether lossy bodies can hold a tensor: f32, bf16 or f16, with elements.
bool can_be_lossy(const TensorView& tensor) noexcept;

/// Memory that keeps its capacity.
struct LossyMemory {
  std::vector<float> values;
  lossy::CoderMemory coder;
  Bytes decoded;
};

/// Appends a body. False where the method sends this tensor exactly: then nothing is appended. With
/// `report`, what is sent is compared with the tensor. Throws invalid_argument for what is not
/// finite, unless the method passes it on.
bool encode_lossy(const TensorView& tensor, const lossy::Recipe& recipe, std::string_view name,
                  lossy::BodyEnd end, LossyMemory& memory, Bytes& out, LossyReport* report);

/// Of a tensor that went exactly.
LossyReport exact_report(const TensorView& tensor, std::uint64_t bytes);

}  // namespace gradwire::api
