"""What the codec takes and gives on real gradients: a few pieces of the largest bucket of a step.

In: buckets before they are added. Out: seconds a byte and the size fraction of a level. Assumes:
the calling thread has a core for the moment, so that times are a lower bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradwire import _core
from gradwire.dtypes import numpy_dtype
from gradwire.torch._layout import Layout, Shape

_PIECES = 3  # at even distances: one alone may be of a special tensor, such as an embedding
_REPEATS = 2  # the quicker one counts
_MAX_OUTPUT = 2**30


@dataclass(frozen=True)
class Rates:
    """Of one level, on the pieces taken."""

    encode_s: float  #: a byte
    decode_s: float  #: a byte, of what is restored
    size_fraction: float


class Probe:
    """Pieces of the largest bucket that it has been offered."""

    def __init__(self) -> None:
        self.offered_bytes = 0
        self._largest = 0
        self._dtype = ""
        self._pieces: list[tuple[Shape, NDArray[np.uint8]]] = []

    def offer(self, layout: Layout, dtype: str, buffer: Any, piece_elements: int) -> None:
        """Copy pieces of a bucket if it is larger than those before; buffer: flat, as it came."""
        width = numpy_dtype(dtype).itemsize
        size = buffer.numel() * width
        self.offered_bytes += size
        if size <= self._largest:
            return
        self._largest, self._dtype = size, dtype
        data = buffer.view(torch.uint8).numpy()
        self._pieces = [
            (shape, data[start * width : (start + math.prod(shape)) * width].copy())
            for start, shape in spread_pieces(layout.shapes, piece_elements)
        ]

    def measure(self, options: _core.CompressOptions) -> Rates | None:
        """Time a level on the pieces; None when there are none."""
        size = sum(data.size for _, data in self._pieces)
        if not size:
            return None
        results = [self._measure_piece(*piece, options) for piece in self._pieces]
        encode_s, decode_s, sent = (sum(column) for column in zip(*results, strict=True))
        return Rates(encode_s / size, decode_s / size, sent / size)

    def _measure_piece(
        self, shape: Shape, data: NDArray[np.uint8], options: _core.CompressOptions
    ) -> tuple[float, float, int]:
        restored = np.empty_like(data)
        encode_s = decode_s = math.inf
        for _ in range(_REPEATS):
            start = time.perf_counter()
            frame = _core.compress(data, self._dtype, shape, options)
            middle = time.perf_counter()
            encoded = np.frombuffer(frame, np.uint8)
            _core.decompress_into(encoded, restored, _MAX_OUTPUT, 1)
            end = time.perf_counter()
            encode_s, decode_s = min(encode_s, middle - start), min(decode_s, end - middle)
        return encode_s, decode_s, len(frame)


def spread_pieces(shapes: tuple[Shape, ...], piece_elements: int) -> Iterator[tuple[int, Shape]]:
    """Yield where pieces at even distances start in a bucket, and their shapes: runs of whole rows.

    Each is of the tensor in which a share of the bucket ends; two may be the same.

    >>> list(spread_pieces(((100, 10), (4,)), 60))
    [(160, (6, 10)), (500, (6, 10)), (830, (6, 10))]
    """
    elements = sum(math.prod(shape) for shape in shapes)
    for k in range(_PIECES):
        at = elements * (2 * k + 1) // (2 * _PIECES)
        start = 0
        for shape in shapes:
            size = math.prod(shape)
            if at < start + size:
                yield _rows_at(start, shape, at - start, piece_elements)
                break
            start += size


def _rows_at(start: int, shape: Shape, at: int, piece_elements: int) -> tuple[int, Shape]:
    rest = shape[1:]
    row = math.prod(rest)
    if not shape or row > piece_elements:
        rest, row = (), 1
    count = math.prod(shape) // row
    rows = min(max(piece_elements // row, 1), count)
    first = min(at // row, count - rows)
    return start + first * row, (rows, *rest)
