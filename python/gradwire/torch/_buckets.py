"""The exchange buckets of a hook, by index and spec; made anew when DDP has rebuilt its buckets.

In: the layout of each bucket that DDP hands over, the spec in use. Out: its exchange in this step.
Assumes: layouts are those of all ranks (see ``Layout.lines``), steps too.
"""

from __future__ import annotations

import operator
import weakref
from typing import Any, NamedTuple

import torch

from gradwire import _core
from gradwire.errors import ArgumentError
from gradwire.torch._jobs import Job
from gradwire.torch._layout import BucketTensor, Layout, bucket_tensors
from gradwire.torch._lossy import CODED, LossyMeans
from gradwire.torch._names import Names
from gradwire.torch._options import Options
from gradwire.torch._peers import Peers
from gradwire.torch._spec import Spec

_CODED = {torch.float32, torch.float64, torch.bfloat16, torch.float16}


def can_be_coded(buffer: Any) -> bool:
    """Tell whether exchanges take a tensor; other ones are left to PyTorch's all-reduce."""
    return buffer.layout == torch.strided and buffer.dtype in _CODED


class _Seen(NamedTuple):
    """A bucket of the step before: what its layout follows from, and the layout."""

    facts: tuple[Any, ...]
    parameters: list[weakref.ref[Any]]  #: which the hook's state must not keep alive
    layout: Layout

    def has(self, parameters: list[Any]) -> bool:
        return all(map(operator.is_, parameters, (known() for known in self.parameters)))


class Buckets:
    """What exchanges keep from step to step."""

    def __init__(
        self, options: Options, peers: Peers, names: Names, lossy: LossyMeans | None
    ) -> None:
        self._options = options
        self._peers = peers
        self._names = names
        self._lossy = lossy
        self._layouts: dict[int, Layout] = {}
        self._seen: dict[int, _Seen] = {}
        self._buckets: dict[tuple[int, str], _core.ExchangeBucket] = {}

    def layout(self, job: Job, buffer: Any) -> Layout:
        """Tell how a bucket lies; cheap as long as its parameters stay.

        buffer: what is sent of it, in its own dtype.
        """
        facts = (buffer.dtype, buffer.numel(), job.is_last, len(job.parameters))
        seen = self._seen.get(job.index)
        if seen is not None and seen.facts == facts and seen.has(job.parameters):
            return seen.layout
        dtype = str(buffer.dtype).removeprefix("torch.")
        group_of = self._options.rules.group_of
        tensors = bucket_tensors(job.parameters, buffer.numel(), group_of)
        names = self._names_of(job, dtype, tensors)
        layout = Layout(job.index, dtype, tensors, job.is_last, names)
        self._seen[job.index] = _Seen(facts, [weakref.ref(p) for p in job.parameters], layout)
        return layout

    def _names_of(self, job: Job, dtype: str, tensors: tuple[BucketTensor, ...]) -> tuple[str, ...]:
        """The names of a bucket's tensors; none where it goes by an exact exchange."""
        if self._lossy is None or dtype not in CODED:
            return ()
        if len(tensors) != len(job.parameters):
            raise ArgumentError(
                f"bucket {job.index}: it is not filled by its parameters, of which a lossy method "
                "keeps what is not sent"
            )
        return tuple(self._names.of(parameter) for parameter in job.parameters)

    def is_known(self, layout: Layout) -> bool:
        """Tell whether a bucket lies as it did in the step before."""
        return self._layouts.get(layout.bucket) == layout

    def learn(self, layout: Layout) -> None:
        """Take over a layout that all ranks have; what its index stood for before is dropped."""
        self._layouts[layout.bucket] = layout
        for key in [key for key in self._buckets if key[0] == layout.bucket]:
            del self._buckets[key]
        if self._lossy is not None:
            self._lossy.forget(layout.bucket)

    def exchange(
        self, spec: Spec, layout: Layout, dtype: str, data: Any, step: int
    ) -> _core.Exchange:
        """Start the exchange of a bucket; data: its bytes, which it reads and overwrites."""
        if self._lossy is not None and layout.names:
            return self._lossy.exchange(layout, dtype, data, step)
        key = (layout.bucket, spec.text)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = self._make(spec, layout, dtype)
        start = getattr(bucket, self._options.way(self._peers.world))
        exchange: _core.Exchange = start(data, step % 2**32)
        return exchange

    def reset(self) -> None:
        """Forget what earlier steps have agreed on; all ranks do it after a step that failed."""
        for bucket in self._buckets.values():
            bucket.reset()
        if self._lossy is not None:
            self._lossy.reset()

    def _make(self, spec: Spec, layout: Layout, dtype: str) -> _core.ExchangeBucket:
        options = self._options
        return _core.ExchangeBucket(
            layout.bucket,
            dtype,
            layout.tensors,
            self._peers.rank,
            self._peers.world,
            spec.compress_options(),
            getattr(_core.SumOrder, options.order),
            True,
            options.piece_of(dtype),
            groups=options.rules.compress_options(),
        )
