"""torch.distributed as the transport of an exchange.

In: an exchange, or the buffer of a plain all-reduce. Out: both done, or the error of the collective
that failed. Assumes: one thread issues all collectives of the group, all ranks in the same order.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gradwire import _core
from gradwire.torch._agreement import Difference, first_difference
from gradwire.torch._peers import Peers

_LOOK = timedelta(seconds=1)
_IN_FLIGHT = 8  # four messages of each way
_REDUCTIONS = {
    "i32_sum": (torch.int32, dist.ReduceOp.SUM),
    "u8_or": (torch.uint8, dist.ReduceOp.BOR),
    "i64_max": (torch.int64, dist.ReduceOp.MAX),
}


class CollectiveError(Exception):
    """A collective failed, which ends the group."""


@dataclass
class Transport:
    """Collectives over the private group, with the time that they were waited for."""

    peers: Peers
    progress: Callable[[], None]  #: called whenever a collective has ended
    asks_for_peers: bool = False  #: while it waits; else somebody else watches over the waiting
    wait_s: float = field(default=0.0)

    def run(self, exchange: _core.Exchange) -> None:
        """Make the steps of an exchange until it is done.

        Raises CollectiveError when a collective fails. Whether peers have failed, or what they sent
        is wrong, is for ``exchange.error()`` to tell; one that is ``lost()`` is done early, while
        peers wait for it.
        """
        in_flight: deque[tuple[int, Any, Any]] = deque()
        while not exchange.done():
            while len(in_flight) < _IN_FLIGHT and (step := exchange.next()) is not None:
                in_flight.append(self._post(*step))
            number, received, work = in_flight.popleft()
            self.wait(work)
            exchange.complete(number, received.numpy())

    def all_reduce(self, tensor: Any, op: Any = dist.ReduceOp.SUM) -> None:
        """One plain all-reduce, in place."""
        self.wait(self.post_all_reduce(tensor, op))

    def post_all_reduce(self, tensor: Any, op: Any = dist.ReduceOp.SUM) -> Any:
        """Begin an all-reduce, in place; ``wait`` for what is returned."""
        with _collective():
            return dist.all_reduce(tensor, op=op, group=self.peers.group, async_op=True)

    def broadcast(self, tensor: Any) -> None:
        """Overwrite a tensor by rank 0's."""
        group = self.peers.group
        with _collective():
            source = dist.get_global_rank(group, 0)
            work = dist.broadcast(tensor, source, group=group, async_op=True)
        self.wait(work)

    def compare(self, lines: list[str]) -> Difference | None:
        """Compare lines over all ranks; the same answer on all of them."""
        with self._waiting():
            return first_difference(self.peers.group, lines)

    def take_wait_s(self) -> float:
        """Return the seconds waited since the last call."""
        waited, self.wait_s = self.wait_s, 0.0
        return waited

    def _post(
        self,
        number: int,
        send: Any,
        send_bytes: list[int],
        receive_bytes: list[int],
        reduction: str,
    ) -> tuple[int, Any, Any]:
        if reduction:
            dtype, op = _REDUCTIONS[reduction]
            values = torch.from_numpy(send).view(dtype)
            return number, values.view(torch.uint8), self.post_all_reduce(values, op)
        received = torch.empty(sum(receive_bytes), dtype=torch.uint8)
        with _collective():
            work = dist.all_to_all_single(
                received,
                torch.from_numpy(send),
                receive_bytes,
                send_bytes,
                group=self.peers.group,
                async_op=True,
            )
        return number, received, work

    def wait(self, work: Any) -> None:
        """Wait for a collective, on the clock."""
        with self._waiting():
            while self.asks_for_peers and not _has_ended(work):
                if self.peers.has_a_rank_left():
                    raise RuntimeError("a peer has left the group")
            work.wait()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        start = time.monotonic()
        with _collective():
            yield
        self.wait_s += time.monotonic() - start
        self.progress()


def _has_ended(work: Any) -> bool:
    """Wait for a collective, but not for long."""
    with contextlib.suppress(RuntimeError):  # of the time-out, or its own: wait() raises that again
        work.wait(_LOOK)
    return bool(work.is_completed())


@contextlib.contextmanager
def _collective() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise CollectiveError(first_line(error)) from error


def first_line(error: Exception) -> str:
    """What an error of PyTorch says, without the C++ places that it came by."""
    return str(error).partition("\n")[0].strip()
