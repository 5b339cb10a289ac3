"""Draw size fractions as a bar chart, and curves of training.

    tools/plots.py RESULTS.json PNG

In: sizes as bench/run.py writes them; the demo hands its own. Out: a PNG file. Assumes: matplotlib.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

COLOURS = ["#9aa5b1", "#c8cdd3", "#5b9bd5", "#2f6fb0", "#174a7e"]
BOUND_COLOUR = "#d1495b"
WAY_STYLES = [("#9aa5b1", "-", 4.0), ("#174a7e", "--", 1.6), ("#d1495b", ":", 1.6)]


class FileBars(NamedTuple):
    """The bars of one file: size fractions by label, and the order-0 bound, a line across them."""

    name: str
    fractions: dict[str, float]
    order0_bound: float


def draw_bars(files: Sequence[FileBars], png: Path) -> None:
    """Draw a group of bars a file."""
    labels = list(dict.fromkeys(label for file in files for label in file.fractions))
    width = 0.8 / len(labels)
    figure, axes = plt.subplots(figsize=(max(8.0, 1.3 * len(files)), 4.8), layout="constrained")
    for k, label in enumerate(labels):
        places = [i - 0.4 + (k + 0.5) * width for i in range(len(files))]
        heights = [file.fractions.get(label, 0.0) for file in files]
        bars = axes.bar(places, heights, width, label=label, color=COLOURS[k % len(COLOURS)])
        axes.bar_label(bars, fmt="%.2f", fontsize=6, padding=1)
    for i, file in enumerate(files):
        label = "H0, bound of order-0 coders" if i == 0 else None
        axes.hlines(file.order0_bound, i - 0.42, i + 0.42, color=BOUND_COLOUR, lw=1.2, label=label)
    axes.set_xticks(range(len(files)), [file.name for file in files], rotation=20, ha="right")
    axes.set_ylabel("compressed / original size (lower is better)")
    axes.set_ylim(0, 1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=3, fontsize=8, frameon=False, loc="upper right")
    png.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(png, dpi=150)
    plt.close(figure)


class ModelCurves(NamedTuple):
    """Figures of each step of one model, by how its gradients were sent."""

    name: str
    losses: dict[str, list[float]]
    step_bytes: dict[str, list[int]]


def draw_training(models: Sequence[ModelCurves], png: Path) -> None:
    """Draw loss above bytes a step, a column a model. Equal curves lie on each other."""
    figure, axes = plt.subplots(
        2, len(models), figsize=(5.2 * len(models), 6), layout="constrained", squeeze=False
    )
    for column, model in enumerate(models):
        upper, lower = axes[0][column], axes[1][column]
        megabytes = {way: [n / 1e6 for n in steps] for way, steps in model.step_bytes.items()}
        _draw_curves(upper, model.losses)
        _draw_curves(lower, megabytes)
        upper.set_title(model.name, fontsize=10)
        lower.set_ylim(bottom=0)
        lower.set_xlabel("step")
    axes[0][0].set_ylabel("loss on rank 0")
    axes[1][0].set_ylabel("MB sent by rank 0 in a step")
    axes[0][0].legend(fontsize=8, frameon=False)
    png.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(png, dpi=150)
    plt.close(figure)


def _draw_curves(axes: Any, curves: dict[str, list[float]]) -> None:
    for (way, values), style in zip(curves.items(), itertools.cycle(WAY_STYLES), strict=False):
        colour, line, width = style
        axes.plot(range(1, len(values) + 1), values, color=colour, ls=line, lw=width, label=way)
    axes.spines[["top", "right"]].set_visible(False)


def bars_of_results(results: dict[str, Any]) -> list[FileBars]:
    files = []
    for name, row in results["files"].items():
        fractions = {"zstd-3 planes": row["zstd3_planes"]}
        if row.get("best_peer"):
            fractions["best peer"] = row["best_peer"]["fraction"]
        fractions |= {f"level {level}": size["fraction"] for level, size in row["sizes"].items()}
        files.append(FileBars(name, fractions, row["order0_bound"]))
    return files


def main(source: Path, png: Path) -> None:
    draw_bars(bars_of_results(json.loads(source.read_text())), png)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: plots.py RESULTS.json PNG")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
