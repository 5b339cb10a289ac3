#!/usr/bin/env python3
"""Tables and plots of what study.py measured.

    bench/methods/report.py [RESULTS.json]

In: bench/results/methods/methods.json if left out. Out: a .md file and two plots beside it,
NAME-bytes.png (final metric against bytes) and NAME-loss.png (loss against steps). Assumes:
matplotlib, SciPy.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(ROOT / "tools")]

import machine  # noqa: E402 - of bench/
from methods import pairs, plots  # noqa: E402
from methods.pairs import Interval, Place  # noqa: E402
from tables import markdown_table  # noqa: E402 - of tools/

DEFAULT = HERE.parent / "results" / "methods" / "methods.json"
Group = dict[str, Any]

#: By model: what the metric is called, its key, the factor to the table's unit, whether the
#: difference is told as a share of dense.
METRICS = {
    "digits": ("accuracy, %", "accuracy", 100.0, False),
    "gpt": ("test loss, nats", "loss", 1.0, True),
}
METRIC_HEADING = [
    *("method", "rate", "runs", "final", "less dense", "95 % of all pairs"),
    *("95 % of seeds", "diverged"),
]
BYTES_HEADING = [
    *("method", "up", "down", "of dense", "whole run", "message of f32", "density"),
    *("bits an element sent", "reduce ms"),
]
INTRODUCTION = """\
# Methods compared

Four logical ranks in one process, each with its shard of a batch and its own state; the gradient's
mean that all of them hold trains shared weights. Digits: 5 folds over all 1,797 pictures; GPT: a
byte GPT on Python's sources, a tenth of the files for the test. The learning rate of each method
was chosen alone, on fold 0 and a seed that no counted run has (the short form has one rate for
all), or is the next best where a counted run diverged; it rises for a twentieth of the steps and
falls along a cosine.

**less dense**: a method's final metric less that of the dense run with the same seed, fold,
batches, optimizer and weight decay; of the GPT in percent of dense. **95 % of all pairs**: paired
t, each seed and fold one value. **95 % of seeds**: each seed's mean over folds one value, which
does not take runs with the same test pictures for independent ones. A method with a diverged run
has no interval.

**up, down**: bytes that a rank sends in a step, once for each receiver, headers included: gradients
to those that add, sums back; mean of the steps after the warm-up of keep. **of dense**: their sum
by that of a dense f32 all-reduce, after the warm-up and in the **whole run**. **message of f32**: a
gradient on its way up by its f32 form, whatever the number of receivers. **density**: elements sent
by elements of the tensors that are sparsified. Nothing here says how long a step would take over a
network; **reduce ms** is what all four ranks took together on this machine.
"""


def metric_values(group: Group) -> dict[Place, float]:
    """The final metric by seed and fold; of a GPT's diverged run there is none."""
    _, key, _, _ = METRICS[group["model"]]
    found = {}
    for run in good_runs(group):
        if (value := run["test"][key]) is not None:
            found[run["job"]["seed"], run["job"]["fold"]] = value
    return found


def good_runs(group: Group) -> list[dict[str, Any]]:
    return [run for run in group["runs"] if "error" not in run]


def dense_of(group: Group, groups: list[Group]) -> Group | None:
    """The dense runs that a method is compared with."""
    dense = (other for other in groups if other["method"] == "dense")
    return next((other for other in dense if other["compared"] == group["compared"]), None)


def paired(group: Group, groups: list[Group]) -> dict[Place, float]:
    """Differences to dense, in points or in percent of dense."""
    dense = dense_of(group, groups)
    if dense is None or dense is group or diverged_count(group):
        return {}
    _, _, factor, is_relative = METRICS[group["model"]]
    base = metric_values(dense)
    found = pairs.differences(metric_values(group), base)
    if is_relative:
        return {place: 100 * value / base[place] for place, value in found.items()}
    return {place: factor * value for place, value in found.items()}


def diverged_count(group: Group) -> int:
    return sum(run["diverged"] for run in good_runs(group))


def metric_cells(group: Group, groups: list[Group]) -> list[str]:
    errors = [run["error"] for run in group["runs"] if "error" in run]
    if errors:
        return [group["label"], errors[0], *[""] * (len(METRIC_HEADING) - 2)]
    values, found = list(metric_values(group).values()), paired(group, groups)
    factor = METRICS[group["model"]][2]
    return [
        group["label"],
        "" if group["rate"] is None else f"{group['rate']:g}{edge_mark(group)}",
        f"{len(group['runs'])}/{group['wanted']}",
        f"{factor * statistics.mean(values):.3f}" if values else "",
        *interval_cells(pairs.pooled(found), pairs.by_seed(found)),
        str(diverged_count(group) or ""),
    ]


def edge_mark(group: Group) -> str:
    """A star where the best rate is at the end of those tried: a better one may lie beyond."""
    tried = sorted(map(float, group["tried"]))
    is_edge = len(tried) > 1 and math.isclose(group["rate"], tried[0])
    return "*" if is_edge or (len(tried) > 1 and math.isclose(group["rate"], tried[-1])) else ""


def interval_cells(all_pairs: Interval | None, seeds: Interval | None) -> list[str]:
    if all_pairs is None:
        return ["", "", ""]
    return [f"{all_pairs.mean:+.3f}", _bounds(all_pairs), _bounds(seeds)]


def _bounds(interval: Interval | None) -> str:
    if interval is None or math.isinf(interval.half_width):
        return ""
    return f"{interval.low:+.3f} to {interval.high:+.3f}"


def total_sent(group: Group, *phases: str) -> dict[str, float]:
    """Sums over runs and steps of what was sent in "warmup", "after" or both."""
    total: dict[str, float] = {}
    for run in good_runs(group):
        for phase in phases:
            for key, value in run[phase].items():
                total[key] = total.get(key, 0.0) + value
    return total


