"""All ranks of an exchange in one process: for tests, studies, and trying methods.

In: one exchange a rank. Out: all of them run to their end. Assumes: nothing is damaged or lost on
the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwire import _core
from gradwire.errors import TransportError

_REDUCTIONS: dict[str, tuple[type, np.ufunc]] = {
    "i32_sum": (np.int32, np.add),
    "u8_or": (np.uint8, np.bitwise_or),
    "i64_max": (np.int64, np.maximum),
}


def run_together(exchanges: Sequence[_core.Exchange]) -> None:
    """Let all ranks make their steps, each beside that of the others, until all are done.

    Raises TransportError where a rank has no step while others wait for it, or expects other
    lengths than it is sent. Whether an exchange has failed, its ``error()`` tells.
    """
    while not all(exchange.done() for exchange in exchanges):
        steps = [step for exchange in exchanges if (step := exchange.next()) is not None]
        if len(steps) < len(exchanges):
            raise TransportError("a rank has no step while others wait for it")
        for rank, exchange in enumerate(exchanges):
            exchange.complete(steps[rank][0], _received(rank, steps))


def _received(rank: int, steps: Sequence[Any]) -> Any:
    """What comes to a rank in the step of all ranks."""
    _, _, _, expected, reduction = steps[rank]
    if reduction:
        dtype, combine = _REDUCTIONS[reduction]
        values = np.stack([step[1].view(dtype) for step in steps])
        return combine.reduce(values, dtype=dtype).view(np.uint8)
    parts = []
    for _, data, sizes, _, _ in steps:
        first = sum(sizes[:rank])
        parts.append(data[first : first + sizes[rank]])
    if [part.size for part in parts] != expected:
        raise TransportError(f"rank {rank} expects other lengths than it is sent")
    return np.concatenate(parts)
