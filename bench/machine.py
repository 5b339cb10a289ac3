"""What a result must say about where it comes from.

In: the command line. Out: machine, load, revision, command, as JSON-ready values.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def provenance() -> dict[str, Any]:
    """Return the command, git revision, machine and load average of now."""
    return {
        "command": command_line(),
        "revision": revision(),
        "machine": machine(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def command_line() -> str:
    """Return how this was called, with names instead of absolute paths."""
    words = [
        str(Path(word).relative_to(ROOT)) if Path(word).is_relative_to(ROOT) else word
        for word in sys.argv
    ]
    return shlex.join(Path(word).name if word.startswith("/") else word for word in words)


def revision() -> str:
    """Return the commit, with "+" when sources differ from it; "unknown" outside of git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "include", "cli", "CMakeLists.txt")
    return (commit or "unknown") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    flags = _cpu_field("flags").split()
    return {
        "cpu": _cpu_field("model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "avx": sorted(flag for flag in flags if flag.startswith(("avx", "bmi", "gfni"))),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _cpu_field(name: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def markdown(about: dict[str, Any]) -> str:
    """The same as lines above a table."""
    where = about["machine"]
    load = " ".join(f"{value:.2f}" for value in about["load_average"])
    return (
        f"Command: `{about['command']}`, revision {about['revision']}.  \n"
        f"Machine: {where['cpu']}, {where['cores']} cores, {where['system']}; "
        f"{' '.join(where['avx']) or 'no AVX'}; load average {load}.\n"
    )
