#include <algorithm>
#include <cassert>
#include <numeric>

#include "stages/entropy/ans.h"

namespace gradwire::entropy {
namespace {

constexpr unsigned kBuckets = 16;
constexpr unsigned kBucketSlots = kAnsSlots / kBuckets;

/// Buckets of 256 slots of at most two owners (Walker 1977), so that a decoder with small tables in
/// registers finds a slot's symbol by one comparison.
struct AliasBuckets {
  std::array<unsigned, kBuckets> divider;
  std::array<unsigned, kBuckets> alias{};

  explicit AliasBuckets(const Values& frequencies) {
    std::array<unsigned, kBuckets> left;
    std::copy_n(frequencies.begin(), kBuckets, left.begin());
    divider.fill(kBucketSlots);
    Stack small, large;
    for (unsigned s = 0; s < kBuckets; ++s) (left[s] < kBucketSlots ? small : large).push(s);
    // The average of what is left is 256 a bucket, so a small bucket always finds a large one.
    while (small.size > 0) {
      const unsigned bucket = small.pop();
      const unsigned donor = large.top();
      divider[bucket] = left[bucket];
      alias[bucket] = donor;
      left[donor] -= kBucketSlots - left[bucket];
      if (left[donor] < kBucketSlots) small.push(large.pop());
    }
  }

  unsigned owner(unsigned slot) const {
    const unsigned bucket = slot / kBucketSlots;
    return slot % kBucketSlots < divider[bucket] ? bucket : alias[bucket];
  }

 private:
  struct Stack {
    std::array<unsigned, kBuckets> items;
    unsigned size = 0;
    void push(unsigned item) { items[size++] = item; }
    unsigned pop() { return items[--size]; }
    unsigned top() const { return items[size - 1]; }
  };
};

}  // namespace

SlotOrder slot_order(const Table& table) noexcept {
  assert(table.alphabet > 0);  // else the table was never resolved
  SlotOrder slots;
  if (table.pairs || table.alphabet > kBuckets) {
    std::iota(slots.begin(), slots.end(), std::uint16_t{0});
    return slots;
  }
  std::array<unsigned, kBuckets> next{};
  for (unsigned s = 1; s < kBuckets; ++s) next[s] = next[s - 1] + table.values[s - 1];
  const AliasBuckets buckets(table.values);
  for (unsigned slot = 0; slot < kAnsSlots; ++slot) {
    slots[next[buckets.owner(slot)]++] = static_cast<std::uint16_t>(slot);
  }
  return slots;
}

}  // namespace gradwire::entropy
