"""Lossy means of a DDP model's buckets, and what is kept of each parameter between steps.

In: a spec, buckets as they lie, facts of a step. Out: their exchanges; the state as bytes. Assumes:
one thread at a time; layouts are those of all ranks. Whether a step's means were used is told once,
at its end, alike on all ranks.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Any

from gradwire import _core
from gradwire.errors import ArgumentError, GradwireError
from gradwire.torch._layout import Layout
from gradwire.torch._learning import Learning
from gradwire.torch._transport import Transport

CODED = {"float32", "bfloat16", "float16"}  #: dtypes of a layout that lossy methods take


@dataclass(frozen=True)
class Facts:
    """What a step knows beside the gradients; the same on all ranks."""

    keep: float | None = None  #: in place of the method's own
    learning_rate_ratio: float = 1.0  #: last step's rate / this one's


class LossyMeans:
    """One model's state, and the buckets that refer to it by parameter name."""

    def __init__(self, spec: str, transport: Transport) -> None:
        peers = transport.peers
        self._state = _core.LossyState(spec, peers.rank, peers.world)
        self._learning = Learning(self._state, transport)
        self._buckets: dict[int, _core.LossyBucket] = {}
        self._wanted = self._facts = Facts()

    @property
    def spec(self) -> str:
        """In the method's own order of parameters, without its defaults."""
        return self._state.spec

    # --- between steps ----------------------------------------------------------------------------

    def set_keep(self, keep: float | None) -> None:
        if keep is not None and not 0 < keep <= 1:
            raise ArgumentError(f"keep must be above 0 and at most 1, or None, got {keep!r}")
        self._wanted = replace(self._wanted, keep=keep)

    def set_learning_rate_ratio(self, ratio: float) -> None:
        if not 0 < ratio < math.inf:
            raise ArgumentError(f"learning_rate_ratio must be above 0 and finite, got {ratio!r}")
        self._wanted = replace(self._wanted, learning_rate_ratio=ratio)

    @property
    def network(self) -> bytes:
        """Of a learned method; nothing if there is none."""
        return self._state.network

    def set_network(self, network: bytes) -> None:
        self._state.set_network(network)

    def save(self) -> dict[str, bytes]:
        """Return what is kept, and what a training that goes on has come to."""
        parts = {"lossy": self._state.save(), "training": self._learning.save()}
        return {name: part for name, part in parts.items() if part}

    def load(self, parts: dict[str, bytes]) -> None:
        """Raises ArgumentError for a state of another method, rank, world or shape."""
        self._state.load(parts["lossy"])
        self._learning.load(parts.get("training", b""))

    # --- in a step --------------------------------------------------------------------------------

    def begin_step(self) -> GradwireError | None:
        """Take the facts of the step that begins; returns what it is to fail with."""
        self._facts = self._wanted
        return self._learning.take_error()

    def exchange(self, layout: Layout, dtype: str, data: Any, step: int) -> _core.Exchange:
        """Start the exchange of a bucket; data: its bytes, which it reads and overwrites."""
        bucket = self._buckets.get(layout.bucket)
        if bucket is None:
            named = [
                (name, tensor.shape, tensor.group > 0)
                for name, tensor in zip(layout.names, layout.tensors, strict=True)
            ]
            bucket = _core.LossyBucket(self._state, layout.bucket, dtype, named)
            self._buckets[layout.bucket] = bucket
        facts = self._facts
        return bucket.start(data, step % 2**32, facts.keep, facts.learning_rate_ratio)

    def forget(self, bucket: int) -> None:
        """Drop a bucket that lies otherwise from now on; what is kept of its tensors stays."""
        self._buckets.pop(bucket, None)

    def reset(self) -> None:
        """Forget what earlier steps have agreed on; all ranks do it after a step that failed."""
        for bucket in self._buckets.values():
            bucket.reset()

    # --- at its end -------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """What ranks join by maximum to see whether their facts are the same."""
        digest = hashlib.sha256(self._said().encode()).digest()
        number = int.from_bytes(digest[:7], "little")
        return [number, -number]

    def difference(self, joined: list[int]) -> ArgumentError | None:
        """An error where ranks had other facts; alike on all of them. joined: their numbers."""
        if joined[0] == -joined[1]:
            return None
        return ArgumentError(
            "ranks differ in keep, in learning_rate_ratio or in the steps that their states have "
            f"seen; this one has {self._said()}"
        )

    def end_step(self, *, applied: bool) -> None:
        """End a step. applied: all ranks use its means; else what was sent stays in what is kept.

        The ratio of learning rates was of this step alone. Raises CollectiveError.
        """
        self._state.end_step(applied)
        self._learning.end_step(applied=applied)
        self._wanted = replace(self._wanted, learning_rate_ratio=1.0)

    def _said(self) -> str:
        facts = self._facts
        return (
            f"keep {facts.keep}, learning_rate_ratio {facts.learning_rate_ratio}, "
            f"step {self._state.step}"
        )
