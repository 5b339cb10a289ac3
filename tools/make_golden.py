"""Write tests/golden/: small frames of every dtype, level, coder, table source and special shape.

The frames come from the installed package, those with a source file from the command line tool,
and lossy ones, which need every selection with every form of values, from the C++ test of them.
manifest.json holds what made each frame, and XXH3-64 of the frame and of what it decodes to.
A file that exists is never written again, so that old frames stay what they were.

usage: make_golden.py [--force] [--only TEXT]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradwire
import ml_dtypes
import numpy as np
import xxhash
from golden_lossy import lossy_frames

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "golden"
MAX_TOTAL_BYTES = 600_000

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = {
    "f32": np.dtype(np.float32),
    "bf16": BF16,
    "f16": np.dtype(np.float16),
    "f64": np.dtype(np.float64),
}
OTHERS = {
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i16": np.dtype(np.int16),
    "u16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}


@dataclass
class Golden:
    """A tensor to compress; options go to gradwire.compress."""

    name: str
    array: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)


# Data: everything is seeded, and shaped so that a feature of the format pays.


def gradient(rows: int, columns: int, seed: int) -> np.ndarray:
    """Errors times inputs: rows and columns have scales of their own, values are normal."""
    random = np.random.default_rng(seed)
    row_scales = np.exp2(random.normal(-12, 2, (rows, 1)))
    column_scales = np.exp2(random.normal(0, 1.5, (1, columns)))
    return random.normal(size=(rows, columns)) * row_scales * column_scales


def signed_outer(rows: int, columns: int, seed: int) -> np.ndarray:
    """Signs are nearly those of an outer product."""
    random = np.random.default_rng(seed)
    signs = np.sign(np.outer(random.normal(size=rows), random.normal(size=columns)))
    flips = np.where(random.random((rows, columns)) < 0.05, -1, 1)
    return signs * flips * np.abs(gradient(rows, columns, seed))


def scaled_ones(rows: int, columns: int, seed: int) -> np.ndarray:
    """Magnitudes are the products of scales, nearly; signs are random."""
    random = np.random.default_rng(seed)
    scales = np.exp2(random.normal(-8, 2, (rows, 1)) + random.normal(0, 1.5, (1, columns)))
    signs = np.sign(random.normal(size=(rows, columns)))
    return signs * scales * (1 + 0.03 * random.normal(size=(rows, columns)))


def kernels(shape: tuple[int, ...], noise: float, seed: int) -> np.ndarray:
    """Convolution kernels (outputs, inputs, taps ...) whose taps resemble each other."""
    random = np.random.default_rng(seed)
    each_kernel = shape[:2] + (1,) * (len(shape) - 2)
    scales = np.exp2(random.normal(-10, 2, each_kernel))
    return scales * (random.normal(size=each_kernel) + noise * random.normal(size=shape))


def rounded_to_bf16(array: np.ndarray) -> np.ndarray:
    return array.astype(BF16).astype(np.float32)


def with_zeros(array: np.ndarray, share: float, run: int, seed: int) -> np.ndarray:
    """Runs of zeros, of `run` elements each, over about that share of the array."""
    random = np.random.default_rng(seed)
    blocks = random.random(-(-array.size // run)) < share
    return np.where(np.repeat(blocks, run)[: array.size].reshape(array.shape), 0, array)


def special_bits(dtype: np.dtype) -> np.ndarray:
    """NaN payloads, infinities, subnormals, -0.0 and their neighbours among normal values."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    top = 8 * dtype.itemsize - 1
    near = [0, 1 << top, 1, (1 << top) - 1, *(np.arange(1, 8) << (top - 8)).tolist()]
    bits = [(v + d) % (1 << (top + 1)) for v in near for d in (-1, 0, 1)]
    mixed = gradient(20, 20, 7).astype(dtype).view(unsigned).reshape(-1)
    mixed[: len(bits) * 3 : 3] = np.array(bits, dtype=unsigned)
    return mixed.view(dtype)


# The set


def crossed_frames() -> Iterator[Golden]:
    for dtype, numpy_dtype in FLOATS.items():
        array = gradient(24, 25, 1).astype(numpy_dtype)
        for level in (1, 2, 3):
            for coder in ("huffman", "ans"):
                for tables in ("dynamic", "static", "gennorm", "hybrid"):
                    name = f"{dtype}-level{level}-{coder}-{tables}"
                    yield Golden(name, array, {"level": level, "coder": coder, "tables": tables})
    random = np.random.default_rng(2)
    for dtype, numpy_dtype in OTHERS.items():
        small = np.rint(random.normal(scale=6, size=(20, 15)))
        array = (small > 0 if dtype == "bool" else np.abs(small)).astype(numpy_dtype)
        for coder in ("huffman", "ans"):
            yield Golden(f"{dtype}-{coder}", array, {"coder": coder})


