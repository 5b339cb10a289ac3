"""What tests of the command line tool share: running it, and small source files."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TOOL = Path(os.environ.get("GRADWIRE_CLI", ROOT / "build" / "release" / "gradwire"))
SAMPLES = sorted((ROOT / "tests" / "data").glob("*.safetensors"))


def run(
    *arguments: object, stdin: bytes = b"", code: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """Run the tool and compare its exit code; only errors write to stderr."""
    done = subprocess.run(
        [TOOL, *map(str, arguments)], input=stdin, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr.decode(errors="replace")
    assert bool(done.stderr) == (code != 0), done.stderr
    assert all(line.startswith(b"gradwire: ") for line in done.stderr.splitlines())
    return done


def safetensors(entries: dict[str, object], data: bytes, padding: bytes = b"") -> bytes:
    text = json.dumps(entries).encode() + padding
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str, shape: Sequence[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version, allow_pickle=True)
    return out.getvalue()


def bf16_bytes(count: int, seed: int = 1) -> bytes:
    values = np.random.default_rng(seed).standard_normal(count).astype("<f4")
    return (values.view("<u4") >> 16).astype("<u2").tobytes()


def check_round_trip(path: Path, *options: object) -> int:
    """Compress and restore the file beside itself; returns the compressed size."""
    source = path.read_bytes()
    packed = path.with_name(path.name + ".gw")
    restored = path.with_name("restored" + path.suffix)
    run("compress", path, "-f", *options)
    run("verify", packed)
    run("decompress", packed, "-f", "-o", restored)
    assert restored.read_bytes() == source
    return packed.stat().st_size


def info(path: Path, *options: str) -> dict:
    (report,) = json.loads(run("info", "--json", path, *options).stdout)["files"]
    return report
