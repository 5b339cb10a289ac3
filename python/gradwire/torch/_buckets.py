"""The exchange buckets of a hook, by index; each is made anew when DDP has rebuilt its buckets.

In: the layout of each bucket that DDP hands over. Out: its exchange in this step.
Assumes: layouts are those of all ranks (see ``Layout.lines``), steps too.
"""

from __future__ import annotations

from typing import Any

from gradwire import _core
from gradwire.torch._layout import Layout
from gradwire.torch._options import Options
from gradwire.torch._peers import Peers


class Buckets:
    """What exchanges keep from step to step."""

    def __init__(self, options: Options, peers: Peers) -> None:
        self._options = options
        self._peers = peers
        self._layouts: dict[int, Layout] = {}
        self._buckets: dict[int, _core.ExchangeBucket] = {}

    def is_known(self, layout: Layout) -> bool:
        """Tell whether a bucket lies as it did in the step before."""
        return self._layouts.get(layout.bucket) == layout

    def learn(self, layout: Layout) -> None:
        """Take over a layout that all ranks have; what its index stood for before is dropped."""
        self._layouts[layout.bucket] = layout
        self._buckets.pop(layout.bucket, None)

    def exchange(self, layout: Layout, dtype: str, data: Any, step: int) -> _core.Exchange:
        """Start the exchange of a bucket; data: its bytes, which it reads and overwrites."""
        bucket = self._buckets.get(layout.bucket)
        if bucket is None:
            bucket = self._buckets[layout.bucket] = self._make(layout, dtype)
        start = getattr(bucket, self._options.way(self._peers.world))
        exchange: _core.Exchange = start(data, step % 2**32)
        return exchange

    def reset(self) -> None:
        """Forget what earlier steps have agreed on; all ranks do it after a step that failed."""
        for bucket in self._buckets.values():
            bucket.reset()

    def _make(self, layout: Layout, dtype: str) -> _core.ExchangeBucket:
        options = self._options
        return _core.ExchangeBucket(
            layout.bucket,
            dtype,
            layout.shapes,
            self._peers.rank,
            self._peers.world,
            options.spec.compress_options(),
            getattr(_core.SumOrder, options.order),
            True,
            options.piece_of(dtype),
        )
