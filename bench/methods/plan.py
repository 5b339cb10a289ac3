"""Which runs the study makes.

In: the full or the short form. Out: for each method and model the jobs that choose its learning
rate, and those that count. Assumes: nothing.

A rate is chosen by the loss of the test part of fold 0 with a seed that no counted run has. The
grid goes on, in the direction of the best, while the best is at its end. A rate at which a counted
run diverges gives way to the next best one.
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

_CNN = ("digits",)
_GPT = ("gpt",)


def _on_digits(label: str, method: str | None = None, **more: Any) -> Entry:
    return Entry(label, method or label, models=_CNN, **more)


ENTRIES = (
    Entry("dense", "dense", is_short=True),
    Entry("dense, sgd", "dense", models=_GPT, optimizers={"gpt": "sgd"}),
    _on_digits("lossless", "lossless(level=1)", is_short=True),
    # DGC and what its techniques are worth.
    _on_digits("dgc", "dgc(keep=0.001)", warms=True, is_short=True),
    _on_digits("dgc, values in f32", "dgc(keep=0.001,values=f32)", warms=True),
    _on_digits("dgc, clipping", "dgc(keep=0.001,clip=2)", warms=True),
    _on_digits("dgc, no warm-up", "dgc(keep=0.001)"),
    _on_digits("dgc, no mask", "dgc(keep=0.001,mask=false)", warms=True),
    _on_digits("dgc, no correction", "dgc(keep=0.001,momentum=0)", warms=True),
    _on_digits("reference dgc", "reference-dgc(keep=0.001)", warms=True),
    _on_digits("dense, decay", "dense", changes=_DECAY),
    _on_digits("dgc, decay before", "dgc(keep=0.001)", warms=True, changes=_DECAY_BEFORE),
    _on_digits("dgc, decay after", "dgc(keep=0.001)", warms=True, changes=_DECAY),
    # Other sparsifiers.
    _on_digits("topk", "topk(keep=0.01)"),
    _on_digits("topk, f16", "topk(keep=0.01,values=f16)"),
    _on_digits("sidco", "sidco(keep=0.001)", warms=True),
    _on_digits("randomk", "randomk(keep=0.1)"),
    _on_digits("threshold", "threshold(bound=0.002)"),
    _on_digits("lhc", "lhc(keep=0.01,cells=0)"),
    # Learned codes, as in the paper: exact steps, steps in which the network learns, coded steps.
    _on_digits("topk, 0.1 %", "topk(keep=0.001,values=f16,start=100)"),
    _on_digits("lgc, ring", "lgc(start=100,learn=150)"),
    _on_digits("lgc, server", "lgc(mode=server,start=100,learn=150)"),
    # Quantisers.
    _on_digits("qsgd", "qsgd", is_short=True),
    _on_digits("qgz", "qgz"),
    _on_digits("terngrad", "terngrad"),
    _on_digits("natural", "natural"),
    _on_digits("sign", "sign"),
    _on_digits("efsign", "efsign"),
    _on_digits("onebit", "onebit"),
    _on_digits("onebit, one-sided", "onebit(server_feedback=false)"),
    _on_digits("gennorm", "gennorm"),
    _on_digits("co3", "co3"),
    _on_digits("gcomp", "gcomp"),
    _on_digits("thc", "thc"),
    _on_digits("thc, no feedback", "thc(feedback=false)"),
    _on_digits("cast bf16", "cast"),
    _on_digits("cast e4m3", "cast(values=e4m3)"),
    # Low rank.
    Entry("powersgd", "powersgd(matrix_rank=4)"),
    Entry(
        "powersgd, no feedback", "powersgd(matrix_rank=4,feedback=false,force=true)", models=_GPT
    ),
    Entry("acpsgd", "acpsgd(matrix_rank=4)", middle_rate={"gpt": 7.5e-4}),
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
