"""The curve of size fraction against the size of a tensor, by source of the code tables.

    bench/size_curve.py --corpus DIR [--files NAME...] [--pieces N] [--output DIR]

Cuts the tensors of .safetensors files into pieces of 0.5 KiB to 1 MiB (whole rows, so that shapes
stay; parts of one row where a row is larger) and compresses each into a frame of its own at level
2: dynamic, static, hybrid and gennorm tables, codes of single symbols (an alphabet of 16) and with
pairs allowed. All headers and checksums are counted. The files should be ones that the static
tables were not trained on; static_family.inc says which those are.
Writes size_curve.json, size_curve.md and size_curve.png.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import gradwire  # noqa: E402
import machine  # noqa: E402
import samples  # noqa: E402 - of tools/

HELD_OUT = [
    *("gpt-bf16-mid-r0", "minilm-bf16-mid-r0", "resnet18-bf16-mid-r0", "vit-bf16-mid-r0"),
]
SIZES = [512 << i for i in range(12)]
TABLES = ("dynamic", "static", "hybrid", "gennorm")
PAIRS = {"16 symbols": "false", "pairs": "true"}
COLOURS = {"dynamic": "#444444", "static": "#d1495b", "hybrid": "#1f77b4", "gennorm": "#e0a000"}

Piece = tuple[str, NDArray[Any]]


def pieces(tensors: list[samples.Tensor], size: int, most: int) -> list[Piece]:
    """Return up to `most` pieces of about `size` bytes, spread over the tensors."""
    found: list[Piece] = []
    for tensor in tensors:
        if tensor.bits.nbytes < size:
            continue
        rows = tensor.bits if len(tensor.shape) > 1 else tensor.bits.reshape(1, -1)
        if rows[0].nbytes > size:
            step = size // rows.itemsize
            parts = [row.reshape(-1) for row in rows]
        else:
            step = size // rows[0].nbytes
            parts = [rows]
        for part in parts:
            ends = range(step, len(part) + 1, step)
            found += [(tensor.dtype.lower(), part[end - step : end]) for end in ends]
    count = min(most, len(found))
    return [found[k * len(found) // count] for k in range(count)]


def measure(parts: list[Piece], tables: str, pairs: str) -> dict[str, float]:
    """Compressed over original bytes, and the share of frames that name a prebuilt table."""
    method = f"lossless(level=2,tables={tables},pairs={pairs})"
    frames = [gradwire.compress(bits, dtype=dtype, method=method) for dtype, bits in parts]
    static = sum("static" in gradwire.info(frame).tables for frame in frames)
    return {
        "fraction": sum(map(len, frames)) / sum(bits.nbytes for _, bits in parts),
        "static_share": static / len(frames),
    }


def curves(files: list[Path], most: int) -> list[dict[str, Any]]:
    """One row for each file, size, kind of code and source of tables."""
    rows = []
    for path in files:
        tensors = samples.read_tensors(path)
        for size in SIZES:
            parts = pieces(tensors, size, most)
            if not parts:
                continue
            for code, pairs in PAIRS.items():
                for tables in TABLES:
                    row = {"file": path.stem, "piece_bytes": size, "pieces": len(parts)}
                    rows.append(
                        row | {"code": code, "tables": tables} | measure(parts, tables, pairs)
                    )
        print(f"{path.stem}: done", file=sys.stderr)
    return rows


def means(rows: list[dict[str, Any]]) -> dict[str, dict[int, dict[str, float]]]:
    """Mean over the files: code -> piece size -> tables -> fraction."""
    found: dict[str, dict[int, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in rows:
        found[row["code"]][row["piece_bytes"]][row["tables"]].append(row["fraction"])
    return {
        code: {
            size: {tables: sum(values) / len(values) for tables, values in kinds.items()}
            for size, kinds in sizes.items()
        }
        for code, sizes in found.items()
    }


def size_name(size: int) -> str:
    return "1 MiB" if size >= 1 << 20 else f"{size / 1024:g} KiB"


def table_of(sizes: dict[int, dict[str, float]]) -> list[str]:
    lines = [
        f"| piece | {' | '.join(TABLES)} | static - dynamic | hybrid - dynamic |",
        "|---" * (len(TABLES) + 3) + "|",
    ]
    for size, kinds in sorted(sizes.items()):
        values = " | ".join(f"{kinds[tables]:.4f}" for tables in TABLES)
        gains = " | ".join(
            f"{100 * (kinds[tables] - kinds['dynamic']):+.2f} %" for tables in ("static", "hybrid")
        )
        lines.append(f"| {size_name(size)} | {values} | {gains} |")
    return lines


def report(result: dict[str, Any]) -> str:
    rows = result["rows"]
    names = sorted({row["file"] for row in rows})
    lines = [
        "# Size fraction against the size of a tensor",
        "",
        f"`{result['command']}`: level 2, whole frames with headers and checksums; the differences "
        "are in percent of the original size. Pieces are whole rows (parts of one where a row is "
        "larger). Files with no tensor of a size are left out of that row.",
    ]
    for code, sizes in means(rows).items():
        lines += ["", f"## {code}: mean of {', '.join(names)}", "", *table_of(sizes)]
    for name in names:
        for code, sizes in means([row for row in rows if row["file"] == name]).items():
            lines += ["", f"## {code}: {name}", "", *table_of(sizes)]
    return "\n".join(lines) + "\n"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7), sharex=True, sharey="row")
    for column, (code, sizes) in enumerate(means(rows).items()):
        order = sorted(sizes)
        for tables in TABLES:
            fraction = [sizes[size][tables] for size in order]
            gain = [100 * (sizes[size][tables] - sizes[size]["dynamic"]) for size in order]
            style = {"color": COLOURS[tables], "marker": "o", "markersize": 3, "label": tables}
            axes[0][column].plot(order, fraction, **style)
            axes[1][column].plot(order, gain, **style)
        axes[0][column].set_title(f"{code}, mean of held-out bf16 files")
        axes[1][column].set_xscale("log", base=2)
        axes[1][column].set_xticks(SIZES[::2], [size_name(size) for size in SIZES[::2]])
        axes[1][column].set_xlabel("bytes of the tensor")
    axes[0][0].set_ylabel("compressed / original")
    axes[1][0].set_ylabel("difference to dynamic, % of the original")
    axes[0][1].legend(frameon=False)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder of .safetensors files")
    parser.add_argument("--files", nargs="+", default=HELD_OUT, help="names without the ending")
    parser.add_argument("--pieces", type=int, default=200, help="most pieces of a size and file")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results")
    arguments = parser.parse_args()
    rows = curves(
        [arguments.corpus / f"{n}.safetensors" for n in arguments.files], arguments.pieces
    )
    result = machine.provenance() | {"rows": rows}
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "size_curve.json").write_text(json.dumps(result, indent=1) + "\n")
    (arguments.output / "size_curve.md").write_text(report(result))
    draw(rows, arguments.output / "size_curve.png")


if __name__ == "__main__":
    main()
