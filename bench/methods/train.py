"""One run of the study: train a model with a method, and say how it ended and what it sent.

In: a Job. Out: metrics as JSON-ready values, which depend on the job and the code alone, but for
the seconds. Assumes: one thread.

``dgc`` has its momentum inside: plain SGD takes its mean. After all other methods SGD has momentum
0.9, on the decoded mean. The GPT is trained by AdamW, as people do who train one; the papers of the
methods train their language models (LSTMs) by SGD, and DGC is defined with it alone, so that
``dgc`` on the GPT stands beside a dense run by SGD. The learning rate rises over the first
twentieth of the steps and then falls to zero along a cosine.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from methods import models
from methods.ranks import Dense, FlatModel, Gradwire, Reducer, Sent, rank_gradients
from methods.reference_dgc import ReferenceDgc

CURVE_POINTS = 40  #: of the loss of training, each the mean over a part of the steps
REFERENCE = "reference-dgc"

_MOMENTUM = 0.9
_RISING_SHARE = 0.05


@dataclass(frozen=True)
class Job:
    """All that a run's result depends on, but the code."""

    model: str  #: of models.make
    method: str  #: "dense", "reference-dgc(...)", or a spec string of gradwire
    rate: float  #: the highest learning rate
    seed: int
    fold: int = 0
    epochs: int = 30
    optimizer: str = "sgd"  #: or "adamw"
    ranks: int = 4
    rank_batch: int = 16
    warmup: tuple[float, ...] = ()  #: share of elements to send in epoch 0, 1, ...
    weight_decay: float = 0.0
    decays_before: bool = False  #: weight decay is added on each rank, not by the optimizer
    feeds_rates: bool = False  #: the method is told how the learning rate changes

    def validate(self) -> None:
        if self.optimizer not in ("sgd", "adamw"):
            raise ValueError(f"optimizer: {self.optimizer!r} given, sgd or adamw allowed")
        if self.epochs < 1 or self.ranks < 1 or self.rank_batch < 1 or self.rate <= 0:
            raise ValueError("epochs, ranks, rank_batch, rate: positive numbers allowed")
        if self.optimizer == "adamw" and has_own_momentum(self.method):
            raise ValueError(f"optimizer: adamw given, {self.method} needs plain sgd")


def has_own_momentum(method: str) -> bool:
    """Whether plain SGD must follow the method."""
    name, _, options = method.partition("(")
    has_none = "momentum=0" in options.removesuffix(")").split(",")
    return (name == "dgc" and not has_none) or (name == REFERENCE and "correction=0" not in options)


def exponential_warmup(keep: float, epochs: int) -> tuple[float, ...]:
    """The schedule of the authors' code: keep^((e + 1) / (epochs + 1)) in epoch e."""
    return tuple(keep ** ((epoch + 1) / (epochs + 1)) for epoch in range(epochs))


def learning_rate(rate: float, step: int, steps: int) -> float:
    """Return the rate of a step, never zero."""
    rising = max(1, round(_RISING_SHARE * steps))
    if step < rising:
        return rate * (step + 1) / rising
    return rate * 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


