"""What a number of the project's goals is: wanted, measured, met or missed.

In: a corpus folder. Out: sections of checks as Markdown; sizes, measured once for each file and set
of options.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import command
import samples


class Check(NamedTuple):
    what: str
    wanted: str
    measured: str
    met: bool | None  # None: reported only


class Section(NamedTuple):
    title: str
    checks: list[Check]
    note: str = ""


def at_most(what: str, limit: float, measured: float, digits: int = 4) -> Check:
    return Check(what, f"<= {limit:.{digits}f}", f"{measured:.{digits}f}", measured <= limit)


def at_least(what: str, limit: float, measured: float, digits: int = 4) -> Check:
    return Check(what, f">= {limit:.{digits}f}", f"{measured:.{digits}f}", measured >= limit)


def report(what: str, measured: str, beside: str = "") -> Check:
    return Check(what, beside, measured, None)


class Corpus:
    """A folder of captured files with bounds.json, peers.json and ndzip.json beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [path.stem for path in samples.sample_files(folder)]
        self.bounds = self._figures("bounds.json")
        self.peers = self._figures("peers.json")
        self.ndzip = self._figures("ndzip.json")

    def _figures(self, name: str) -> dict[str, Any]:
        figures = json.loads((self.folder / name).read_text())
        return {file.removesuffix(".safetensors"): value for file, value in figures.items()}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def tensors(self, name: str) -> list[samples.Tensor]:
        return samples.read_tensors(self.path(name))

    def size(self, name: str, *options: str) -> int:
        """Return the bytes of the .gw file; it is restored and compared."""
        return _size(self.path(name), options)

    def fraction(self, name: str, *options: str) -> float:
        return self.size(name, *options) / self.path(name).stat().st_size

    def best_peer(self, name: str) -> tuple[str, float]:
        best = self.peers[name]["best"]
        return best, self.peers[name][best]

    def is_gradient(self, name: str) -> bool:
        return "-adam-" not in name and "-weights-" not in name


@cache
def _size(path: Path, options: tuple[str, ...]) -> int:
    return command.round_trip(path, *options)


def markdown(sections: list[Section]) -> str:
    parts = [_section_text(section) for section in sections]
    checks = [check for section in sections for check in section.checks]
    met = sum(check.met is True for check in checks)
    missed = sum(check.met is False for check in checks)
    return "\n".join([*parts, f"{met} met, {missed} missed.\n"])


def _section_text(section: Section) -> str:
    lines = [f"## {section.title}", ""]
    if section.note:
        lines += [section.note, ""]
    lines += ["| what | wanted | measured | |", "|---|--:|--:|---|"]
    marks = {True: "met", False: "**missed**", None: ""}
    for check in section.checks:
        lines.append(f"| {check.what} | {check.wanted} | {check.measured} | {marks[check.met]} |")
    return "\n".join(lines) + "\n"
