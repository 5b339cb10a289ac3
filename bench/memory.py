"""Peak memory of the command line tool beyond its input and output.

In: a .safetensors file. Out: bytes by direction. The file's tensors are repeated to 64 MiB, so that
what the program itself takes does not hide what the codec takes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import command
import samples

REPEATED_BYTES = 64 << 20

# A process counts the memory of the one that started it until it becomes another program; so a
# small interpreter starts the tool, not this one.
WATCHER = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_bytes(*arguments: str | Path) -> int:
    """Return the resident memory that a run of the tool has at its peak."""
    start = [sys.executable, "-I", "-S", "-c", WATCHER, str(command.GRADWIRE)]
    done = subprocess.run(
        [*start, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(done.stdout.split()[-1])


def extra_memory(path: Path, level: int) -> dict[str, Any]:
    """Return what compress and decompress take at most beyond input + output, in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        source, frame, restored = (Path(folder) / name for name in ("in.safetensors", "gw", "out"))
        samples.write_repeated(path, source, REPEATED_BYTES)
        compress = peak_bytes("compress", "-q", f"--level={level}", source, "-o", frame)
        decompress = peak_bytes("decompress", "-q", frame, "-o", restored)
        if source.read_bytes() != restored.read_bytes():
            raise command.RoundTripError(f"{path.name}, repeated: other bytes came back")
        both = source.stat().st_size + frame.stat().st_size
        return {
            "compress_peak_bytes": compress,
            "decompress_peak_bytes": decompress,
            "compress_extra_bytes": max(0, compress - both),
            "decompress_extra_bytes": max(0, decompress - both),
        }
