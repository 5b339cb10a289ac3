"""Drive the command line tool of the release build: sizes, round trips, speeds.

In: paths and options. Out: what the tool measured, or wrote, compared with the input.
Assumes: build/release/gradwire exists (`scripts/build.sh release gradwire_product`).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GRADWIRE = ROOT / "build" / "release" / "gradwire"


class RoundTripError(Exception):
    """A file did not come back byte for byte."""


class Speed(NamedTuple):
    """Best of several runs, in memory, one thread."""

    compress: float  # bytes a second
    decompress: float
    memcpy: float  # 64 MiB of touched memory, in the same process

    @property
    def compress_share(self) -> float:
        return self.compress / self.memcpy

    @property
    def decompress_share(self) -> float:
        return self.decompress / self.memcpy


def gradwire(*arguments: str | Path) -> str:
    """Run the tool and return its stdout; its stderr goes to ours."""
    if not GRADWIRE.is_file():
        raise SystemExit(f"{GRADWIRE.relative_to(ROOT)} is missing; `make build` makes it")
    command = [str(GRADWIRE), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def round_trip(path: Path, *options: str, keep: Path | None = None) -> int:
    """Compress a file, restore it, compare every byte; return the compressed bytes.

    options: of `gradwire compress`, such as "--level=3". keep: where the .gw file is to stay.
    """
    with tempfile.TemporaryDirectory() as folder:
        frame = keep or Path(folder) / "frame.gw"
        restored = Path(folder) / "restored"
        gradwire("compress", "-q", "-f", *options, path, "-o", frame)
        gradwire("decompress", "-q", frame, "-o", restored)
        if restored.read_bytes() != path.read_bytes():
            raise RoundTripError(f"{path.name} with {' '.join(options)}: other bytes came back")
        return frame.stat().st_size


def describe(path: Path) -> dict[str, Any]:
    """What `gradwire info --json` says about a file: sizes, zero_share, order0_bound, tensors."""
    return dict(json.loads(gradwire("info", "--json", path))["files"][0])


def speed(path: Path, level: int, runs: int, repeat_to: str = "64M") -> Speed:
    """Measure a file's tensors, repeated under new names up to a size, in one batch."""
    options = ["--json", f"--level={level}", f"--runs={runs}", f"--repeat-to={repeat_to}"]
    report = json.loads(gradwire("bench", *options, path))
    file = report["files"][0]
    return Speed(
        file["compress_bytes_per_s"],
        file["decompress_bytes_per_s"],
        report["memcpy_bytes_per_s"],
    )
