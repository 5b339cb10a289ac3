#!/usr/bin/env python3
"""The study of methods: train two models with each, and compare them with dense training.

    bench/methods/study.py [--short] [--minutes M] [--workers N] [--only LABEL]... [--seeds N]
                             [--output DIR] [--former FILE.json]...

In: the plan in plan.py. Out: DIR/methods.json (methods-short.json), and what report.py makes of it.
Assumes: PyTorch, scikit-learn, matplotlib. Runs that were made are kept in build/methods/runs.jsonl
and not made again; after M minutes (4 of the short form) no new run begins, and the report has what
there is.

Groups of former results are kept when the present code gives the same means (former.py). The full
form reads DIR/methods.json if no file is given; "none" reads none. Groups of other labels than the
given ones are left out of the tables and wait in the results.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent)]

import machine  # noqa: E402 - of bench/

DEFAULT_OUTPUT = HERE.parent / "results" / "methods"
RESULTS = "methods.json"  #: of the full form
DEFAULT_CACHE = ROOT / "build" / "methods" / "runs.jsonl"
SHORT_MINUTES = 4.0  #: for the short form, on a busy machine too
NEEDED = ("torch", "sklearn", "matplotlib")


class Study:
    """Makes runs in worker processes of one thread each, until a time."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from methods import plan
        from methods.cache import Cache
        from methods.former import Former

        self.form = plan.SHORT if arguments.short else plan.FULL
        self._seeds = arguments.seeds
        self.entries = plan.entries(self.form, arguments.only)
        self.cache = Cache(arguments.cache)
        self.former = Former(former_paths(arguments))
        self._imprints: dict[Any, str | None] = {}  # by base job
        self.about = machine.provenance()
        minutes = arguments.minutes
        if minutes is None:
            minutes = SHORT_MINUTES if arguments.short else math.inf
        self._end = time.monotonic() + 60 * minutes
        self._workers = arguments.workers

    def bases(self) -> Iterator[tuple[Any, Any]]:
        """Yield an entry with what its runs share, for each of its models."""
        from methods import plan

        for entry in self.entries:
            for model in entry.models:
                yield entry, plan.base_job(entry, model, self.form)

    def run(self) -> None:
        with ProcessPoolExecutor(
            self._workers, multiprocessing.get_context("spawn"), _prepare_worker
        ) as pool:
            self._decide_former(pool)
            if self.form.tunes:
                self._tune(pool)
            while not self._has_all(jobs := self._counted()) and self._make(pool, jobs):
                pass  # again, for a run that diverged changes its method's rate

    def record(self, job: Any) -> dict[str, Any] | None:
        return self.former.kept(job).records.get(job) or self.cache.get(job)

    def losses(self, base: Any) -> dict[float, float]:
        """Tuning losses of the rates that have been tried, beginning with the first three."""
        from methods import plan

        known = dict(self.former.kept(base).tried)
        while jobs := plan.tuning_jobs(base, known):
            found = {job.rate: _loss_of(self.cache.get(job)) for job in jobs}
            known |= {rate: loss for rate, loss in found.items() if loss is not None}
            if None in found.values():
                break
        return known

    def rate(self, base: Any) -> float | None:
        """The best rate at which no counted run has diverged, or None before it is known."""
        from methods import plan

        if not self.form.tunes:
            return float(base.rate)
        known = self.losses(base)
        if plan.tuning_jobs(base, known):
            return None
        stable = {rate: loss for rate, loss in known.items() if not self._diverges(base, rate)}
        return plan.best_rate(stable or known)

    def _diverges(self, base: Any, rate: float) -> bool:
        from methods import plan

        records = map(self.record, plan.counted_jobs(base, rate, self.form))
        return any(record.get("diverged", False) for record in records if record is not None)

    def _has_all(self, jobs: list[Any]) -> bool:
        return all(self.record(job) is not None for job in jobs)

    def _decide_former(self, pool: ProcessPoolExecutor) -> None:
        """Find out which groups of former results the present code gives as well."""
        bases = list(self.bases())
        imprints = list(pool.map(_imprint, [base for _, base in bases]))
        for (entry, base), imprint in zip(bases, imprints, strict=True):
            self._imprints[base] = imprint
            self.former.decide(base, entry.label, imprint)

    def _tune(self, pool: ProcessPoolExecutor) -> None:
        from methods import plan

        while True:
            jobs = [
                job for _, base in self.bases() for job in plan.tuning_jobs(base, self.losses(base))
            ]
            if not jobs or not self._make(pool, jobs):
                return

    def _counted(self) -> list[Any]:
        """All methods of a seed before the next seed: what there is at the end can be paired."""
        from methods import plan

        jobs = [
            job
            for _, base in self.bases()
            if (rate := self.rate(base)) is not None
            for job in plan.counted_jobs(base, rate, self.form)
            if self._seeds is None or job.seed < self._seeds
        ]
        return sorted(jobs, key=lambda job: (job.seed, job.fold))

    def _make(self, pool: ProcessPoolExecutor, jobs: list[Any]) -> bool:
        """Make the runs that are missing; false when the time was up."""
        waiting = [job for job in dict.fromkeys(jobs) if self.record(job) is None]
        count, waiting = len(waiting), waiting[::-1]
        running: dict[Future[dict[str, Any]], Any] = {}
        while running or (waiting and time.monotonic() < self._end):
            while waiting and len(running) < self._workers and time.monotonic() < self._end:
                job = waiting.pop()
                running[pool.submit(_run, job)] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                self.cache.add(job, future.result(), self.about["revision"])
                left = len(waiting) + len(running)
                print(f"{count - left}/{count} {_line(job, future.result())}", flush=True)
        return not waiting

    def results(self) -> dict[str, Any]:
        """What report.py reads: of each method and model, the rates tried and the counted runs."""
        from methods import cache, plan

        groups = []
        for entry, base in self.bases():
            rate = self.rate(base)
            jobs = [] if rate is None else plan.counted_jobs(base, rate, self.form)
            records = [record for job in jobs if (record := self.record(job))]
            kept = self.former.kept(base)
            groups.append(
                {
                    "label": entry.label,
                    "model": base.model,
                    "method": base.method,
                    "compared": [getattr(base, name) for name in plan.COMPARED],
                    "rate": rate,
                    "tried": {f"{k:g}": _number(v) for k, v in sorted(self.losses(base).items())},
                    "wanted": self.form.seeds[base.model] * self.form.folds[base.model],
                    "runs": records,
                    "imprint": self._imprints[base],
                    "kept": len(kept.records),
                    "machines": kept.machines,
                }
            )
        return {
            **self.about,
            "versions": cache.versions(),
            "is_short": self.form.is_short,
            "groups": groups,
            "waiting": self.former.waiting(),
        }


