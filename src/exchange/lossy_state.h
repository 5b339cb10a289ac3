// What LossyState keeps, for the exchanges that work on it.
// In: a spec, tensors by name.
// Out: their coders; all of it as bytes.
// Assumes: one thread at a time.
#pragma once

#include <map>
#include <string>

#include "gradwire/lossy.h"
#include "lossy/learned/network.h"
#include "lossy/method/coder.h"
#include "lossy/thc/lanes.h"
#include "lossy/thc/thc.h"

namespace gradwire::exchange {

/// The recipe of a tensor that may go exactly in all steps, whatever the method.
lossy::Recipe recipe_of(lossy::Recipe method, bool is_exact);

/// Of a learned method.
struct LearnedState {
  std::optional<lossy::Network> network{};
  std::vector<LearningSample> samples{};  ///< of the last step that had any
  std::uint64_t step = 0;                 ///< that step
};

struct LossyParameters {
  lossy::Recipe recipe;
  unsigned rank = 0, world = 1;
  std::uint64_t step = 0;
  std::map<std::string, lossy::TensorCoder, std::less<>> coders;
  /// Of names that no bucket has named yet.
  struct Loaded {
    std::vector<std::uint64_t> shape;
    bool is_exact = false;
    Bytes state;
  };
  std::map<std::string, Loaded, std::less<>> loaded;
  lossy::CoderMemory memory;
  std::optional<lossy::TableQuantiser> table;  ///< of table_sum
  LearnedState learned;

  /// The coder of a tensor, made when it is first named. Throws invalid_argument where the name
  /// stands for another shape, or was exact and is not now or the other way round.
  lossy::TensorCoder& coder(const LossyTensor& tensor);
};

}  // namespace gradwire::exchange
