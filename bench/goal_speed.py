"""Checks of speed and memory, from what bench/run.py measured.

In: its JSON file. Out: sections, for bf16 files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checking import Check, Section, at_least, at_most

# Portable code, one core: level -> least share of memcpy to compress and to restore.
SPEED_GOALS = {"1": (0.06, 0.15), "2": (0.06, 0.15), "3": (0.02, 0.03)}
EXTRA_MIB = 16


def speeds(results: Path) -> list[Section]:
    files: dict[str, Any] = json.loads(results.read_text())["files"]
    sections = [_level(files, level, *goal) for level, goal in SPEED_GOALS.items()]
    return [*sections, _memory(files)]


def _level(files: dict[str, Any], level: str, compress: float, decompress: float) -> Section:
    checks: list[Check] = []
    for name, row in files.items():
        if row["dtype"] == "bf16":
            figures = row["levels"][level]
            checks += [
                at_least(f"{name}, compress", compress, figures["compress_of_memcpy"], 3),
                at_least(f"{name}, restore", decompress, figures["decompress_of_memcpy"], 3),
            ]
    return Section(f"Speed at level {level}, share of memcpy, bf16", checks)


def _memory(files: dict[str, Any]) -> Section:
    checks = []
    for way in ("compress", "decompress"):
        worst, name, level = max(
            (figures[f"{way}_extra_bytes"], name, level)
            for name, row in files.items()
            for level, figures in row["levels"].items()
        )
        what = f"{way}: worst of all files and levels ({name}, level {level}), MiB"
        checks.append(at_most(what, EXTRA_MIB, worst / 2**20, 1))
    return Section("Memory beyond input + output", checks)
