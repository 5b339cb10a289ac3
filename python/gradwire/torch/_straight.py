"""Plain all-reduces begun on the thread of the backward pass itself, as DDP does without a hook.

In: buckets that lie as they did before. Out: their means in their memory, each announced once.
Assumes: from a step's first bucket on nothing else makes collectives of the group, until the step
is over or its other buckets go another way: from then on that way alone begins collectives.

Gloo numbers collectives as they are begun, so that it may run several at the same time. Its own
threads announce them, in any order; there a collective must not be begun.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gradwire.torch._jobs import Job
from gradwire.torch._transport import CollectiveError, Transport, first_line


class Arrival(NamedTuple):
    """How the all-reduce of a bucket has ended."""

    job: Job
    size: int  #: bytes
    seconds: float  #: in which it was under way and none before it
    is_end: bool  #: of a step that went straight as a whole
    error: CollectiveError | None


class Straight:
    """What is under way of a step."""

    def __init__(self, transport: Transport, announce: Callable[[Arrival], None]) -> None:
        self._transport = transport
        self._announce = announce
        self._lock = threading.Lock()
        self._under_way = 0
        self._is_complete = False  # the last bucket of the step has been handed over, to this
        self._has_failed = False
        self._busy_until = 0.0

    def post(self, job: Job) -> None:
        """Begin the all-reduce of a bucket. Raises CollectiveError where that fails."""
        with self._lock:
            self._under_way += 1
            self._is_complete = job.is_last
        size = divide(job.buffer, self._transport.peers.world)
        if not size:
            self._end(job, size, None)
            return
        work = self._transport.post_all_reduce(job.buffer)
        work.get_future().then(lambda future: self._end(job, size, _error_of(future)))

    def _end(self, job: Job, size: int, error: CollectiveError | None) -> None:
        now = time.monotonic()
        with self._lock:
            self._under_way -= 1
            seconds = now - max(job.came, self._busy_until)
            self._busy_until = now
            self._has_failed |= error is not None
            is_end = self._is_complete and not self._under_way and not self._has_failed
        self._announce(Arrival(job, size, seconds, is_end, error))


def divide(buffer: Any, world: int) -> int:
    """Scale a bucket as DDP without a hook does before it adds; returns its bytes.

    Dense floats are multiplied by 1 / W, sparse ones divided by W. 0 bytes: nothing to add, which
    Gloo refuses.
    """
    if buffer.layout != torch.strided:
        buffer.div_(world)
        return int(max(buffer._nnz(), 1) * buffer.element_size())
    if buffer.dtype.is_floating_point or buffer.dtype.is_complex:
        buffer.mul_(1.0 / world)
    return int(buffer.numel() * buffer.element_size())


def _error_of(future: Any) -> CollectiveError | None:
    try:
        future.value()
    except RuntimeError as error:
        return CollectiveError(first_line(error))
    return None
