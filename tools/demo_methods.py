"""Train the study's convolutional net with five lossy methods; print accuracy against bytes.

    tools/demo_methods.py

In: bench/methods. Out: a table. Assumes: PyTorch and scikit-learn, or it says that it does nothing.
Four logical ranks in one process send their gradients by gradwire's own exchanges. One short run
each, all at one learning rate: bench/methods compares methods, this only shows them. Exits with 1
if a run fails.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tables import table

ROOT = Path(__file__).resolve().parent.parent
METHODS = (
    "dense",
    "dgc(keep=0.001)",
    "topk(keep=0.01,values=f16)",
    "qsgd",
    "thc",
    "powersgd(matrix_rank=4)",
)
EPOCHS = 10
RATE = 0.05
WARMUP_EPOCHS = 3  #: of dgc, as its authors have it


def _run(method: str) -> dict[str, Any]:
    import torch

    sys.path.insert(0, str(ROOT / "bench"))
    from methods import train

    torch.set_num_threads(1)
    warmup = train.exponential_warmup(0.001, WARMUP_EPOCHS) if method.startswith("dgc") else ()
    job = train.Job("digits", method, rate=RATE, seed=0, epochs=EPOCHS, warmup=warmup)
    return train.run(job)


def _cells(method: str, result: dict[str, Any], dense_bytes: float) -> list[str]:
    ways = result["after"]
    sent = (ways["up_bytes"] + ways["down_bytes"]) / ways["steps"]
    return [
        method,
        f"{sent:,.0f}",
        f"{sent / dense_bytes:.4f}",
        f"{100 * result['test']['accuracy']:.2f}",
        f"{result['test']['loss']:.4f}",
    ]


def main() -> int:
    missing = [name for name in ("torch", "sklearn") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"\nThe lossy methods are left out: {missing[0]} is not installed.")
        return 0
    print("\nTraining the digits with five lossy methods, 4 logical ranks; half a minute or so.")
    sys.stdout.flush()
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), context) as pool:
        results = list(pool.map(_run, METHODS))
    first = results[0]["after"]
    dense_bytes = (first["up_bytes"] + first["down_bytes"]) / first["steps"]
    print(
        f"\n{EPOCHS} epochs, one run each at one rate. Bytes are what a rank sends a step after the"
    )
    print("warm-up, headers included, each once for every receiver.\n")
    heading = ["method", "bytes a step", "fraction", "accuracy %", "test loss"]
    rows = [_cells(*pair, dense_bytes) for pair in zip(METHODS, results, strict=True)]
    print(table(heading, rows))
    return int(any(result["diverged"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
