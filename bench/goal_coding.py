"""Checks of what single tensors cost: small ones, ANS against entropy, GenNorm against dynamic.

In: a corpus. Out: sections. Sizes here are frames of one tensor by the Python package.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import gradwire
import numpy as np
from checking import Check, Corpus, Section, at_most, report
from numpy.typing import NDArray
from samples import Tensor

CONCATENATED = "resnet18-bf16-mid-r0"
PIECES_OF = "minilm-bf16-mid-r0"
PIECE_VALUES = 1000
CHUNK_VALUES = 65536
ANS_FILES = ("minilm-bf16-mid-r0", "gpt-bf16-mid-r0", "resnet18-bf16-mid-r0", "vit-bf16-mid-r0")
DENSE_VALUES = 65536  # tensors from here on count as dense and large
SMALL_VALUES = 4096


def frame_bytes(bits: NDArray[Any], dtype: str, options: str = "") -> int:
    """Compress, restore, compare; return the bytes of the frame."""
    frame = gradwire.compress(bits, method=f"lossless({options})", dtype=dtype.lower())
    restored = gradwire.decompress(frame)
    if restored.tobytes() != bits.tobytes():
        raise SystemExit(f"{options}: other bytes came back")
    return len(frame)


def small(corpus: Corpus) -> list[Section]:
    empty = max(
        len(gradwire.compress(np.empty(0, bits), dtype=dtype))
        for dtype, bits in (("bf16", np.uint16), ("f32", np.uint32), ("f16", np.uint16))
    )
    checks = [
        at_most("empty tensor, bytes", 32, empty, 0),
        _concatenated(corpus),
        *(_pieces(corpus, number) for number in (1, 2, 3)),
    ]
    return [Section("Small and many tensors", checks)]


def _concatenated(corpus: Corpus) -> Check:
    tensors = corpus.tensors(CONCATENATED)
    joined = np.concatenate([tensor.bits.reshape(-1) for tensor in tensors])
    one = frame_bytes(joined, tensors[0].dtype, "level=1")
    many = corpus.size(CONCATENATED, "--level=1")
    return at_most(f"{CONCATENATED} at level 1 / one concatenated tensor", 1.01, many / one)


def _pieces(corpus: Corpus, number: int) -> Check:
    """The worst and the median of pieces of 1000 values, one from each tensor that has them."""
    fractions = [
        frame_bytes(tensor.bits.reshape(-1)[:PIECE_VALUES], tensor.dtype, f"level={number}")
        / (PIECE_VALUES * tensor.bits.itemsize)
        for tensor in corpus.tensors(PIECES_OF)
        if tensor.bits.size >= PIECE_VALUES
    ]
    what = f"1000 bf16 values, level {number}: worst of {len(fractions)} tensors of {PIECES_OF}"
    return at_most(f"{what} (median {median(fractions):.4f})", 0.80, max(fractions))


def ans(corpus: Corpus) -> list[Section]:
    checks = [_ans_check(corpus, name) for name in ANS_FILES]
    note = (
        "bf16 values that are not zero, level 1, full chunks: frame bits - 8 raw bits a value, "
        "beside the entropy of the exponents. The frame's head, table, checksums and chunk heads "
        "are counted; so are 32 states of 32 bits a chunk, 0.0156 bit a value. "
        "`tests/cpp/entropy_ans_test.cc` asserts 0.02 bit for the coder alone."
    )
    return [Section("ANS within 0.02 bit of entropy", checks, note)]


def _ans_check(corpus: Corpus, name: str) -> Check:
    largest = max(corpus.tensors(name), key=lambda tensor: tensor.bits.size)
    values = largest.bits[largest.bits != 0]
    values = values[: len(values) // CHUNK_VALUES * CHUNK_VALUES]
    size = frame_bytes(values, largest.dtype, "level=1,coder=ans,pairs=false")
    spent = 8 * (size - len(values)) / len(values)
    entropy = entropy_bits((values >> 7) & 0xFF)
    states = 32 * 32 / CHUNK_VALUES
    what = f"{name} {largest.name}: {spent:.4f} bit, entropy {entropy:.4f}; less the states"
    return at_most(what, 0.02, spent - entropy - states)


def entropy_bits(symbols: NDArray[Any]) -> float:
    """Return the order-0 entropy a symbol."""
    _, counts = np.unique(symbols, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def gennorm(corpus: Corpus) -> list[Section]:
    names = [name for name in corpus.names if corpus.is_gradient(name)]
    dense: dict[str, list[float]] = {}
    wins: dict[str, tuple[int, int]] = {}
    for name in names:
        tensors = corpus.tensors(name)
        dense[name] = [_gennorm_ratio(t) for t in tensors if is_dense(t, DENSE_VALUES)]
        wins[name] = _small_wins([t for t in tensors if is_dense(t, 1)])
    checks = [
        at_most(f"{name}: worst of {len(ratios)} (median {median(ratios):.4f})", 1.01, max(ratios))
        for name, ratios in dense.items()
        if ratios
    ]
    won = [
        report(f"{name}: of {total} tensors under {SMALL_VALUES} values", f"{won} smaller")
        for name, (won, total) in wins.items()
        if total
    ]
    note = "Frames with tables=gennorm / tables=dynamic, level 1, Huffman, without pairs."
    return [
        Section("GenNorm tables on dense tensors: within 1 %", checks, note),
        Section("GenNorm tables: where they win", won, note),
    ]


def is_dense(tensor: Tensor, least_values: int) -> bool:
    n = tensor.bits.size
    return n >= least_values and np.count_nonzero(tensor.bits) > 0.99 * n


def _gennorm_ratio(tensor: Tensor) -> float:
    sizes = [
        frame_bytes(tensor.bits, tensor.dtype, f"level=1,coder=huffman,pairs=false,tables={tables}")
        for tables in ("gennorm", "dynamic")
    ]
    return sizes[0] / sizes[1]


def _small_wins(tensors: list[Tensor]) -> tuple[int, int]:
    ratios = [_gennorm_ratio(tensor) for tensor in tensors if tensor.bits.size < SMALL_VALUES]
    return sum(ratio < 1 for ratio in ratios), len(ratios)