def shaped_frames() -> Iterator[Golden]:
    shapes = [(), (0,), (1,), (3, 0, 5), (7,), (1, 300), (300, 1), (2,) * 8, (1,) * 31 + (33,)]
    for k, shape in enumerate(shapes):
        array = gradient(1, int(np.prod(shape)), k).reshape(shape)
        text = "x".join(map(str, shape)) if len(shape) < 9 else f"rank{len(shape)}"
        for dtype in ("bf16", "f32"):
            yield Golden(f"shape-{text or 'scalar'}-{dtype}", array.astype(FLOATS[dtype]))
    yield Golden("shape-0-i64", np.zeros(0, np.int64), {"checksum": False})
    for dtype, numpy_dtype in FLOATS.items():
        yield Golden(f"special-bits-{dtype}", special_bits(numpy_dtype))
        yield Golden(
            f"no-checksum-{dtype}", gradient(9, 11, 5).astype(numpy_dtype), {"checksum": False}
        )


def chunk_frames() -> Iterator[Golden]:
    random = np.random.default_rng(3)
    noise = random.integers(0, 256, 600, dtype=np.uint8)
    yield Golden("stored-noise-u8", noise)
    yield Golden("stored-noise-bf16", noise.view(BF16))
    yield Golden("stored-noise-f64", noise.view(np.float64))
    yield Golden("constant-zero-f32", np.zeros((300, 300), np.float32))
    yield Golden("constant-one-bf16", np.ones((300, 300), BF16))
    yield Golden("constant-u64", np.full(1000, 0x0123456789ABCDEF, np.uint64))
    several = np.zeros(3 * 65536 + 100, np.float32)
    several[65536 : 2 * 65536] = 1.5
    several[-400:] = gradient(1, 400, 4)[0]
    yield Golden("several-chunks-f32", several)
    rising = np.arange(400, dtype=np.int32)
    yield Golden("planes-raw-constant-coded-i32", rising * 37)
    yield Golden("planes-of-large-integers-u64", (rising.astype(np.uint64) << 33) + 5)
    wide = random.integers(0, 2**16, 400, dtype=np.uint16).astype(np.uint32) | 0x7F000000
    yield Golden("planes-raw-and-constant-u32", wide)


def gennorm_frames() -> Iterator[Golden]:
    """What a generalised normal variable about zero does not describe: a mean, two scales."""
    random = np.random.default_rng(9)
    outer = np.outer(random.normal(size=64), random.normal(size=64))
    about_mean = (outer * random.normal(1, 0.2, size=(64, 64))).astype(BF16)
    two_scales = random.normal(size=(64, 64)) * np.where(np.arange(64) % 4 == 0, 1, 0.01)[:, None]
    for coder in ("huffman", "ans"):
        options = {"coder": coder, "tables": "gennorm"}
        for level in (2, 3):
            name = f"gennorm-mean-level{level}-{coder}"
            yield Golden(name, about_mean, {"level": level, **options})
        yield Golden(f"gennorm-mixture-{coder}", two_scales.astype(BF16), {"level": 1, **options})


def zero_frames() -> Iterator[Golden]:
    dense = gradient(30, 40, 6)
    for dtype in ("bf16", "f32"):
        numpy_dtype = FLOATS[dtype]
        yield Golden(f"zeros-few-{dtype}", with_zeros(dense, 0.05, 1, 1).astype(numpy_dtype))
        yield Golden(f"zeros-half-{dtype}", with_zeros(dense, 0.5, 1, 2).astype(numpy_dtype))
        yield Golden(f"zeros-runs-{dtype}", with_zeros(dense, 0.5, 60, 3).astype(numpy_dtype))
        rows = np.where(np.random.default_rng(4).random((30, 1)) < 0.2, dense, 0)  # no -0.0
        yield Golden(f"zeros-rows-{dtype}", rows.astype(numpy_dtype))
        columns = np.where(np.random.default_rng(5).random((1, 40)) < 0.3, dense, 0)
        yield Golden(f"zeros-columns-{dtype}", columns.astype(numpy_dtype))
        both = np.where(np.random.default_rng(5).random((1, 40)) < 0.5, rows, 0)
        yield Golden(f"zeros-rows-columns-{dtype}", both.astype(numpy_dtype))
        scattered = with_zeros(rows, 0.3, 1, 6)
        yield Golden(f"zeros-rows-and-map-{dtype}", scattered.astype(numpy_dtype))
    for zeros in ("none", "in-band", "runs", "bitmap"):
        array = with_zeros(dense, 0.3, 3, 8).astype(BF16)
        yield Golden(f"zeros-forced-{zeros}-bf16", array, {"method": f"lossless(zeros={zeros})"})


