#!/usr/bin/env python3
"""The shape of gradients: a generalised normal distribution for each layer, over a training.

    bench/methods/shapes.py [--output DIR]

In: the study's two models, trained as dense ones. Out: DIR/shapes.png, beta of each matrix by step
(2 is normal, 1 Laplace; most gradients have less), and shapes.json. Assumes: PyTorch, scikit-learn,
matplotlib. Exact zeros are left out of a fit, as src/lossy/gennorm does.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import matplotlib as mpl  # noqa: E402
import torch  # noqa: E402
from methods import models  # noqa: E402
from methods.ranks import FlatModel, rank_gradients  # noqa: E402
from methods.train import Job, learning_rate  # noqa: E402

mpl.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

JOBS = (
    Job("digits", "dense", rate=0.05, seed=0, epochs=30),
    Job("gpt", "dense", rate=0.1, seed=0, epochs=10, rank_batch=4),
)
POINTS = 30  #: of a curve
LEAST_VALUES = 1000  #: of a layer


@functools.cache
def _ratios() -> list[tuple[float, float]]:
    """Ratios (E|x|)^2 / E x^2 with their betas, ascending."""
    betas = [2 ** (k / 64 - 3) for k in range(6 * 64 + 1)]
    g = math.lgamma
    return [(math.exp(2 * g(2 / b) - g(1 / b) - g(3 / b)), b) for b in betas]


def beta_of(values: Any) -> float:
    """Fit by moments, to the nearest of a table."""
    values = values[values != 0].double()
    if len(values) < LEAST_VALUES // 10:
        return math.nan
    ratio = float(values.abs().mean() ** 2 / values.square().mean())
    return min(_ratios(), key=lambda pair: abs(pair[0] - ratio))[1]


def train(job: Job) -> dict[str, Any]:
    """Betas of each matrix of a thousand elements or more, at POINTS steps."""
    torch.manual_seed(job.seed)
    task = models.make(
        job.model, seed=job.seed, fold=job.fold, ranks=job.ranks, rank_batch=job.rank_batch
    )
    flat = FlatModel(task.model)
    optimizer = torch.optim.SGD([flat.weights], lr=job.rate, momentum=0.9)
    gradients = torch.empty(job.ranks, flat.weights.numel())
    names = [
        name for name, shape in flat.tensors if len(shape) > 1 and math.prod(shape) >= LEAST_VALUES
    ]
    steps = job.epochs * task.epoch_steps
    every = max(1, steps // POINTS)
    at: list[int] = []
    betas: dict[str, list[float]] = {name: [] for name in names}
    step = 0
    for epoch in range(job.epochs):
        for batches in task.batches(epoch):
            rank_gradients(flat, task.loss, batches, gradients)
            if step % every == 0:
                at.append(step)
                for (name, _), part in zip(flat.tensors, flat.split(gradients[0]), strict=True):
                    if name in betas:
                        betas[name].append(beta_of(part.flatten()))
            flat.weights.grad = gradients.mean(0)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(job.rate, step, steps)
            optimizer.step()
            step += 1
    return {"model": job.model, "steps": at, "betas": betas}


def draw(results: list[dict[str, Any]], png: Path) -> None:
    figure, axes = plt.subplots(1, len(results), figsize=(14, 5.5), layout="constrained")
    for axis, result in zip(axes, results, strict=True):
        for i, (name, betas) in enumerate(result["betas"].items()):
            style = ["-", "--", ":", "-."][i // 10 % 4]
            axis.plot(result["steps"], betas, style, color=f"C{i % 10}", lw=1.1, label=name)
        for beta, what in ((2, "normal"), (1, "Laplace")):
            axis.axhline(beta, color="0.6", lw=0.8)
            axis.annotate(what, (0, beta), fontsize=8, color="0.4")
        axis.set(title=result["model"], xlabel="step", ylabel="beta of one rank's gradient")
        axis.legend(fontsize=6, ncols=2)
    figure.savefig(png, dpi=110)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE.parent / "results" / "methods")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    results = [train(job) for job in JOBS]
    (output / "shapes.json").write_text(json.dumps(results) + "\n")
    draw(results, output / "shapes.png")
    for result in results:
        last = sorted(betas[-1] for betas in result["betas"].values())
        first = sorted(betas[0] for betas in result["betas"].values())
        print(
            f"{result['model']}: median beta {first[len(first) // 2]:.2f} at first, "
            f"{last[len(last) // 2]:.2f} at last ({last[0]:.2f} to {last[-1]:.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
