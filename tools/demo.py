"""Compress, restore and compare the sample of real gradients, train with them; print both.

    tools/demo.py [FOLDER]

FOLDER holds .safetensors files; tests/data if left out. They go through the command line tool,
build/release/gradwire; demo_training.py then trains two models, and demo_methods.py one with five
lossy methods. The compressed files and two charts are left in demo-output/. Exits with 1 if a byte
or a loss differs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import command
import demo_methods
import demo_training
import peers
import plots
import samples
from tables import table

OUTPUT = command.ROOT / "demo-output"
LEVELS = (2, 3)
SPEED_RUNS = 2
SPEED_BYTES = "16M"


class Row(NamedTuple):
    """What the demo found out about a file."""

    name: str
    dtype: str
    zeros: float
    raw_bytes: int
    level_bytes: dict[int, int]
    order0_bound: float
    peer_fractions: dict[str, float]
    speeds: dict[int, command.Speed]

    def fraction(self, level: int) -> float:
        return self.level_bytes[level] / self.raw_bytes

    def best_peer(self) -> tuple[str, float]:
        name = min(self.peer_fractions, key=lambda peer: self.peer_fractions[peer])
        return name, self.peer_fractions[name]


def measure(path: Path, size_functions: dict[str, peers.SizeOf]) -> Row:
    """Compress and restore a file at each level; raises RoundTripError if a byte differs."""
    raw_bytes = path.stat().st_size
    tensors = samples.read_tensors(path)
    about = command.describe(path)
    kept = {level: OUTPUT / f"{path.name}.level{level}.gw" for level in LEVELS}
    sizes = {
        level: command.round_trip(path, f"--level={level}", keep=kept[level]) for level in LEVELS
    }
    values = peers.peer_sizes(size_functions, tensors)
    data_bytes = sum(tensor.bits.nbytes for tensor in tensors)
    return Row(
        path.stem,
        samples.dtypes_of(tensors),
        about["zero_share"],
        raw_bytes,
        sizes,
        about["order0_bound"],
        {name: size / data_bytes for name, size in values.items()},
        {level: command.speed(path, level, SPEED_RUNS, SPEED_BYTES) for level in LEVELS},
    )


def size_table(rows: list[Row]) -> str:
    heading = ["file", "dtype", "zeros", "bytes", "level 2", "level 3"]
    heading += ["fraction 2", "fraction 3", "H0", "zstd-3", "best peer", ""]
    return table(heading, [_size_cells(row) for row in rows])


def _size_cells(row: Row) -> list[str]:
    peer, fraction = row.best_peer() if row.peer_fractions else ("none installed", float("nan"))
    zstd = row.peer_fractions.get("zstd-3 planes", float("nan"))
    cells = [row.name, row.dtype, f"{row.zeros:.3f}", f"{row.raw_bytes:,}"]
    cells += [f"{row.level_bytes[level]:,}" for level in LEVELS]
    cells += [f"{row.fraction(level):.4f}" for level in LEVELS]
    return [*cells, f"{row.order0_bound:.4f}", f"{zstd:.4f}", f"{fraction:.4f}", peer]


def speed_table(rows: list[Row]) -> str:
    heading = ["file"]
    for level in LEVELS:
        heading += [f"compress {level}", "of memcpy", f"restore {level}", "of memcpy"]
    return table(heading, [_speed_cells(row) for row in rows])


def _speed_cells(row: Row) -> list[str]:
    cells = [row.name]
    for level in LEVELS:
        speed = row.speeds[level]
        cells += [f"{speed.compress / 1e9:.3f}", f"{speed.compress_share:.1%}"]
        cells += [f"{speed.decompress / 1e9:.3f}", f"{speed.decompress_share:.1%}"]
    return cells


def bars(row: Row) -> plots.FileBars:
    fractions = {}
    if "zstd-3 planes" in row.peer_fractions:
        fractions["zstd-3 on byte planes"] = row.peer_fractions["zstd-3 planes"]
    if row.peer_fractions:
        fractions["best peer installed"] = row.best_peer()[1]
    fractions |= {f"gradwire level {level}": row.fraction(level) for level in LEVELS}
    return plots.FileBars(row.name, fractions, row.order0_bound)


def report(rows: list[Row]) -> None:
    memcpy = max(speed.memcpy for row in rows for speed in row.speeds.values())
    print("\nSizes. A fraction is compressed / original, lower is better. H0: what coders of")
    print("single exponents can reach. zstd-3: on byte planes.\n")
    print(size_table(rows))
    print(f"\nSpeeds in GB/s by level: one core, tensors repeated to {SPEED_BYTES}iB in memory,")
    print(f"best of {SPEED_RUNS} runs; memcpy in the same process: {memcpy / 1e9:.1f} GB/s.\n")
    print(speed_table(rows))
    chart = OUTPUT / "sizes.png"
    plots.draw_bars([bars(row) for row in rows], chart)
    where = OUTPUT.relative_to(command.ROOT)
    print(f"\nChart: {where / chart.name}. Compressed files: {where}/*.gw (try `gradwire info`).")


def main(folder: Path) -> int:
    files = samples.sample_files(folder)
    size_functions = peers.installed_peers()
    OUTPUT.mkdir(exist_ok=True)
    rows = []
    for i, path in enumerate(files, start=1):
        print(f"[{i}/{len(files)}] {path.name}", flush=True)
        try:
            rows.append(measure(path, size_functions))
        except command.RoundTripError as error:
            print(f"demo: {error}", file=sys.stderr)
            return 1
    report(rows)
    print(
        f"\nEvery byte came back: {len(rows)} files, levels 2 and 3, compared with the originals."
    )
    return demo_training.main(OUTPUT) or demo_methods.main()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else command.ROOT / "tests" / "data"))