def prediction_frames() -> Iterator[Golden]:
    for dtype, numpy_dtype in FLOATS.items():
        for level in (2, 3):
            signed = signed_outer(30, 30, 8).astype(numpy_dtype)
            yield Golden(f"signs-rank-one-level{level}-{dtype}", signed, {"level": level})
            ones = scaled_ones(24, 25, 17).astype(numpy_dtype)
            yield Golden(f"scales-level{level}-{dtype}", ones, {"level": level})
    for dtype, numpy_dtype in FLOATS.items():
        for shape in ((6, 10, 3, 3), (3, 5, 5, 5)):
            array = kernels(shape, 0.1, 9).astype(numpy_dtype)
            for level in (2, 3):
                for coder in ("huffman", "ans"):
                    name = f"taps-{shape[-1]}x{shape[-1]}-level{level}-{coder}-{dtype}"
                    yield Golden(name, array, {"level": level, "coder": coder})
    zeros = with_zeros(kernels((8, 10, 3, 3), 0.05, 10), 0.3, 9, 11)
    yield Golden("taps-zeros-bf16", zeros.astype(BF16), {"level": 3})
    last = np.moveaxis(kernels((8, 8, 3, 3), 0.05, 12), 1, -1)
    yield Golden("taps-channels-last-bf16", np.ascontiguousarray(last).astype(BF16), {"level": 3})
    escaped = kernels((10, 20, 3, 3), 0.05, 21).astype(np.float32)
    escaped[2, 3, 1, 1], escaped[7, 9, 2, 0] = np.nan, np.inf
    yield Golden("taps-with-escapes-f32", escaped, {"level": 3})
    line = kernels((10, 12, 4), 0.05, 13)
    yield Golden("taps-of-rank-3-f32", line.astype(np.float32), {"level": 3})


def fraction_frames() -> Iterator[Golden]:
    """bf16 values in f32: unused fraction bits, means of two, exceptions."""
    one, two = (rounded_to_bf16(gradient(30, 30, s) * 0.5) for s in (13, 14))
    broken = one.copy()
    broken[::13, ::17] *= np.float32(1 + 2**-20)
    conv = kernels((6, 10, 3, 3), 0.05, 15)
    conv_one = rounded_to_bf16(conv)
    conv_two = rounded_to_bf16(conv + 0.05 * kernels((6, 10, 3, 3), 0.05, 16))
    conv_broken = conv_one.copy()
    conv_broken[::3, ::5, 1, 1] *= np.float32(1 + 2**-20)
    for level in (1, 2, 3):
        for coder in ("huffman", "ans"):
            options = {"level": level, "coder": coder}
            yield Golden(f"amp-one-level{level}-{coder}", one, options)
            yield Golden(f"amp-mean-level{level}-{coder}", (one + two) / 2, options)
            yield Golden(f"amp-exceptions-level{level}-{coder}", broken, options)
            yield Golden(f"amp-kernels-level{level}-{coder}", conv_one, options)
            yield Golden(
                f"amp-kernels-mean-level{level}-{coder}", (conv_one + conv_two) / 2, options
            )
    half = (one.astype(np.float16) * np.float16(64)).view(np.uint16) & 0xFFF8
    yield Golden("kept-f16", half.view(np.float16))
    yield Golden("kept-f64", one.astype(np.float64))


def pair_frames() -> Iterator[Golden]:
    """Neighbours with like exponents: joint codes pay once the tensor is large enough."""
    random = np.random.default_rng(16)
    drift = np.repeat(np.rint(random.normal(scale=2.5, size=300)), 12)
    array = (np.exp2(drift - 12) * (1 + random.random(3600) * 0.5)).astype(np.float16)
    bits = array.view(np.uint16) & 0xFC00
    for coder in ("huffman", "ans"):
        yield Golden(f"pairs-{coder}-f16", bits.view(np.float16), {"level": 1, "coder": coder})


