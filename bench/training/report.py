#!/usr/bin/env python3
"""Tables, goals and a plot of what run.py measured.

    bench/training/report.py [RESULTS.json]

In: bench/results/training/training.json if left out. Out: a .md and a .png file beside it. Assumes:
matplotlib. The goals stand in goals.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tools")]

import goals  # noqa: E402
import machine  # noqa: E402 - of bench/
from checking import markdown  # noqa: E402 - of bench/
from goals import Entry, Run, entries, size_fraction, title  # noqa: E402
from tables import markdown_table  # noqa: E402 - of tools/

DEFAULT = HERE.parent / "results" / "training" / "training.json"
STEP_HEADING = [
    *("contender", "step ms", "p10", "p90", "CPU ms", "wire / gradient", "last loss"),
    "losses of no hook",
]
WAY_HEADING = [
    *("contender", "way", "given", "payload", "headers", "padding", "size fraction"),
    "plain",
]
WAYS = {"to_owners": "there", "from_owners": "back"}
INTRODUCTION = """\
# Training over slow links

Each rank runs on one core behind a link of its own, shaped both ways. In a run all contenders take
steps in turn, each with its own copy of the model and the same batches. Figures are of rank 0:
medians over the steps after the warm-up; bytes on the wire are what left its interface, TCP and
all; CPU time is that of all threads of the rank. There: gradients, to those that add them. Back:
sums. Of both, bytes a step; headers are 48 bytes a message, padding is unused room of first
messages, plain is what went by an all-reduce.
"""


def first_difference(losses: list[float], others: list[float]) -> int | None:
    """Return the step, from 0, at which losses are not the same bits; None if there is none."""
    pairs = zip(losses, others, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if a.hex() != b.hex()), None)


def is_replayed(run: Run) -> bool:
    """Accelerator mode: gradients are captured ones, and losses mean nothing."""
    return run["compute_ms"] is not None


def run_text(run: Run) -> str:
    known = entries(run)
    ours = [row for entry in known.values() for row in way_rows(entry)]
    tables = [markdown_table(STEP_HEADING, [step_cells(run, entry) for entry in known.values()])]
    if ours:
        tables.append(markdown_table(WAY_HEADING, ours))
    return "\n".join([f"## {title(run)}\n", facts(run), *tables])


def facts(run: Run) -> str:
    compute = "real compute"
    if is_replayed(run):
        compute = f"accelerator mode, {run['compute_ms']:g} ms of compute in {run['groups']} groups"
    gradient_bytes = run["contenders"][0]["gradient_bytes"]
    return (
        f"Link {run['rate'] or 'loopback'}, {run['ranks']} ranks, {run['model']} in "
        f"{run['numbers']}, batch {run['batch']}, {compute}; a gradient of {gradient_bytes:,} "
        f"bytes; {run['steps']} steps after {run['warmup']}.\n"
    )


def step_cells(run: Run, entry: Entry) -> list[str]:
    step = entry["step_ms"]
    return [
        entry["name"],
        *(f"{step[what]:.1f}" for what in ("median", "p10", "p90")),
        f"{entry['cpu_ms']:.1f}",
        f"{entry['wire_bytes'] / entry['gradient_bytes']:.4f}",
        *loss_cells(run, entry),
    ]


def loss_cells(run: Run, entry: Entry) -> tuple[str, str]:
    """The last loss, and whether all are those of plain DDP, bit for bit."""
    if is_replayed(run):
        return "replayed", ""
    losses = entry["losses"]
    last = f"{losses[-1]:.6f}"
    plain = entries(run).get("no hook")
    if plain is None or plain is entry:
        return last, ""
    step = first_difference(losses, plain["losses"])
    return last, "equal" if step is None else f"differ from step {step + 1} on"


def way_rows(entry: Entry) -> list[list[str]]:
    """Bytes a step each way; nothing for contenders without our statistics."""
    stats = entry.get("stats")
    if stats is None:
        return []
    plain = _a_step(stats["plain_bytes"], stats)
    rows = [
        _way_cells(entry["name"], words, stats[way], stats)
        for way, words in WAYS.items()
        if stats[way]["original_bytes"]
    ]
    rows = rows or [[entry["name"], *[""] * 6]]
    return [[*row, plain if i == 0 else ""] for i, row in enumerate(rows)]


def _way_cells(name: str, words: str, way: dict[str, int], stats: dict[str, Any]) -> list[str]:
    parts = ("original_bytes", "payload_bytes", "header_bytes", "padding_bytes")
    return [
        name,
        words,
        *(_a_step(way[part], stats) for part in parts),
        f"{size_fraction(way):.4f}",
    ]


def _a_step(count: int, stats: dict[str, Any]) -> str:
    return f"{count / stats['steps']:,.0f}"


def text_of(results: dict[str, Any], plot: str) -> str:
    runs = results["runs"]
    sections = goals.sections(runs)
    parts = [INTRODUCTION, machine.markdown(results), f"![step times and bytes]({plot})\n"]
    if sections:
        parts += ["# Goals\n", markdown(sections)]
    return "\n".join([*parts, "# Runs\n", *map(run_text, runs)])


def draw(runs: list[Run], png: Path) -> None:
    """Draw a row a run: step times with p10 to p90, bytes on the wire beside them."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    counts = [len(run["contenders"]) for run in runs]
    figure, axes = plt.subplots(
        len(runs),
        2,
        figsize=(11, 0.3 * sum(counts) + 0.8 * len(runs)),
        height_ratios=[count + 1 for count in counts],
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for (left, right), run in zip(axes, runs, strict=True):
        _draw_run(left, right, run)
    axes[-1][0].set_xlabel("ms a step, median and p10 to p90")
    axes[-1][1].set_xlabel("bytes on the wire / gradient")
    figure.savefig(png, dpi=110)
    plt.close(figure)


def _draw_run(left: Any, right: Any, run: Run) -> None:
    known = entries(run)
    names = list(known)
    steps = [entry["step_ms"] for entry in known.values()]
    medians = [step["median"] for step in steps]
    below = [step["median"] - step["p10"] for step in steps]
    above = [step["p90"] - step["median"] for step in steps]
    fractions = [entry["wire_bytes"] / entry["gradient_bytes"] for entry in known.values()]
    colours = ["#2f6fb0" if "stats" in entry else "#9aa5b1" for entry in known.values()]
    left.barh(names, medians, xerr=(below, above), color=colours, error_kw={"lw": 0.8})
    right.bar_label(right.barh(names, fractions, color=colours), fmt="%.3f", fontsize=7, padding=2)
    right.set_xlim(0, 1.15 * max(fractions))
    left.set_title(f"{title(run)}, {run['ranks']} ranks", fontsize=9, loc="left")
    left.invert_yaxis()
    for axis in (left, right):
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)


def main(source: Path) -> None:
    results = json.loads(source.read_text())
    png = source.with_suffix(".png")
    draw(results["runs"], png)
    text = text_of(results, png.name)
    source.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
