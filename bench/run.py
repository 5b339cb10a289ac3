"""Sizes, speeds and memory over a folder of .safetensors files.

    bench/run.py --corpus DIR [--iterations N] [--sizes-only | --speed-only] [--output DIR]

Sizes: whole file to .gw file, all headers counted, levels 1 to 3, each restored and compared; H0 by
the library; zstd-3 on byte planes; and, where DIR holds peers.json, ndzip.json or bounds.json,
those. Speeds: a file's tensors repeated under new names to 64 MiB in one batch, one thread, best of
N, beside memcpy of 64 MiB of touched memory in the same process. Memory: bench/memory.py.
Writes NAME-sizes.{json,md} and NAME-speed.{json,md}, NAME being the folder's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import command  # noqa: E402 - of tools/
import machine  # noqa: E402
import memory  # noqa: E402
import peers  # noqa: E402 - of tools/
import samples  # noqa: E402 - of tools/
from tables import markdown_table  # noqa: E402 - of tools/

LEVELS = (1, 2, 3)
SIZES_HEADING = [
    *("file", "bytes", "dtype", "zeros", "H0", "level 1", "level 2", "level 3"),
    *("zstd-3 planes", "best peer", "ndzip"),
]
SPEED_HEADING = [
    *("file", "dtype", "level", "compress GB/s", "of memcpy", "restore GB/s", "of memcpy"),
    *("compress + MiB", "restore + MiB"),
]


def given(corpus: Path, name: str) -> dict[str, Any]:
    """Read figures that lie in the corpus folder, by file name; none if they do not."""
    path = corpus / name
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def best_peer(figures: dict[str, Any]) -> dict[str, Any] | None:
    """The smallest of the peers in an entry of peers.json."""
    known = {name: value for name, value in figures.items() if isinstance(value, float)}
    if not known:
        return None
    name = min(known, key=lambda peer: known[peer])
    return {"name": name, "fraction": known[name]}


def size_row(path: Path, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    tensors = samples.read_tensors(path)
    about = command.describe(path)
    raw_bytes = path.stat().st_size
    data_bytes = sum(tensor.bits.nbytes for tensor in tensors)
    sizes = {level: command.round_trip(path, f"--level={level}") for level in LEVELS}
    zstd = peers.smallest_size(peers.zstd_planes(3), tensors)
    assert zstd is not None
    return {
        "sha256": samples.sha256_of(path),
        "bytes": raw_bytes,
        "data_bytes": data_bytes,
        "dtype": samples.dtypes_of(tensors),
        "zero_share": about["zero_share"],
        "order0_bound": about["order0_bound"],
        "sizes": {
            str(level): {"bytes": size, "fraction": size / raw_bytes}
            for level, size in sizes.items()
        },
        "zstd3_planes": zstd / data_bytes,
        "best_peer": best_peer(known["peers"].get(path.name, {})),
        "ndzip": known["ndzip"].get(path.name),
        "bounds": known["bounds"].get(path.name),
    }


def speed_row(path: Path, iterations: int) -> dict[str, Any]:
    levels = {}
    for level in LEVELS:
        speed = command.speed(path, level, iterations)
        levels[str(level)] = {
            "compress_bytes_per_s": speed.compress,
            "compress_of_memcpy": speed.compress_share,
            "decompress_bytes_per_s": speed.decompress,
            "decompress_of_memcpy": speed.decompress_share,
            "memcpy_bytes_per_s": speed.memcpy,
            **memory.extra_memory(path, level),
        }
    dtype = samples.dtypes_of(samples.read_tensors(path))
    return {"sha256": samples.sha256_of(path), "dtype": dtype, "levels": levels}


def size_cells(name: str, row: dict[str, Any]) -> list[str]:
    peer = row["best_peer"]
    return [
        name,
        f"{row['bytes']:,}",
        row["dtype"],
        f"{row['zero_share']:.3f}",
        f"{row['order0_bound']:.4f}",
        *(f"{row['sizes'][str(level)]['fraction']:.4f}" for level in LEVELS),
        f"{row['zstd3_planes']:.4f}",
        f"{peer['fraction']:.4f} {peer['name']}" if peer else "",
        f"{row['ndzip']:.4f}" if row["ndzip"] else "",
    ]


def speed_cells(name: str, row: dict[str, Any]) -> list[list[str]]:
    lines = []
    for level, figures in row["levels"].items():
        cells = [name, row["dtype"], level]
        for way in ("compress", "decompress"):
            cells += [
                f"{figures[f'{way}_bytes_per_s'] / 1e9:.3f}",
                f"{figures[f'{way}_of_memcpy']:.3f}",
            ]
        cells += [
            f"{figures[f'{way}_extra_bytes'] / 2**20:.1f}" for way in ("compress", "decompress")
        ]
        lines.append(cells)
    return lines


def write(stem: Path, results: dict[str, Any], heading: list[str], rows: list[list[str]]) -> None:
    """Write STEM.json and STEM.md, and print the table."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    text = machine.markdown(results) + "\n" + markdown_table(heading, rows)
    stem.with_suffix(".md").write_text(text)
    print(text)


def measure_sizes(files: list[Path], stem: Path) -> None:
    about = machine.provenance()
    known = {name: given(files[0].parent, f"{name}.json") for name in ("peers", "ndzip", "bounds")}
    rows = {}
    for path in files:
        print(f"sizes: {path.name}", file=sys.stderr, flush=True)
        rows[path.stem] = size_row(path, known)
    cells = [size_cells(name, row) for name, row in rows.items()]
    write(stem, about | {"files": rows}, SIZES_HEADING, cells)


def measure_speeds(files: list[Path], stem: Path, iterations: int) -> None:
    about = machine.provenance() | {"iterations": iterations}
    rows = {}
    for path in files:
        print(f"speed: {path.name}", file=sys.stderr, flush=True)
        rows[path.stem] = speed_row(path, iterations)
    cells = [line for name, row in rows.items() for line in speed_cells(name, row)]
    write(stem, about | {"files": rows}, SPEED_HEADING, cells)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=ROOT / "tests" / "data")
    parser.add_argument("--iterations", type=int, default=5, help="runs, of which the best counts")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--sizes-only", action="store_true")
    parts.add_argument("--speed-only", action="store_true")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    files = samples.sample_files(arguments.corpus)
    name = arguments.corpus.resolve().name
    if not arguments.speed_only:
        measure_sizes(files, arguments.output / f"{name}-sizes")
    if not arguments.sizes_only:
        measure_speeds(files, arguments.output / f"{name}-speed", arguments.iterations)


if __name__ == "__main__":
    main()
