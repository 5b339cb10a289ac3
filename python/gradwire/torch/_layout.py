"""How the parameters of a bucket lie in its memory.

In: the parameters of a DDP bucket. Out: their shapes in memory order, their groups, and lines to
compare.
Assumes: they lie densely one behind the other, each in its own order of strides, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Shape = tuple[int, ...]


class BucketTensor(NamedTuple):
    """One tensor of a bucket."""

    shape: Shape  #: in memory order
    group: int = 0  #: of ``Rules``, which says how it is coded

    def line(self, k: int, name: str = "") -> str:
        """What ranks compare of tensor k."""
        by = f", by rule {self.group}" if self.group else ""
        called = f", {name!r}," if name else ""
        return f"tensor {k}{called} of shape {self.shape}{by}"


class Layout(NamedTuple):
    """What an exchange depends on beside values; the same on all ranks, unlike addresses."""

    bucket: int
    dtype: str
    tensors: tuple[BucketTensor, ...]
    is_last: bool
    names: tuple[str, ...] = ()  #: of the tensors, where they go by a lossy method

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(tensor.shape for tensor in self.tensors)

    def lines(self) -> list[str]:
        """What ranks compare, in words for who reads of a difference."""
        last = "the last one of a step" if self.is_last else "with others behind it"
        head = f"bucket {self.bucket} of {len(self.tensors)} tensors in {self.dtype}, {last}"
        names = self.names or [""] * len(self.tensors)
        pairs = zip(self.tensors, names, strict=True)
        return [*(tensor.line(k, name) for k, (tensor, name) in enumerate(pairs)), head]


def memory_shape(shape: Sequence[int], strides: Sequence[int]) -> Shape:
    """Return the sizes of a tensor from the slowest dimension to the fastest.

    A bucket holds a dense tensor in the order of its parameter's strides, though the view that
    DDP gives of it has other ones: a channels-last weight of (out, in, 3, 3) is (out, 3, 3, in).
    A tensor with holes is laid out anew, in row-major order.

    >>> memory_shape((64, 16, 3, 3), (144, 1, 48, 16))
    (64, 3, 3, 16)
    >>> memory_shape((4, 5), (5, 1))
    (4, 5)
    """
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], d))
    expected = 1
    for dim in reversed(order):
        if shape[dim] != 1 and strides[dim] != expected:
            return tuple(shape)
        expected *= shape[dim]
    return tuple(shape[dim] for dim in order)


def bucket_tensors(
    parameters: Sequence[Any], elements: int, group_of: Callable[[Any], int]
) -> tuple[BucketTensor, ...]:
    """Return the tensors of a bucket's parameters, or one flat run when they do not add up."""
    shapes = [memory_shape(tuple(p.shape), p.stride()) for p in parameters]
    return fill_bucket(shapes, [group_of(p) for p in parameters], elements)


def fill_bucket(
    shapes: Sequence[Shape], groups: Sequence[int], elements: int
) -> tuple[BucketTensor, ...]:
    """Return tensors of these shapes, or one flat run when they do not add up."""
    if sum(math.prod(shape) for shape in shapes) != elements:
        return (BucketTensor((elements,)),)
    return tuple(BucketTensor(*pair) for pair in zip(shapes, groups, strict=True))
