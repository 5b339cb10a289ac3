// What a caller says of a bucket, checked, and the part of it that all ranks must say alike.
// In: dtype, ranks, options, shapes.
// Out: errors (`invalid_argument`), the number of elements, a hash.
// Assumes: nothing.
#pragma once

#include "exchange/addition.h"

namespace gradwire::exchange {

void check_rank(unsigned rank, unsigned world);
void check_piece_elements(std::uint32_t piece_elements);
void check_settings(DType dtype, unsigned rank, unsigned world, const ExchangeOptions& options);

/// Demands that the tensors' groups exist.
void check_groups(const std::vector<BucketTensor>& tensors, const ExchangeOptions& options);

/// The elements of tensors whose shapes the format can say.
std::uint64_t count_elements(const std::vector<BucketTensor>& tensors);

/// The elements of a bucket: of its tensors, or of a shard of them for each rank.
std::uint64_t bucket_elements(const std::vector<BucketTensor>& tensors, unsigned world,
                              const ExchangeOptions& options);

/// What must be alike on all ranks, as a number: messages of another one are refused.
std::uint64_t agreement_of(const AdditionRule& rule, const ExchangeOptions& options,
                           const std::vector<BucketTensor>& tensors);

}  // namespace gradwire::exchange
