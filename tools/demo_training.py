"""Train two small models on two ranks, with and without gradwire; print what it saved.

    tools/demo_training.py

In: what demo_rank.py reports. Out: a table and training.png in demo-output/. Assumes: PyTorch and
scikit-learn, or it says that it does nothing. The ranks talk over Gloo on loopback, where sending
costs nothing: bytes are the point, and step times show the price. Exits with 1 if a loss or a
weight differs from those of plain DDP.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import plots
from tables import table

RANKS = 2
WARMUP = 3  #: steps whose times do not count: DDP settles its buckets in them
PLAIN = "plain DDP"
TITLES = {
    "digits": "convolutional net, digits, float32",
    "gpt": "byte GPT, docs/*.md, bfloat16 autocast",
}
HERE = Path(__file__).resolve().parent

Report = dict[str, dict[str, dict[str, Any]]]  #: model -> way -> what demo_rank.py measured


class RankError(Exception):
    """A rank has ended with an error; it has printed which."""


def missing_packages() -> list[str]:
    return [name for name in ("torch", "sklearn") if importlib.util.find_spec(name) is None]


def run_ranks() -> list[Report]:
    """Train; returns what each rank reports."""
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        commands = [
            [sys.executable, str(HERE / "demo_rank.py"), folder, str(rank), str(RANKS)]
            for rank in range(RANKS)
        ]
        started = [subprocess.Popen(command, env=environment) for command in commands]
        try:
            codes = [process.wait() for process in started]
        finally:
            for process in started:
                process.kill()
        if any(codes):
            raise RankError(f"ranks ended with {codes}")
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(RANKS)]


def differences(reports: list[Report]) -> list[str]:
    """Sentences about losses and weights that are not those of plain DDP on the same rank."""
    found = []
    for rank, report in enumerate(reports):
        for model, ways in report.items():
            plain = ways[PLAIN]
            for way, figures in ways.items():
                where = f"{model}, {way}, rank {rank}"
                if bits(figures["losses"]) != bits(plain["losses"]):
                    found.append(f"{where}: losses differ from those of plain DDP")
                if figures["weights"] != plain["weights"]:
                    found.append(f"{where}: weights differ from those of plain DDP")
    return found


def bits(losses: list[float]) -> list[str]:
    """Text that is the same for the same bits, -0.0 and NaN too."""
    return [loss.hex() for loss in losses]


def training_table(report: Report) -> str:
    heading = ["model", "sent by", "steps", "step ms", "bytes a step", "fraction", "last loss"]
    rows = [
        _cells(TITLES[model] if way == PLAIN else "", way, figures, ways[PLAIN])
        for model, ways in report.items()
        for way, figures in ways.items()
    ]
    return table(heading, rows)


def _cells(title: str, way: str, figures: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    step_bytes = statistics.mean(figures["step_bytes"])
    fraction = step_bytes / statistics.mean(plain["step_bytes"])
    return [
        title,
        way,
        str(len(figures["losses"])),
        f"{statistics.median(figures['step_ms'][WARMUP:]):.1f}",
        f"{step_bytes:,.0f}",
        f"{fraction:.4f}",
        f"{figures['losses'][-1]:.6f}",
    ]


def curves(report: Report) -> list[plots.ModelCurves]:
    return [
        plots.ModelCurves(
            TITLES[model],
            {way: figures["losses"] for way, figures in ways.items()},
            {way: figures["step_bytes"] for way, figures in ways.items()},
        )
        for model, ways in report.items()
    ]


def show(report: Report, output: Path) -> None:
    print("\nTraining, figures of rank 0. Bytes are what this rank sends, headers included, by")
    print("stats(); for plain DDP those of the gradient, which its all-reduce sends once. Loopback")
    print("is no slow link: step times show what coding costs, not what it saves.\n")
    print(training_table(report))
    chart = output / "training.png"
    plots.draw_training(curves(report), chart)
    print(f"\nChart: {output.name}/{chart.name}.")


def main(output: Path) -> int:
    missing = missing_packages()
    if missing:
        print(f"\nThe training part is left out: {missing[0]} is not installed.")
        return 0
    print(f"\nTraining two models on {RANKS} ranks; this takes a minute or so.", flush=True)
    try:
        reports = run_ranks()
    except RankError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    output.mkdir(parents=True, exist_ok=True)
    show(reports[0], output)
    wrong = differences(reports)
    for sentence in wrong:
        print(f"demo: {sentence}", file=sys.stderr)
    if not wrong:
        print("\nThe loss curves are equal bit for bit, and so are the weights at the end.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(HERE.parent / "demo-output"))
