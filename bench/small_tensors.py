"""Size fraction against the size of a tensor, by kind of code table.

    bench/small_tensors.py FILES... [--level N] [--output FILE.json]

Cuts the large tensors of .safetensors files into pieces of 0.5 KiB to 1 MiB along their rows and
compresses each as a tensor of its own: dynamic, static, hybrid tables, single symbols and pairs.
Give it files on which the static tables were not trained (the list stands in static_family.inc).
Prints a table; `tools/plots.py curves` draws the JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import gradwire  # noqa: E402
import machine  # noqa: E402
import samples  # noqa: E402 - of tools/

SIZES = [512 << i for i in range(12)]  # 0.5 KiB to 1 MiB
LEAST_BYTES = 512 << 10  # only tensors from here on are cut, so that all sizes show the same data
BUDGET_BYTES = 2 << 20  # pieces of a size and file are spread over it up to so many bytes,
MOST_PIECES = 256  # and so many pieces
KINDS = {
    f"{tables}, {'pairs' if pairs == 'true' else 'single'}": f"tables={tables},pairs={pairs}"
    for tables in ("dynamic", "static", "hybrid")
    for pairs in ("false", "true")
}


def pieces(tensors: list[samples.Tensor], size: int) -> list[tuple[str, NDArray[Any]]]:
    """Return (dtype, values) of about `size` bytes: whole rows, or parts of one row."""
    found = []
    for tensor in tensors:
        rows = tensor.bits.reshape(tensor.shape[0] if len(tensor.shape) > 1 else 1, -1)
        if rows.nbytes < max(size, LEAST_BYTES):
            continue
        lines = rows if rows[0].nbytes <= size else rows.reshape(-1)
        step = size // lines[0].nbytes
        starts = range(0, len(lines) - step + 1, step)
        found += [(tensor.dtype, lines[i : i + step]) for i in starts]
    wanted = min(MOST_PIECES, max(1, BUDGET_BYTES // size))
    return found[:: math.ceil(len(found) / wanted)] if found else []


def mean_fraction(parts: list[tuple[str, NDArray[Any]]], options: str) -> float:
    compressed = sum(
        len(gradwire.compress(bits, dtype=dtype.lower(), method=f"lossless({options})"))
        for dtype, bits in parts
    )
    return compressed / sum(bits.nbytes for _, bits in parts)


def curves(files: list[Path], level: int) -> dict[str, dict[str, float]]:
    tensors = [samples.read_tensors(path) for path in files]
    parts = {size: [part for file in tensors for part in pieces(file, size)] for size in SIZES}
    return {
        kind: {
            str(size): mean_fraction(parts[size], f"level={level},coder=huffman,{options}")
            for size in SIZES
            if parts[size]
        }
        for kind, options in KINDS.items()
    }


def table(found: dict[str, dict[str, float]]) -> str:
    sizes = next(iter(found.values()))
    lines = ["| bytes | " + " | ".join(found) + " |", "|--:" * (len(found) + 1) + "|"]
    for size in sizes:
        cells = [f"{points[size]:.4f}" for points in found.values()]
        lines.append(f"| {int(size):,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results = machine.provenance() | {
        "level": arguments.level,
        "files": {path.stem: samples.sha256_of(path) for path in arguments.files},
        "curves": curves(arguments.files, arguments.level),
    }
    text = machine.markdown(results) + "\n" + table(results["curves"])
    print(text)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
        arguments.output.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
