"""What tests of lossy methods train, and the same with all ranks in one process.

In: a spec, ranks, steps; batches follow from both. Out: models after training, their bits. Assumes:
PyTorch; one thread, so that all processes compute the same gradients.
"""

from __future__ import annotations

from typing import Any

import torch
from gradwire import _core
from gradwire._loopback import run_together
from gradwire.dtypes import parse_dtype
from torch import nn
from torch.nn.parallel import DistributedDataParallel

#: and whether plain SGD follows, as momentum is the method's own
SPECS = {"dgc(keep=0.05)": True, "topk(keep=0.05,values=int8)": False, "qsgd": False}
#: Of other ways than a gather: two shots, integers that are summed, factors, a leader's places.
WAYS = [
    *("qgz", "thc", "lhc(keep=0.1)", "powersgd(matrix_rank=2)", "acpsgd(matrix_rank=2)"),
    "lgc(keep=0.05,dense_below=64)",
]


def make_module(dtype: Any = torch.float32) -> Any:
    torch.manual_seed(5)
    layers = [nn.Linear(32, 64), nn.LayerNorm(64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(64, 8)).to(dtype)


def batch(rank: int, step: int, dtype: Any = torch.float32) -> Any:
    random = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(16, 32, generator=random, dtype=dtype)
    return x, (x[:, :8] > 0).to(dtype)


def loss_of(model: Any, rank: int, step: int) -> Any:
    x, y = batch(rank, step, next(model.parameters()).dtype)
    return nn.functional.mse_loss(model(x), y)


def sgd(model: Any, *, plain: bool) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.0 if plain else 0.9)


def wrapped(bucket_mb: float = 0.01, dtype: Any = torch.float32, **options: Any) -> Any:
    return DistributedDataParallel(make_module(dtype), bucket_cap_mb=bucket_mb, **options)


def train(
    model: Any, rank: int, steps: range, *, plain: bool, optimizer: Any = None
) -> list[float]:
    optimizer = optimizer or sgd(model, plain=plain)
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, rank, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def bits(model: Any) -> list[bytes]:
    return [p.detach().reshape(-1).view(torch.uint8).numpy().tobytes() for p in model.parameters()]


class Loopback:
    """All ranks in one process, each with a module of its own and one bucket for all of it."""

    def __init__(
        self, spec: str, world: int, *, exact: tuple[str, ...] = (), dtype: Any = torch.float32
    ) -> None:
        self.models = [make_module(dtype) for _ in range(world)]
        self.states = [_core.LossyState(spec, rank, world) for rank in range(world)]
        named = [
            (name, tuple(p.shape), name in exact) for name, p in self.models[0].named_parameters()
        ]
        self.buckets = [
            _core.LossyBucket(state, 0, parse_dtype(dtype), named) for state in self.states
        ]

    def reduce_gradients(self, keep: float | None = None) -> None:
        """Replace every rank's gradients by their means."""
        grads = [[p.grad for p in model.parameters()] for model in self.models]
        flat = [torch.cat([g.reshape(-1) for g in own]) for own in grads]
        exchanges = [
            bucket.start(data.view(torch.uint8).numpy(), self.states[0].step, keep)
            for bucket, data in zip(self.buckets, flat, strict=True)
        ]
        run_in_lockstep(exchanges)
        for own, data, state in zip(grads, flat, self.states, strict=True):
            for g, mean in zip(own, data.split([g.numel() for g in own]), strict=True):
                g.copy_(mean.view_as(g))
            state.end_step(True)

    def train(self, steps: int, *, plain: bool) -> list[bytes]:
        optimizers = [sgd(model, plain=plain) for model in self.models]
        for step in range(steps):
            for rank, (model, optimizer) in enumerate(zip(self.models, optimizers, strict=True)):
                optimizer.zero_grad()
                loss_of(model, rank, step).backward()
            self.reduce_gradients()
            for optimizer in optimizers:
                optimizer.step()
        return bits(self.models[0])


def run_in_lockstep(exchanges: list[Any]) -> None:
    run_together(exchanges)
    assert [exchange.error() for exchange in exchanges] == [None] * len(exchanges)
