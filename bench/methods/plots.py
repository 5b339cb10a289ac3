"""The study's two plots: final metric against bytes, loss against steps.

In: points and curves. Out: PNG files. Assumes: matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from methods.pairs import Interval

mpl.use("Agg")
from matplotlib import pyplot as plt

_STYLES = ["-", "--", ":", "-."]


class Point(NamedTuple):
    model: str
    metric: str
    label: str
    bytes_a_step: float  #: both ways, mean of the whole run
    ends: Interval  #: of the final metric over runs


class Curve(NamedTuple):
    model: str
    label: str
    steps: int
    losses: Sequence[float]  #: means over equal parts of the steps


def draw_bytes(points: Sequence[Point], png: Path) -> None:
    """Draw a panel a model: a point a method, its 95 % interval over runs as a bar."""
    models = list(dict.fromkeys(point.model for point in points))
    figure, axes = _panels(len(models))
    for axis, model in zip(axes, models, strict=True):
        ours = [point for point in points if point.model == model]
        for i, point in enumerate(ours):
            bar = point.ends.half_width if point.ends.size > 1 else 0.0
            colour, marker = f"C{i % 10}", "os^Dv"[i // 10 % 5]
            axis.errorbar(
                *(point.bytes_a_step, point.ends.mean, bar),
                fmt=marker,
                color=colour,
                capsize=2,
                label=point.label,
            )
        axis.set_xscale("log")
        _finish(axis, model, "bytes a rank sends in a step, both ways", ours[0].metric)
    figure.savefig(png, dpi=110)
    plt.close(figure)


def draw_losses(curves: Sequence[Curve], png: Path) -> None:
    """Draw a panel a model: the training loss of each method, mean over its runs."""
    models = list(dict.fromkeys(curve.model for curve in curves))
    figure, axes = _panels(len(models))
    for axis, model in zip(axes, models, strict=True):
        ours = [curve for curve in curves if curve.model == model]
        for i, curve in enumerate(ours):
            width = curve.steps / len(curve.losses)
            middles = [(part + 0.5) * width for part in range(len(curve.losses))]
            style = _STYLES[i // 10 % len(_STYLES)]
            axis.plot(middles, curve.losses, style, color=f"C{i % 10}", lw=1.2, label=curve.label)
        axis.set_yscale("log")
        _finish(axis, model, "step", "training loss")
    figure.savefig(png, dpi=110)
    plt.close(figure)


def _panels(count: int) -> tuple[Any, list[Any]]:
    figure, axes = plt.subplots(
        1, max(1, count), figsize=(7.5 * max(1, count), 5.5), squeeze=False, layout="constrained"
    )
    return figure, list(axes[0])[:count]


def _finish(axis: Any, model: str, x: str, y: str) -> None:
    axis.set_title(model, fontsize=10, loc="left")
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.legend(fontsize=7, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
