"""The private process group: who takes part, whether all agree, what others have failed with.

In: the user's process group. Out: a Gloo group of its own, so that no collective of the user (of
SyncBatchNorm, of metrics) can come between ours. Assumes: all ranks make it at the same place.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gradwire.errors import ArgumentError, TransportError
from gradwire.torch._agreement import first_difference
from gradwire.torch.reference import reference_mean

_DEFAULT_TIMEOUT = timedelta(minutes=30)  # PyTorch's, for Gloo
_LINK_BYTES = 2**20  # enough to see a rate through the buffers on the way


class Peers:
    """The ranks of one hook."""

    def __init__(self, group: Any, timeout: timedelta | None) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise ArgumentError("torch.distributed is not set up; call init_process_group first")
        parent = group if group is not None else dist.group.WORLD
        self.timeout = _timeout_of(parent) if timeout is None else timeout
        self.group: Any = dist.new_group(
            dist.get_process_group_ranks(parent),
            timeout=self.timeout,
            backend="gloo",
            use_local_synchronization=True,
        )
        self.rank: int = dist.get_rank(self.group)
        self.world: int = dist.get_world_size(self.group)
        self._epoch = 0  # failures that all ranks have left behind

    def agree(self, facts: Sequence[str]) -> None:
        """Compare what the ranks say of themselves.

        facts: lines, of options and version, then rules. Raises ArgumentError, on all ranks, naming
        the first two ranks that differ.
        """
        difference = first_difference(self.group, facts)
        if difference is not None:
            raise ArgumentError(f"ranks differ in what they run: {difference}")

    def adds_like_gloo(self) -> bool:
        """Tell whether this Gloo's all-reduce adds in the order that ``order="gloo"`` stands for.

        Each rank knows what all ranks put in, so that each can check; all give the same answer.
        """
        verdicts = [  # all of them, whatever the first says: other ranks may see it otherwise
            self._adds_like_gloo(dtype, n)
            for dtype, n in [
                (torch.float32, self.world * 2**18 + 4097),
                (torch.bfloat16, 10_007),
                (torch.float16, 10_007),
            ]
        ]
        verdict = torch.tensor([int(all(verdicts))])
        dist.all_reduce(verdict, op=dist.ReduceOp.MIN, group=self.group)
        return bool(verdict.item())

    def _adds_like_gloo(self, dtype: Any, n: int) -> bool:
        inputs = [probe_values(rank, n).to(dtype) for rank in range(self.world)]
        expected = reference_mean(inputs, "gloo")
        own = inputs[self.rank].mul_(1.0 / self.world)
        dist.all_reduce(own, group=self.group)
        return bool(torch.equal(own, expected))

    def link_bytes_per_s(self) -> float:
        """Measure what this rank's link moves each way; the same on all ranks, that of the slowest.

        One all-reduce of 1 MiB; infinite for one rank.
        """
        if self.world == 1:
            return math.inf
        self._time_all_reduce(1024)  # so that no rank comes late to the next one
        seconds = torch.tensor([self._time_all_reduce(_LINK_BYTES)], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX, group=self.group)
        sent = 2 * (self.world - 1) / self.world * _LINK_BYTES
        return sent / float(seconds.item())

    def _time_all_reduce(self, size: int) -> float:
        values = torch.ones(size, dtype=torch.uint8)
        start = time.monotonic()
        dist.all_reduce(values, group=self.group)
        return time.monotonic() - start

    def publish(self, cause: str) -> None:
        """Let the others know, beside the group, what this rank has failed with."""
        self._set("cause", cause)

    def causes(self) -> str:
        """What other ranks have published, "" for nothing."""
        return "; ".join(f"rank {rank}: {cause}" for rank, cause in self._others_said("cause"))

    def leave(self) -> None:
        """Close the connections, so that peers that wait for this rank fail at once."""
        self._set("left", "1")
        with contextlib.suppress(RuntimeError):
            self.group.abort()

    def has_a_rank_left(self) -> bool:
        """Tell whether another rank makes no more collectives."""
        return bool(self._others_said("left"))

    def forget_failures(self) -> None:
        """Begin anew after a failed step; all ranks do it, each in its own time."""
        self._epoch += 1

    def _set(self, what: str, text: str) -> None:
        with contextlib.suppress(RuntimeError):  # the store's host may be the rank that died
            self.group.get_group_store().set(self._key(what, self.rank), text)

    def _others_said(self, what: str) -> list[tuple[int, str]]:
        found = []
        with contextlib.suppress(RuntimeError):
            store = self.group.get_group_store()
            for rank in range(self.world):
                key = self._key(what, rank)
                if rank != self.rank and store.check([key]):
                    found.append((rank, store.get(key).decode()))
        return found

    def _key(self, what: str, rank: int) -> str:
        return f"gradwire/{self._epoch}/{what}/{rank}"


def seconds_to_timeout(seconds: float | None) -> timedelta | None:
    """Check the option ``timeout``. Raises ArgumentError when it is not positive."""
    if seconds is None:
        return None
    if not seconds > 0:
        raise ArgumentError(f"timeout must be a positive number of seconds, got {seconds}")
    return timedelta(seconds=seconds)


def lost_peers(where: str, reason: str, causes: str) -> TransportError:
    """Make the error of a collective that failed."""
    if causes:
        return TransportError(f"{where}: {causes} (seen here as: {reason})")
    return TransportError(
        f"{where}: {reason}. A rank has died or has stopped for longer than the time-out, or the "
        f"link is down"
    )


def _timeout_of(group: Any) -> timedelta:
    try:
        timeout: timedelta = group._get_backend(torch.device("cpu")).options._timeout
    except (AttributeError, RuntimeError):  # no public way; a group without a CPU backend
        return _DEFAULT_TIMEOUT
    return timeout


def probe_values(rank: int, n: int) -> Any:
    """Floats of many exponents, the same on every machine, so that each order gives other bits."""
    mixed = (torch.arange(n) + 1) * 2654435761 + (rank + 1) * 40503 * 65537
    mixed ^= mixed >> 13
    mantissa = (mixed % 16_777_213 - 8_388_606).float()
    scales = torch.tensor([2.0 ** -(24 + k) for k in range(7)])
    return mantissa * scales[(mixed >> 5) % 7]
