"""What the all-reduces compute, as plainly as it can be said. For tests and for the start-up probe.

In: the gradients of all ranks, on one rank. Out: the mean that every rank must hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradwire.errors import ArgumentError

__all__ = ["gloo_chunk_elements", "reference_mean", "reference_reduce_scatter"]


def reference_mean(gradients: Sequence[Any], order: str = "rank") -> Any:
    """Return the mean of one bucket over ranks, in a stated order of additions.

    gradients: one tensor a rank, of one shape and one of float32, float64, bfloat16, float16; not
    modified. order: "rank": x0 + x1 + ... in float32 (float64 for float64), rounded once to the
    dtype, then times 1 / W. "gloo": each value times 1 / W, rounded, then added in the order of
    Gloo's ring all-reduce, each sum rounded: DistributedDataParallel on Gloo without a hook.
    Returns a new tensor. Raises ArgumentError for another order or for no gradients.

    >>> import torch
    >>> reference_mean([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0])])
    tensor([2., 4.])
    """
    if not gradients:
        raise ArgumentError("reference_mean needs the gradient of at least one rank")
    if order == "rank":
        return _rank_mean(gradients)
    if order == "gloo":
        return _gloo_mean(gradients)
    raise ArgumentError(f"order must be 'rank' or 'gloo', got {order!r}")


def reference_reduce_scatter(gradients: Sequence[Any], rank: int, order: str = "gloo") -> Any:
    """Return what one rank gets of the averaging reduce-scatter of a sharded model.

    gradients: what each rank puts in: one shard for each rank, rank 0's first; as for
    ``reference_mean``, not modified. order: "gloo": added undivided in the order of Gloo's ring
    over the whole, each sum rounded, then divided by W: FSDP2 on Gloo. "rank": the shard of
    ``reference_mean``. Returns a new tensor, one shard long.

    >>> import torch
    >>> reference_reduce_scatter([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0])], 1)
    tensor([4.])
    """
    world = len(gradients)
    if order == "gloo":
        mean = _gloo_sum([gradient.reshape(-1) for gradient in gradients]).div_(world)
    else:
        mean = reference_mean(gradients, order).reshape(-1)
    return mean.view(world, -1)[rank].clone()


def gloo_chunk_elements(elements: int, width: int, world: int) -> int:
    """Return how many elements each chunk of Gloo's ring all-reduce has.

    elements of width bytes are cut in world chunks; the last one may be shorter or empty. The
    length follows from Gloo's segments of at most 1 MiB.

    >>> gloo_chunk_elements(100, 4, 3)
    34
    """
    size = elements * width
    cap = 2**20 // width * width
    segments = _ceil(max(_ceil(size, cap), 2 * world), world) * world
    segment = _ceil(_ceil(size, segments), width)
    return segment * segments // world


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _rank_mean(gradients: Sequence[Any]) -> Any:
    dtype = gradients[0].dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    total = gradients[0].to(wide, copy=True)
    for gradient in gradients[1:]:
        total += gradient.to(wide)
    rounded = total.to(dtype)
    if len(gradients) == 1:
        return rounded
    return (rounded.to(wide) * (1.0 / len(gradients))).to(dtype)


def _gloo_mean(gradients: Sequence[Any]) -> Any:
    world = len(gradients)
    scaled = [(gradient * (1.0 / world)).reshape(-1) for gradient in gradients]
    return _gloo_sum(scaled).reshape(gradients[0].shape)


def _gloo_sum(values: Sequence[Any]) -> Any:
    world = len(values)
    result = torch.empty_like(values[0])
    chunk = max(gloo_chunk_elements(result.numel(), result.element_size(), world), 1)
    for c in range(world):
        part = slice(c * chunk, (c + 1) * chunk)
        total = values[(c - 1) % world][part].clone()
        for k in range(2, world + 1):
            total += values[(c - k) % world][part]
        result[part] = total
    return result
