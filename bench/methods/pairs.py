"""How far a method is from dense: paired differences and their interval.

In: final metrics by (seed, fold). Out: mean difference and its 95 % interval. Assumes: both runs of
a pair have the same weights at the start, the same batches and the same test part.

Each (seed, fold) that both methods have is one pair, and all pairs are pooled in one paired t
interval of n - 1 degrees of freedom. Folds share training data and the seeds of a fold its test
part, so pairs are not wholly independent. Beside it stands an interval that does not lean on
that: pairs are averaged over folds first, and the seeds' means are the sample.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import NamedTuple

Place = tuple[int, int]  #: seed, fold


class Interval(NamedTuple):
    """A mean with its 95 % interval; infinite where one value is all there is."""

    mean: float
    half_width: float
    size: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width


def differences(method: Mapping[Place, float], dense: Mapping[Place, float]) -> dict[Place, float]:
    """Return method - dense, by the places that both have."""
    return {place: method[place] - dense[place] for place in sorted(method.keys() & dense.keys())}


def pooled(values: Mapping[Place, float]) -> Interval | None:
    """Every pair counts as a value of its own."""
    return t_interval(list(values.values()))


def by_seed(values: Mapping[Place, float]) -> Interval | None:
    """The mean over the folds of a seed counts as a value; only seeds that have all folds."""
    folds = {fold for _, fold in values}
    seeds = sorted({seed for seed, _ in values})
    whole = [seed for seed in seeds if all((seed, fold) in values for fold in folds)]
    return t_interval([statistics.mean(values[seed, fold] for fold in folds) for seed in whole])


def t_interval(values: list[float]) -> Interval | None:
    """Student's interval of the mean; None of no values."""
    if not values:
        return None
    mean, count = statistics.mean(values), len(values)
    if count == 1:
        return Interval(mean, math.inf, count)
    from scipy import stats

    quantile = float(stats.t.ppf(0.975, count - 1))
    return Interval(mean, quantile * statistics.stdev(values) / math.sqrt(count), count)
