"""Exact reduce-scatters, all-gathers and all-reduces over one group, made where they are called.

In: tensors, what lies in them. Out: the tensors' results, or an error on every rank.
Assumes: all ranks make the same calls in the same order, from one thread at a time.

After each exchange the ranks tell each other whether they could decode everything, by one integer
all-reduce that nobody waits for until the next call (or ``settle``). All ranks wait for it at the
same place, so that all of them raise there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gradwire import _core
from gradwire.dtypes import parse_dtype
from gradwire.errors import ArgumentError, GradwireError, TransportError
from gradwire.torch._kinds import KINDS, TRANSPORT, verdict_of, verdict_text
from gradwire.torch._layout import BucketTensor
from gradwire.torch._options import Options
from gradwire.torch._peers import Peers, lost_peers
from gradwire.torch._stats import Counters
from gradwire.torch._transport import CollectiveError, Transport

EXCHANGED = {torch.float32, torch.float64, torch.bfloat16, torch.float16}
REDUCE_SCATTER, ALL_GATHER, ALL_REDUCE = "reduce_scatter", "all_gather", "all_reduce"

Tensors = tuple[BucketTensor, ...]


class _Layout(NamedTuple):
    """What an exchange depends on beside values; the same on all ranks."""

    way: str
    dtype: str
    tensors: Tensors

    def lines(self) -> list[str]:
        head = f"{self.way} of {len(self.tensors)} tensors in {self.dtype}"
        return [head, *(tensor.line(k) for k, tensor in enumerate(self.tensors))]


class Collectives:
    """The exchanges of one group of ranks.

    ``error`` is the failure after which every call raises, or None.
    """

    def __init__(self, options: Options, peers: Peers, counters: Counters) -> None:
        self.options = options
        self.error: GradwireError | None = None
        self._peers = peers
        self._counters = counters
        self._transport = Transport(peers, _nothing, asks_for_peers=True)
        self._buckets: dict[_Layout, _core.ExchangeBucket] = {}
        self._calls = 0
        self._noted: GradwireError | None = None  # of the last exchange, as this rank saw it
        self._pending: tuple[Any, Any] | None = None  # a verdict on its way: tensor, work
        self._where = "before the first exchange"

    @property
    def world(self) -> int:
        return self._peers.world

    def reduce_scatter(self, output: Any, source: Any, tensors: Tensors, average: bool) -> None:
        """Add the ranks' sources; each rank gets the shard that is its own.

        source: one shard for each rank, rank 0's first; this rank's is overwritten. tensors: of a
        shard. average: divide by the number of ranks.
        """
        own = source.view(self.world, -1)[self._peers.rank]
        self._exchange(REDUCE_SCATTER, source, tensors)
        output.copy_(self._averaged(own, average))

    def all_gather(self, output: Any, source: Any, tensors: Tensors) -> None:
        """Put every rank's source in its place in all outputs; source may lie there already."""
        own = output.view(self.world, -1)[self._peers.rank]
        if own.data_ptr() != source.data_ptr():
            own.copy_(source)
        self._exchange(ALL_GATHER, output, tensors)

    def all_reduce(self, tensor: Any, tensors: Tensors, average: bool) -> None:
        """Add the ranks' tensors, in place; average: divide by the number of ranks."""
        self._exchange(ALL_REDUCE, tensor, tensors)
        self._averaged(tensor, average)

    def settle(self) -> None:
        """Wait until all ranks have said how the last exchange went; raise if it failed."""
        if self.error is None and self._pending is not None:
            (verdict, work), self._pending = self._pending, None
            self._guarded(lambda: self._transport.wait(work))
            self._transport.take_wait_s()
            self._take_verdict(int(verdict.item()))
        if self.error is not None:
            raise self._final_error()

    def leave(self) -> None:
        """Close the connections, so that peers do not wait for this rank."""
        self._peers.leave()

    def _exchange(self, way: str, data: Any, tensors: Tensors) -> None:
        self.settle()
        self._calls += 1
        self._where = f"{way} {self._calls}"
        layout = _Layout(way, str(data.dtype).removeprefix("torch."), tensors)
        self._guarded(lambda: self._make(layout, data))

    def _make(self, layout: _Layout, data: Any) -> None:
        bucket = self._bucket(layout, parse_dtype(data.dtype))
        start = self.options.way(self.world) if layout.way == ALL_REDUCE else layout.way
        bits = data.detach().view(torch.uint8).numpy()
        exchange: _core.Exchange = getattr(bucket, start)(bits, self._calls % 2**32)
        self._transport.run(exchange)
        waited_s = self._transport.take_wait_s()
        self._counters.add_exchange(exchange.stats(), waited_s, self.options.labels(), layout.way)
        self._judge(exchange)
        self._post_verdict()

    def _bucket(self, layout: _Layout, dtype: str) -> _core.ExchangeBucket:
        """The bucket of a layout; one that is new is compared over all ranks first.

        Collectives of unequal lengths would end in an abort of Gloo's, or hang.
        """
        bucket = self._buckets.get(layout)
        if bucket is None:
            difference = self._transport.compare(layout.lines())
            if difference is not None:
                self.error = ArgumentError(f"{self._where}: the ranks' models differ: {difference}")
                raise self._final_error()  # as all ranks do, so that nobody waits
            bucket = self._buckets[layout] = self._new_bucket(layout, dtype)
        return bucket

    def _new_bucket(self, layout: _Layout, dtype: str) -> _core.ExchangeBucket:
        options = self.options
        return _core.ExchangeBucket(
            len(self._buckets),
            dtype,
            layout.tensors,
            self._peers.rank,
            self.world,
            options.spec.compress_options(),
            getattr(_core.SumOrder, options.order),
            False,  # sums travel
            options.piece_of(dtype),
            layout.way != ALL_REDUCE,
            options.rules.compress_options(),
        )

    def _averaged(self, total: Any, average: bool) -> Any:
        """As Gloo's AVG, which divides the sum; in rank order as ``reference_mean`` says."""
        if not average:
            return total
        if self.options.order == "gloo":
            return total.div_(self.world)
        return total.mul_(1.0 / self.world)

    # --- failures ---------------------------------------------------------------------------------

    def _judge(self, exchange: _core.Exchange) -> None:
        error = exchange.error()
        if error is None:
            return
        kind, _, message = error
        self._noted = KINDS[kind](f"{self._where}: {message}")
        if exchange.lost():
            raise self._noted
        if kind != TRANSPORT:  # else the peer publishes the cause
            self._publish(self._noted)

    def _post_verdict(self) -> None:
        own = verdict_of(self._noted, self._peers.rank)
        verdict = torch.tensor([own], dtype=torch.int64)
        self._pending = (verdict, self._transport.post_all_reduce(verdict, dist.ReduceOp.MAX))

    def _take_verdict(self, verdict: int) -> None:
        if not verdict:
            return
        if self._noted is not None and type(self._noted) is not TransportError:
            self.error = self._noted
            return
        said = [self._peers.causes() or verdict_text(verdict)]
        if self._noted is not None:
            said.append(str(self._noted))
        self.error = TransportError(f"{self._where}: {'; '.join(said)}")

    def _guarded(self, call: Callable[[], None]) -> None:
        """Make a call; what it raises is this group's failure for good."""
        try:
            call()
        except CollectiveError as error:
            causes = self._peers.causes()
            self._end(lost_peers(self._where, str(error), causes), publish=not causes)
        except GradwireError as error:
            if self.error is not None:
                raise
            self._end(error, publish=True)
        except Exception as error:
            unknown = TransportError(f"{self._where}: {type(error).__name__}: {error}")
            self._end(unknown, publish=True)

    def _end(self, error: GradwireError, publish: bool) -> None:
        self.error = error
        if publish:
            self._publish(error)
        self.leave()
        raise self._final_error() from None

    def _publish(self, error: GradwireError) -> None:
        self._peers.publish(f"{type(error).__name__}: {error}")

    def _final_error(self) -> GradwireError:
        assert self.error is not None
        return type(self.error)(
            f"rank {self._peers.rank}: {self.error}; parameters and gradients of this step are not "
            "valid"
        )


def _nothing() -> None:
    pass