def single_frames() -> Iterator[Golden]:
    yield from crossed_frames()
    yield from shaped_frames()
    yield from chunk_frames()
    yield from gennorm_frames()
    yield from zero_frames()
    yield from prediction_frames()
    yield from fraction_frames()
    yield from pair_frames()


# Archives


def safetensors_file(
    tensors: dict[str, np.ndarray], metadata: dict[str, str], separators: tuple[str, str]
) -> bytes:
    names = {"float32": "F32", "bfloat16": "BF16", "int64": "I64"}
    header: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name, array in tensors.items():
        end = offset + array.nbytes
        header[name] = {
            "dtype": names[str(array.dtype)],
            "shape": array.shape,
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=separators, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values())


def archive_tensors() -> dict[str, np.ndarray]:
    return {
        "layer.weight": gradient(12, 16, 20).astype(BF16),
        "layer.bias": gradient(1, 16, 21)[0].astype(np.float32),
        "ступінь": np.arange(5),
        "empty": np.zeros((0, 4), np.float32),
    }


def compressed_file(name: str, octets: bytes, *arguments: str) -> bytes:
    """What the command line tool makes of a file of that name."""
    tool = os.environ.get("GRADWIRE_CLI", str(ROOT / "build" / "release" / "gradwire"))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / name, Path(folder) / "out.gw"
        source.write_bytes(octets)
        subprocess.run(
            [tool, "compress", source, "-o", target, *arguments], check=True, capture_output=True
        )
        return target.read_bytes()


def archives() -> Iterator[tuple[str, bytes]]:
    tensors = archive_tensors()
    yield "archive-none", gradwire.compress_batch(tensors)
    yield "archive-none-no-checksum", gradwire.compress_batch(tensors, checksum=False)
    yield "archive-none-empty", gradwire.compress_batch({})
    many = {f"blocks.{i}.norm": gradient(1, 8, i)[0].astype(BF16) for i in range(40)}
    yield "archive-none-many", gradwire.compress_batch(many)
    for name, separators in (("", (",", ":")), ("-with-spaces", (", ", ": "))):
        octets = safetensors_file(tensors, {"format": "pt"}, separators)
        yield f"archive-safetensors{name}", compressed_file("model.safetensors", octets)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.npy"
        np.save(path, gradient(10, 10, 22).astype(np.float32))
        yield "archive-npy", compressed_file("array.npy", path.read_bytes())
    raw = gradient(10, 10, 23).astype(np.float32).tobytes()
    yield "archive-raw", compressed_file("data.bin", raw, "--dtype", "f32", "--shape", "10,10")


# Writing


def digest(octets: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(octets)


def single_row(golden: Golden, frame: bytes) -> dict[str, Any]:
    restored = gradwire.decompress(frame)
    octets = np.ascontiguousarray(golden.array).tobytes()
    if restored.tobytes() != octets or restored.shape != golden.array.shape:
        raise SystemExit(f"{golden.name}: does not come back")
    return {"options": golden.options, "frame_xxh3": digest(frame), "decoded_xxh3": digest(octets)}


def made_row(frame: bytes) -> dict[str, Any]:
    one = not frame[6] & 2
    arrays = [gradwire.decompress(frame)] if one else gradwire.decompress_batch(frame).values()
    decoded = b"".join(array.tobytes() for array in arrays)
    return {"options": {}, "frame_xxh3": digest(frame), "decoded_xxh3": digest(decoded)}


def all_frames(only: str) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    for golden in single_frames():
        if only in golden.name:
            frame = gradwire.compress(golden.array, **golden.options)
            yield golden.name, frame, single_row(golden, frame)
    for name, frame in itertools.chain(archives(), lossy_frames()):
        if only in name:
            yield name, frame, made_row(frame)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--force", action="store_true", help="write files again that exist")
    parser.add_argument("--only", default="", help="only frames whose names contain this")
    arguments = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    manifest_path = FOLDER / "manifest.json"
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {}
    for name, frame, row in all_frames(arguments.only):
        path = FOLDER / f"{name}.gw"
        if path.exists() and path.name in manifest and not arguments.force:
            continue
        path.write_bytes(frame)
        manifest[path.name] = row
    rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(manifest[k])}" for k in sorted(manifest))
    manifest_path.write_text("{\n" + rows + "\n}\n")
    total = sum(path.stat().st_size for path in FOLDER.glob("*.gw"))
    print(f"{len(manifest)} frames, {total} bytes")
    return 1 if total > MAX_TOTAL_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
