"""Logical ranks of one process: a gradient each, and ways to their mean.

In: a model, a batch for each of W ranks. Out: the mean gradient, which all ranks hold alike, and
what a rank would have sent for it. Assumes: weights are shared; what differs between ranks is
the gradient and what a method keeps between steps.

Bytes are those of the exchange's statistics, headers included, once for each receiver. "Up" is a
rank's gradient on its way to those that add, "down" are sums on their way back. For a gather every
rank adds for itself, and nothing comes down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import torch
from gradwire import _core
from gradwire._loopback import run_together
from gradwire._options import compress_options
from gradwire.torch._trainer import AutoencoderTrainer
from torch import nn

_COMPARE_EVERY = 50  #: steps, after which the ranks' results are compared
_PIECE_ELEMENTS = 65536
_F32_BYTES = 4


class FlatModel:
    """The parameters of a model as views of one vector, in the order of ``parameters()``."""

    def __init__(self, model: nn.Module) -> None:
        named = list(model.named_parameters())
        self.tensors = [(name, tuple(parameter.shape)) for name, parameter in named]
        self.parameters = [parameter for _, parameter in named]
        self.weights = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        for parameter, place in zip(self.parameters, self.split(self.weights), strict=True):
            parameter.data = place

    def split(self, vector: Any) -> list[Any]:
        """Cut a vector of all elements into views with the parameters' shapes."""
        sizes = [parameter.numel() for parameter in self.parameters]
        shapes = [shape for _, shape in self.tensors]
        return [part.view(shape) for part, shape in zip(vector.split(sizes), shapes, strict=True)]


def rank_gradients(
    flat: FlatModel, loss: Callable[[Any], Any], batches: Sequence[Any], out: Any
) -> float:
    """Write the gradient of rank r to ``out[r]``, f32 of shape (W, elements).

    Returns the mean of the ranks' losses.
    """
    total = 0.0
    for batch, place in zip(batches, out, strict=True):
        value = loss(batch)
        gradients = torch.autograd.grad(value, flat.parameters)
        torch.cat([gradient.flatten() for gradient in gradients], out=place)
        total += value.item()
    return total / len(batches)


@dataclass
class Sent:
    """What a rank sent, the mean over ranks; summed over steps by ``+=``."""

    up_bytes: float = 0.0
    down_bytes: float = 0.0
    up_original_bytes: float = 0.0  #: what went up as plain f32 would have been
    down_original_bytes: float = 0.0
    selected: float = 0.0  #: elements that a selector has taken, once however many receive them
    selectable: float = 0.0  #: elements of the tensors that it took them from
    selected_bytes: float = 0.0  #: that those elements took, places and values, once

    def __iadd__(self, other: Sent) -> Sent:
        for field in fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)
        return self


class Reducer(Protocol):
    """A way to the mean of the ranks' gradients."""

    def mean(self, gradients: Any, step: int, keep: float | None, rate_ratio: float) -> Any:
        """Return the mean that all ranks hold, of shape (elements,).

        gradients: f32, (W, elements); may be overwritten. keep: share of elements to send instead
        of the method's own. rate_ratio: last learning rate / this one.
        """
        ...

    def take_sent(self) -> Sent:
        """Return what was sent since the last call."""
        ...


class Dense:
    """The plain mean in f32, counted as an all-reduce that sends each shard twice."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._sent = Sent()

    def mean(self, gradients: Any, step: int, keep: float | None, rate_ratio: float) -> Any:
        way = _F32_BYTES * gradients.shape[1] * (self._ranks - 1) / self._ranks
        self._sent += Sent(way, way, way, way)
        return gradients.mean(0)

    def take_sent(self) -> Sent:
        sent, self._sent = self._sent, Sent()
        return sent


class Gradwire:
    """A method of gradwire: an exchange object for each rank, which make their steps together."""

    def __init__(self, spec: str, tensors: list[tuple[str, tuple[int, ...]]], ranks: int) -> None:
        is_lossless = spec == "none" or spec.partition("(")[0] == "lossless"
        make = _LosslessRank if is_lossless else _LossyRank
        self._ranks = [make(spec, tensors, rank, ranks) for rank in range(ranks)]
        self._learning = None if is_lossless else _Learning([rank.state for rank in self._ranks])
        self._sent = Sent()

    def mean(self, gradients: Any, step: int, keep: float | None, rate_ratio: float) -> Any:
        values = gradients.numpy()
        exchanges = [
            rank.start(data.view(np.uint8), step, keep, rate_ratio)
            for rank, data in zip(self._ranks, values, strict=True)
        ]
        run_together(exchanges)
        for number, exchange in enumerate(exchanges):
            if (error := exchange.error()) is not None:
                raise RuntimeError(f"step {step}, rank {number}: {error[2]}")
            self._sent += _shared_out(exchange.stats(), len(exchanges))
        for rank in self._ranks:
            rank.end_step()
        if self._learning is not None:
            self._learning.end_step()
        if step % _COMPARE_EVERY == 0 and any(v.tobytes() != values[0].tobytes() for v in values):
            raise RuntimeError(f"step {step}: ranks hold different means")
        return gradients[0]

    def take_sent(self) -> Sent:
        sent, self._sent = self._sent, Sent()
        return sent


class _LosslessRank:
    """One rank's exact exchange, of the whole model as one bucket."""

    def __init__(
        self, spec: str, tensors: list[tuple[str, tuple[int, ...]]], rank: int, ranks: int
    ) -> None:
        options = compress_options(spec, 2, "auto", "hybrid", 1, True)
        shapes = [(shape, 0) for _, shape in tensors]
        order = _core.SumOrder.rank
        self._bucket = _core.ExchangeBucket(
            0, "f32", shapes, rank, ranks, options, order, True, _PIECE_ELEMENTS
        )

    def start(self, data: Any, step: int, keep: float | None, rate_ratio: float) -> Any:
        return self._bucket.two_shot(data, step)

    def end_step(self) -> None:
        """Nothing is kept."""


class _LossyRank:
    """One rank's lossy exchange and what it keeps between steps."""

    def __init__(
        self, spec: str, tensors: list[tuple[str, tuple[int, ...]]], rank: int, ranks: int
    ) -> None:
        self.state = _core.LossyState(spec, rank, ranks)
        named = [(name, shape, False) for name, shape in tensors]
        self._bucket = _core.LossyBucket(self.state, 0, "f32", named)

    def start(self, data: Any, step: int, keep: float | None, rate_ratio: float) -> Any:
        return self._bucket.start(data, step, keep, rate_ratio)

    def end_step(self) -> None:
        self.state.end_step(True)


class _Learning:
    """What gives a learned method its network: rank 0's training, as in DDP."""

    def __init__(self, states: list[Any]) -> None:
        self._states = states
        self._trainer = AutoencoderTrainer(states[0].learns_ring)

    def end_step(self) -> None:
        first = self._states[0]
        if not first.wants_samples:
            return
        self._trainer.learn(first.take_samples())
        if first.wants_network:
            network = self._trainer.network()
            for state in self._states:
                state.set_network(network)


def _shared_out(stats: Any, ranks: int) -> Sent:
    """One rank's share of the mean over ranks."""
    ways = [stats["to_owners"], stats["from_owners"]]
    sent = [way["payload"] + way["header"] + way["padding"] for way in ways]
    original = [way["original"] for way in ways]
    lossy = stats["lossy"]
    coded = lossy["index"] + lossy["values"] + lossy["frames"]
    selection = [lossy["selected"], lossy["elements"], coded]
    return Sent(*(figure / ranks for figure in (*sent, *original, *selection)))
