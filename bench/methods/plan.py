"""Which runs the study makes.

In: the full or the short form. Out: for each method and model the jobs that choose its learning
rate, and those that count. Assumes: nothing.

A rate is chosen by the loss of the test part of fold 0 with a seed that no counted run has. The
grid goes on, in the direction of the best, while the best is at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from methods import models
from methods.train import Job, exponential_warmup, has_own_momentum, parse_call

TUNING_SEED = 100
TUNING_FOLD = 0
MOST_RATES = 6  #: tried of one method on one model

#: The middle of the grid by model and optimizer; a method may have its own.
RATES = {("digits", "sgd"): 0.05, ("gpt", "sgd"): 0.1, ("gpt", "adamw"): 3e-3}
_GRID_STEP = 2.0

_DGC = "reference-dgc(keep=0.001"


@dataclass(frozen=True)
class Entry:
    """A method as it stands in the tables."""

    label: str
    method: str
    warms: bool = False  #: more is sent in the first epochs, for methods with keep=
    models: tuple[str, ...] = ("digits", "gpt")
    optimizers: Mapping[str, str] | None = None  #: by model, where it is not the usual one
    middle_rate: Mapping[str, float] | None = None  #: by model, where RATES do not suit
    changes: Mapping[str, Any] = field(default_factory=dict)  #: of other fields of its jobs
    is_short: bool = False  #: whether the short form has it

    def optimizer(self, model: str) -> str:
        if self.optimizers and model in self.optimizers:
            return self.optimizers[model]
        return "sgd" if model == "digits" or has_own_momentum(self.method) else "adamw"

    def rate(self, model: str) -> float:
        if self.middle_rate and model in self.middle_rate:
            return self.middle_rate[model]
        return RATES[model, self.optimizer(model)]


@dataclass(frozen=True)
class Form:
    """How much is run."""

    seeds: Mapping[str, int]  #: by model
    folds: Mapping[str, int]
    epochs: Mapping[str, int]
    tunes: bool
    is_short: bool


FULL = Form(
    seeds={"digits": 5, "gpt": 2},
    folds={"digits": models.FOLDS, "gpt": 1},
    epochs={"digits": 30, "gpt": 10},
    tunes=True,
    is_short=False,
)
SHORT = Form(
    seeds={"digits": 1, "gpt": 1},
    folds={"digits": 2, "gpt": 1},
    epochs={"digits": 10, "gpt": 1},
    tunes=False,
    is_short=True,
)
_RANK_BATCH = {"digits": 16, "gpt": 4}
_WARMUP_EPOCHS = {"digits": 5, "gpt": 2}
_WARMUP_SHARE = 1 / 3  #: of a run at most

#: A method is compared with the dense runs whose jobs have these fields alike.
COMPARED = ("model", "optimizer", "weight_decay", "epochs")

_DECAY = {"weight_decay": 1e-3}
_DECAY_BEFORE = {**_DECAY, "decays_before": True}

ENTRIES = (
    Entry("dense", "dense", is_short=True),
    Entry("dense, sgd", "dense", models=("gpt",), optimizers={"gpt": "sgd"}, is_short=True),
    Entry("lossless", "lossless(level=1)", models=("digits",), is_short=True),
    Entry("reference dgc", f"{_DGC})", warms=True, is_short=True),
    Entry("reference dgc, clipping", f"{_DGC},clip_norm=2)", True, ("digits",)),
    Entry("reference dgc, no warm-up", f"{_DGC})", models=("digits",)),
    Entry("reference dgc, no mask", f"{_DGC},mask=0)", True, ("digits",)),
    Entry("reference dgc, no correction", f"{_DGC},correction=0)", True, ("digits",)),
    Entry("dense, decay", "dense", models=("digits",), changes=_DECAY),
    Entry("reference dgc, decay before", f"{_DGC})", True, ("digits",), changes=_DECAY_BEFORE),
    Entry("reference dgc, decay after", f"{_DGC})", True, ("digits",), changes=_DECAY),
)


def entries(form: Form, labels: list[str] | None = None) -> list[Entry]:
    """The form's entries, all or those of the labels; dense ones always."""
    known = [entry for entry in ENTRIES if entry.is_short or not form.is_short]
    if labels is None:
        return known
    if unknown := set(labels) - {entry.label for entry in ENTRIES}:
        raise ValueError(f"method: {', '.join(sorted(unknown))} given, not in the plan")
    return [entry for entry in known if entry.label in labels or entry.method == "dense"]


def base_job(entry: Entry, model: str, form: Form) -> Job:
    """What all runs of a method on a model share; the rate is the grid's middle."""
    epochs = form.epochs[model]
    warmup: tuple[float, ...] = ()
    if entry.warms:
        keep = parse_call(entry.method)[1]["keep"]
        warmup = exponential_warmup(keep, min(_WARMUP_EPOCHS[model], int(_WARMUP_SHARE * epochs)))
    return Job(
        model=model,
        method=entry.method,
        rate=entry.rate(model),
        seed=0,
        epochs=epochs,
        optimizer=entry.optimizer(model),
        rank_batch=_RANK_BATCH[model],
        warmup=warmup,
        **entry.changes,
    )


def tuning_jobs(base: Job, losses: Mapping[float, float]) -> list[Job]:
    """Jobs that are still to be run before the rate is known; none when it is.

    losses: of rates tried, infinite for a run that diverged.
    """
    rates = next_rates(base.rate, losses)
    return [replace(base, rate=rate, seed=TUNING_SEED, fold=TUNING_FOLD) for rate in rates]


def next_rates(middle: float, losses: Mapping[float, float]) -> list[float]:
    """Three rates at first; then one more at the end where the best is, until it is inside."""
    first = [middle / _GRID_STEP, middle, middle * _GRID_STEP]
    if missing := [rate for rate in first if rate not in losses]:
        return missing
    if len(losses) >= MOST_RATES:
        return []
    best = best_rate(losses)
    if best == min(losses):
        return [best / _GRID_STEP]
    return [best * _GRID_STEP] if best == max(losses) else []


def best_rate(losses: Mapping[float, float]) -> float:
    """The rate of the least loss; the smaller of equals."""
    return min(sorted(losses), key=lambda rate: losses[rate])


def counted_jobs(base: Job, rate: float, form: Form) -> list[Job]:
    """One job a seed and fold, all folds of a seed together."""
    return [
        replace(base, rate=rate, seed=seed, fold=fold)
        for seed in range(form.seeds[base.model])
        for fold in range(form.folds[base.model])
    ]