def make_reducer(job: Job, flat: FlatModel) -> Reducer:
    if job.method == "dense":
        return Dense(job.ranks)
    name, options = parse_call(job.method)
    if name == REFERENCE:
        return ReferenceDgc(flat.tensors, job.ranks, **options)
    return Gradwire(job.method, flat.tensors, job.ranks)


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Split "name(a=1,b=0.5)"; nothing is made of values that are no numbers."""
    name, _, inside = text.partition("(")
    pairs = [pair.partition("=") for pair in inside.removesuffix(")").split(",") if pair]
    return name.strip(), {key.strip(): _number(value) for key, _, value in pairs}


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text.strip()


def run(job: Job) -> dict[str, Any]:
    """Train; a run whose loss is not finite ends there and has "diverged" set."""
    job.validate()
    start = time.perf_counter()
    training = _Training(job)
    warmup_sent, warmup_epochs = Sent(), training.warmup_epochs()
    for epoch in range(job.epochs):
        if epoch == warmup_epochs:
            warmup_sent = training.reducer.take_sent()
        if not training.run_epoch(epoch):
            break
    return training.report(warmup_sent) | {"seconds": round(time.perf_counter() - start, 2)}


class _Training:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.task = models.make(
            job.model,
            seed=job.seed,
            fold=job.fold,
            ranks=job.ranks,
            rank_batch=job.rank_batch,
        )
        self.flat = FlatModel(self.task.model)
        self.reducer = make_reducer(job, self.flat)
        self._optimizer = _make_optimizer(job, self.flat.weights)
        self._gradients = torch.empty(job.ranks, self.flat.weights.numel())
        self._steps = job.epochs * self.task.epoch_steps
        self._losses: list[float] = []
        self._last_rate = 0.0
        self._reduce_s = 0.0

    def warmup_epochs(self) -> int:
        """Those of the schedule of keep, of exact steps, or in which a network is trained."""
        options = parse_call(self.job.method)[1]
        steps = options.get("start", 0) + options.get("learn", 0)
        return max(len(self.job.warmup), math.ceil(steps / self.task.epoch_steps))

    def run_epoch(self, epoch: int) -> bool:
        """Make the steps of an epoch; false when the loss is not finite."""
        keep = self.job.warmup[epoch] if epoch < len(self.job.warmup) else None
        for batches in self.task.batches(epoch):
            loss = rank_gradients(self.flat, self.task.loss, batches, self._gradients)
            self._losses.append(loss)
            if not math.isfinite(loss) or not math.isfinite(self._gradients.sum().item()):
                return False
            self._update(keep)
        return True

    def _update(self, keep: float | None) -> None:
        step = len(self._losses) - 1
        rate = learning_rate(self.job.rate, step, self._steps)
        ratio = self._last_rate / rate if self.job.feeds_rates and step else 1.0
        self._last_rate = rate
        if self.job.decays_before:
            self._gradients.add_(self.flat.weights, alpha=self.job.weight_decay)
        start = time.perf_counter()
        self.flat.weights.grad = self.reducer.mean(self._gradients, step, keep, ratio)
        self._reduce_s += time.perf_counter() - start
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()

    def report(self, warmup_sent: Sent) -> dict[str, Any]:
        """The end's metrics; what was sent during the warm-up and in the steps after it."""
        steps = len(self._losses)
        warmup_steps = min(steps, self.warmup_epochs() * self.task.epoch_steps)
        metrics = self.task.test()
        diverged = steps < self._steps or not math.isfinite(metrics["loss"])
        return {
            "test": {key: _finite(value) for key, value in metrics.items()},
            "diverged": diverged,
            "curve": curve(self._losses, self._steps),
            "steps": steps,
            "elements": self.flat.weights.numel(),
            "warmup": _sent_fields(warmup_sent, warmup_steps),
            "after": _sent_fields(self.reducer.take_sent(), steps - warmup_steps),
            "reduce_ms": round(1e3 * self._reduce_s / steps, 3),
        }


def _make_optimizer(job: Job, weights: Any) -> torch.optim.Optimizer:
    decay = 0.0 if job.decays_before else job.weight_decay
    if job.optimizer == "adamw":
        return torch.optim.AdamW([weights], lr=job.rate, weight_decay=decay)
    momentum = 0.0 if has_own_momentum(job.method) else _MOMENTUM
    return torch.optim.SGD([weights], lr=job.rate, momentum=momentum, weight_decay=decay)


def _sent_fields(sent: Sent, steps: int) -> dict[str, float]:
    return {"steps": steps, **{key: round(value, 1) for key, value in asdict(sent).items()}}


def curve(losses: list[float], steps: int) -> list[float | None]:
    """Means over CURVE_POINTS equal parts of the steps; None from where there are none on."""
    edges = [round(i * steps / CURVE_POINTS) for i in range(CURVE_POINTS + 1)]
    parts = [losses[edges[i] : edges[i + 1]] for i in range(CURVE_POINTS)]
    return [_finite(sum(part) / len(part)) if part else None for part in parts]


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
