#!/usr/bin/env python3
"""Training over slow links: gradwire beside plain DDP and PyTorch's own hooks.

    bench/training/run.py [--quick] [--output DIR] [--only NAME]

In: nothing; needs root for network namespaces and skips shaped links, with a message, where it
cannot make them. Out: DIR/training.json, one entry a run;
those that --only leaves out stay in it. Assumes: two cores, nothing else running;
ranks have one each. report.py makes tables and the plot of it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))
import links  # noqa: E402
import machine  # noqa: E402

HALF = "fp16_compress_hook"
BASELINES = ["no hook", HALF, "powerSGD rank 2"]
HOOKS = ["no hook", "allreduce_hook", "none"]  #: of one plain all-reduce a bucket
TWO_SHOT, GATHER = "lossless two_shot", "lossless gather_merge"
#: To glibc: what has been freed is not kept, so that the peak of memory is of what is in use.
_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def job(name: str, rate: str | None, contenders: list[str], **changes: Any) -> dict[str, Any]:
    """A run; by default of the GPT in float32 with real compute on 2 ranks."""
    return {
        "name": name,
        "rate": rate,
        "ranks": 2,
        "model": "gpt",
        "numbers": "f32",
        "batch": 2,
        "lr": 0.01,
        "compute_ms": None,
        "groups": 8,
        "warmup": 3,
        "steps": 8,
        "contenders": contenders,
        **changes,
    }


def accelerated(
    name: str, rate: str | None, numbers: str, contenders: list[str], **changes: Any
) -> dict[str, Any]:
    """A run in accelerator mode: CPUs without bfloat16 need seconds for a step of it."""
    return job(name, rate, contenders, **{"numbers": numbers, "compute_ms": 20.0, **changes})


def jobs() -> list[dict[str, Any]]:
    slow, quick = "100mbit", "1gbit"
    resnet = {"model": "resnet18", "warmup": 2, "steps": 4}
    ours = ["lossless", "lossless(level=1)"]
    auto = [*ours, "auto"]
    stored = "lossless(coder=stored) two_shot"
    ranks = ["no hook", TWO_SHOT, GATHER]
    memory = {"model": "resnet18", "steps": 4, "compute_ms": 0.0}
    return [
        job("gpt f32", slow, [*BASELINES, *auto]),
        job("gpt f32", None, [*HOOKS, *auto]),
        job("overhead resnet18", None, [*HOOKS, "auto"], model="resnet18", steps=20),
        accelerated("overhead", None, "f32", [*HOOKS, "auto"], compute_ms=0.0, steps=60),
        job("resnet18 f32", slow, ["no hook", HALF, "lossless"], **resnet),
        accelerated("gpt amp", slow, "amp", ["no hook", HALF, "bf16", "lossless", "auto"]),
        accelerated("gpt amp both exchanges", slow, "amp", [TWO_SHOT, GATHER], steps=4),
        accelerated("gpt bf16", slow, "bf16", ["no hook", *auto], steps=10),
        accelerated("gpt bf16", quick, "bf16", ["no hook", *auto, HALF, "none"], steps=30),
        accelerated("gpt amp", quick, "amp", ["no hook", *ours, TWO_SHOT, HALF, "auto"], steps=30),
        accelerated("gpt bf16", None, "bf16", ["no hook", "none", *auto], steps=30),
        accelerated("resnet18 amp", slow, "amp", ["no hook", HALF, "lossless", TWO_SHOT], **resnet),
        accelerated("transport", slow, "f32", ["none", stored], compute_ms=0.0),
        accelerated("gpt amp 3 ranks", slow, "amp", ranks, ranks=3, steps=4),
        accelerated("gpt amp 4 ranks", slow, "amp", ranks, ranks=4, steps=4),
        *(
            accelerated(f"memory, {name}", None, "f32", [name], **memory)
            for name in ("no hook", TWO_SHOT, GATHER)
        ),
    ]


def run(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a job on its link; returns what its contenders took, by rank 0."""
    with links.link(wanted["ranks"], wanted["rate"]) as seats:
        port = _free_port()
        started = [_start(wanted, rank, seat, seats[0], port) for rank, seat in enumerate(seats)]
        try:
            outputs = [process.communicate(timeout=3600)[0] for process in started]
        finally:
            for process in started:
                process.kill()
    if any(process.returncode for process in started):
        raise RuntimeError(f"{wanted['name']}: a rank has failed; see above")
    result: list[dict[str, Any]] = json.loads(outputs[0].strip().splitlines()[-1])
    return result


def _start(
    wanted: dict[str, Any], rank: int, seat: links.Seat, first: links.Seat, port: int
) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(wanted["ranks"]),
        "MASTER_ADDR": first.address,
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": seat.interface,
        "OMP_NUM_THREADS": "1",
        **(_GIVE_BACK if wanted["name"].startswith("memory") else {}),
    }
    cores = os.cpu_count() or 1
    command = [
        *seat.prefix,
        "taskset",
        "-c",
        str(rank % cores),
        sys.executable,
        str(HERE / "worker.py"),
        json.dumps(wanted),
    ]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, default=HERE.parent / "results/training")
    parser.add_argument("--only", default="", help="jobs whose name and rate contain this")
    parser.add_argument("--quick", action="store_true", help="few steps, to see that it runs")
    arguments = parser.parse_args()
    results = []
    for wanted in jobs():
        title = f"{wanted['name']} at {wanted['rate'] or 'loopback'}"
        if arguments.only not in title:
            continue
        if wanted["rate"] and not links.is_possible():
            print(f"{title}: skipped, shaped links need root and network namespaces")
            continue
        if arguments.quick:
            wanted.update(steps=2, warmup=1)
        start = time.monotonic()
        contenders = run(wanted)
        results.append({**wanted, "contenders": contenders})
        _print(title, contenders, time.monotonic() - start)
        _save(arguments.output, results)


def _print(title: str, contenders: list[dict[str, Any]], seconds: float) -> None:
    print(f"{title} ({seconds:.0f} s)")
    for entry in contenders:
        step = entry["step_ms"]
        print(
            f"  {entry['name']:34} {step['median']:8.1f} ms ({step['p10']:.1f} to "
            f"{step['p90']:.1f}), CPU {entry['cpu_ms']:.1f} ms, "
            f"wire {entry['wire_bytes'] / entry['gradient_bytes']:.4f}"
            + (f", chose {entry['chosen']['spec']}" if "chosen" in entry else ""),
            flush=True,
        )


def _save(folder: pathlib.Path, results: list[dict[str, Any]]) -> None:
    """Runs that were not made now stay as they are in the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "training.json"
    old = json.loads(path.read_text())["runs"] if path.exists() else []
    made = {(run["name"], run["rate"]) for run in results}
    kept = [run for run in old if (run["name"], run["rate"]) not in made]
    text = json.dumps({**machine.provenance(), "runs": [*kept, *results]}, indent=1)
    path.write_text(text + "\n")


if __name__ == "__main__":
    main()
