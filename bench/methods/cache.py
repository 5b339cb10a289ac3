"""Runs that have been made, one a line of JSON, so that a study can go on where it stopped.

In: a file, jobs. Out: their records. Assumes: one process writes. A record's key is of the job, of
the versions of Python, PyTorch and scikit-learn, and of the contents of all sources that its result
depends on: those of this folder, and for methods of gradwire those of the library as well. So a
commit that changes none of them keeps the records, and a change that is not committed does not.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from methods.train import REFERENCE, Job

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
_RUN_SOURCES = ("models.py", "ranks.py", "reference_dgc.py", "train.py")
_LIBRARY_SOURCES = ("src", "include", "python/bindings")

Record = dict[str, Any]


def key_of(job: Job) -> str:
    code = _code_hash(_uses_library(job.method))
    text = json.dumps([asdict(job), code, list(versions().values())], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _uses_library(method: str) -> bool:
    return method != "dense" and not method.startswith(REFERENCE)


@functools.cache
def versions() -> dict[str, str]:
    """Of what computes and of where the data come from."""
    packages = {name: importlib.metadata.version(name) for name in ("torch", "scikit-learn")}
    return {"python": platform.python_version(), **packages}


@functools.cache
def _code_hash(with_library: bool) -> str:
    files = [HERE / name for name in _RUN_SOURCES]
    if with_library:
        files += sorted(
            path
            for folder in _LIBRARY_SOURCES
            for path in (ROOT / folder).rglob("*")
            if path.is_file()
        )
    return _hash_of(files)


def _hash_of(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.relative_to(ROOT)}\n".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


class Cache:
    """Records by key, in memory and in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[str, Record] = {}
        if path.is_file():
            for line in path.read_text().splitlines():
                self._read(line)

    def get(self, job: Job) -> Record | None:
        return self._records.get(key_of(job))

    def add(self, job: Job, result: Record, revision: str) -> None:
        record = {"key": key_of(job), "revision": revision, "job": asdict(job), **result}
        self._records[record["key"]] = record
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def _read(self, line: str) -> None:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # of a study that was stopped while it wrote
            return
        self._records[record["key"]] = record