def _prepare_worker() -> None:
    import torch

    torch.set_num_threads(1)


def _imprint(base: Any) -> str | None:
    """None of a method that cannot be made, too."""
    from gradwire import GradwireError
    from methods import imprint

    try:
        return imprint.imprint_of(base)
    except (ValueError, RuntimeError, GradwireError):
        return None


def _run(job: Any) -> dict[str, Any]:
    """A run, or the error that ended it: a method that cannot be made is a result, too."""
    from gradwire import GradwireError
    from methods import train

    try:
        return train.run(job)
    except (ValueError, RuntimeError, GradwireError) as error:
        return {"error": str(error)}


def _loss_of(record: dict[str, Any] | None) -> float | None:
    """Infinite for a run that failed or diverged, None for none."""
    if record is None:
        return None
    if "error" in record or record["diverged"]:
        return math.inf
    return float(record["test"]["loss"])


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _line(job: Any, result: dict[str, Any]) -> str:
    where = f"{job.model} {job.method} rate {job.rate:g} seed {job.seed} fold {job.fold}"
    if "error" in result:
        return f"{where}: {result['error']}"
    ending = ", diverged" if result["diverged"] else ""
    return f"{where}: {result['test']}{ending}, {result['seconds']} s"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="few and short runs, no tuning")
    parser.add_argument(
        "--minutes", type=float, help="after which no new run begins; 0: report only"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", action="append", metavar="LABEL", help="and dense; repeat it")
    parser.add_argument("--seeds", type=int, help="runs of the first seeds only")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument(
        "--former", action="append", metavar="FILE.json", help="earlier results, or none; repeat it"
    )
    return parser.parse_args()


def former_paths(arguments: argparse.Namespace) -> list[Path]:
    """Files of earlier results; by default the one that the full form will write over."""
    if arguments.former is not None:
        return [Path(name) for name in arguments.former if name != "none"]
    present = arguments.output / RESULTS
    return [present] if present.is_file() and not arguments.short else []


def main() -> int:
    arguments = parse_arguments()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"The study of methods is left out: {missing[0]} is not installed.")
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers
    study = Study(arguments)
    study.run()
    name = "methods-short.json" if arguments.short else RESULTS
    path = arguments.output / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(study.results()) + "\n")
    from methods import report

    report.write(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