def dense_step_bytes(group: Group) -> float:
    """What a rank sends in a step of a dense f32 all-reduce, both ways together."""
    run = good_runs(group)[0]
    ranks = run["job"]["ranks"]
    return 2 * 4 * run["elements"] * (ranks - 1) / ranks


def share_of_dense(group: Group, *phases: str) -> float:
    sent = total_sent(group, *phases)
    way = sent["up_bytes"] + sent["down_bytes"]
    return float(way / sent["steps"] / dense_step_bytes(group)) if sent["steps"] else math.nan


def bytes_cells(group: Group) -> list[str]:
    sent = total_sent(group, "after")
    steps = sent["steps"] or math.nan
    return [
        group["label"],
        f"{sent['up_bytes'] / steps:,.0f}",
        f"{sent['down_bytes'] / steps:,.0f}",
        f"{share_of_dense(group, 'after'):.5f}",
        f"{share_of_dense(group, 'warmup', 'after'):.5f}",
        _ratio(sent["up_bytes"], sent["up_original_bytes"], 5),
        _ratio(sent["selected"], sent["selectable"], 5),
        _ratio(8 * sent["selected_bytes"], sent["selected"], 2),
        f"{statistics.median(run['reduce_ms'] for run in good_runs(group)):.1f}",
    ]


def _ratio(part: float, whole: float, digits: int) -> str:
    return f"{part / whole:.{digits}f}" if whole else ""


def text_of(results: dict[str, Any], stem: str) -> str:
    groups = results["groups"]
    parts = [INTRODUCTION, machine.markdown(results), *kept_texts(results)]
    parts += [f"![{what}]({stem}-{what}.png)\n" for what in ("bytes", "loss")]
    for model in dict.fromkeys(group["model"] for group in groups):
        ours = [group for group in groups if group["model"] == model]
        name = METRICS[model][0]
        with_runs = [group for group in ours if good_runs(group)]
        parts += [
            f"## {model}: {name}\n",
            runs_text(ours),
            markdown_table(METRIC_HEADING, [metric_cells(group, groups) for group in ours]),
            markdown_table(BYTES_HEADING, [bytes_cells(group) for group in with_runs]),
        ]
    return "\n".join(parts)


def kept_texts(results: dict[str, Any]) -> list[str]:
    """Other machines that kept runs may be from, and groups that nothing was decided of."""
    texts = []
    here = _machine_name(results["machine"])
    kept = [other for group in results["groups"] for other in group.get("machines", [])]
    if others := sorted({_machine_name(other) for other in kept} - {here}):
        texts.append(f"Runs of earlier revisions may be from: {'; '.join(others)}.\n")
    waiting = [f"{group['label']} ({group['model']})" for group in results.get("waiting", [])]
    if waiting:
        texts.append(f"Left out, as they were not asked for: {'; '.join(waiting)}.\n")
    return texts


def _machine_name(about: dict[str, Any]) -> str:
    return f"{about['cpu']}, {about['cores']} cores, {about['system']}"


def runs_text(groups: list[Group]) -> str:
    """What all runs of a model have in common."""
    runs = [run for group in groups for run in good_runs(group)]
    if not runs:
        return "No runs yet.\n"
    job = runs[0]["job"]
    star = (
        " A star: the rate is the last of those tried." if any(g["tried"] for g in groups) else ""
    )
    return (
        f"{runs[0]['elements']:,} parameters, {job['ranks']} ranks, {job['rank_batch']} samples a "
        f"rank, {job['epochs']} epochs, {max(run['steps'] for run in runs)} steps; "
        f"{revisions_text(groups)}.{star}\n"
    )


def revisions_text(groups: list[Group]) -> str:
    """At which revisions runs were made, and why those of earlier ones stand."""
    revisions = sorted({run["revision"] for group in groups for run in good_runs(group)})
    text = f"runs of revision{'s' * (len(revisions) > 1)} {', '.join(revisions)}"
    if not any(group.get("kept") for group in groups):
        return text
    return (
        f"{text}; those of earlier ones stand while their methods' means of made-up gradients are "
        "the same, bit for bit"
    )


def points(groups: list[Group]) -> list[plots.Point]:
    """A method's place in the plot of metrics and bytes; those with a finite end."""
    found = []
    for group in groups:
        values = list(metric_values(group).values())
        if values and not diverged_count(group):
            name, _, factor, _ = METRICS[group["model"]]
            sent = total_sent(group, "warmup", "after")
            bytes_a_step = (sent["up_bytes"] + sent["down_bytes"]) / sent["steps"]
            ends = pairs.t_interval([factor * value for value in values])
            assert ends is not None
            found.append(plots.Point(group["model"], name, group["label"], bytes_a_step, ends))
    return found


def curves(groups: list[Group]) -> list[plots.Curve]:
    """Mean training loss over a method's runs, by part of the steps."""
    found = []
    for group in groups:
        runs = [run for run in good_runs(group) if not run["diverged"]]
        if runs:
            columns = zip(*(run["curve"] for run in runs), strict=True)
            known = [[value for value in column if value is not None] for column in columns]
            losses = [statistics.mean(column) if column else math.nan for column in known]
            found.append(plots.Curve(group["model"], group["label"], runs[0]["steps"], losses))
    return found


def write(source: Path) -> None:
    """Write the table and the plots beside the results, and print the table."""
    results = json.loads(source.read_text())
    text = text_of(results, source.stem)
    plots.draw_bytes(points(results["groups"]), source.with_name(f"{source.stem}-bytes.png"))
    plots.draw_losses(curves(results["groups"]), source.with_name(f"{source.stem}-loss.png"))
    source.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
