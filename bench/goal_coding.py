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
CODED_CHUNK_HEAD_BYTES = 8  # docs/format.md 3.6: raw_bytes, one size, escapes
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
        "bf16 values that are not zero, level 1, full chunks. Counted: words, states (32 of 32 "
        "bits a chunk, 0.0156 bit a value), escapes and table. Not counted: raw bits, the heads of "
        "frame and chunks, checksums, as they are in a frame of as many equal values. "
        "`tests/cpp/entropy_ans_test.cc` asserts the same for the coder alone."
    )
    return [Section("ANS: bits a value beyond the entropy of the exponents", checks, note)]


def _ans_check(corpus: Corpus, name: str) -> Check:
    largest = max(corpus.tensors(name), key=lambda tensor: tensor.bits.size)
    values = largest.bits[largest.bits != 0]
    values = values[: len(values) // CHUNK_VALUES * CHUNK_VALUES]
    size = frame_bytes(values, largest.dtype, "level=1,coder=ans,pairs=false")
    heads = frame_bytes(np.full_like(values, values[0]), largest.dtype)
    heads += CODED_CHUNK_HEAD_BYTES * len(values) // CHUNK_VALUES
    spent = 8 * (size - len(values) - heads) / len(values)
    entropy = entropy_bits((values >> 7) & 0xFF)
    what = f"{name} {largest.name}: {spent:.4f} bit, entropy {entropy:.4f}"
    return at_most(what, 0.02, spent - entropy)


def entropy_bits(symbols: NDArray[Any]) -> float:
    """Return the order-0 entropy a symbol."""
    _, counts = np.unique(symbols, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def gennorm(corpus: Corpus) -> list[Section]:
    names = [name for name in corpus.names if corpus.is_gradient(name)]
    dense = [_dense_check(corpus, name, number) for number in (1, 2) for name in names]
    note = "Frames with tables=gennorm / tables=dynamic, Huffman, without pairs."
    return [
        Section(
            "GenNorm tables on dense tensors: within 1 % (level 1; level 2 reported)",
            [check for check in dense if check],
            f"{note} Tensors of {DENSE_VALUES} values or more, under 1 % of them zero.",
        ),
        Section(
            f"GenNorm tables: dense tensors under {SMALL_VALUES} values on which they are smaller",
            [_wins(corpus, name) for name in names],
            f"{note} Level 1.",
        ),
    ]


def is_dense(tensor: Tensor) -> bool:
    n = tensor.bits.size
    return n > 0 and np.count_nonzero(tensor.bits) > 0.99 * n


def _dense_check(corpus: Corpus, name: str, number: int) -> Check | None:
    ratios = {
        tensor.name: _gennorm_ratio(tensor, number)
        for tensor in corpus.tensors(name)
        if tensor.bits.size >= DENSE_VALUES and is_dense(tensor)
    }
    if not ratios:
        return None
    worst = max(ratios, key=lambda tensor: ratios[tensor])
    what = f"{name}, level {number}: worst of {len(ratios)}, {worst}"
    check = at_most(f"{what} (median {median(ratios.values()):.4f})", 1.01, ratios[worst])
    return check if number == 1 else check._replace(met=None)


def _gennorm_ratio(tensor: Tensor, number: int) -> float:
    options = f"level={number},coder=huffman,pairs=false,tables="
    by_gennorm, by_dynamic = (
        frame_bytes(tensor.bits, tensor.dtype, options + tables)
        for tables in ("gennorm", "dynamic")
    )
    return by_gennorm / by_dynamic


def _wins(corpus: Corpus, name: str) -> Check:
    tensors = [
        tensor
        for tensor in corpus.tensors(name)
        if tensor.bits.size < SMALL_VALUES and is_dense(tensor)
    ]
    ratios = [_gennorm_ratio(tensor, 1) for tensor in tensors]
    if not ratios:
        return report(name, "no such tensor")
    won = sum(ratio < 1 for ratio in ratios)
    return report(name, f"{won} of {len(ratios)}, median ratio {median(ratios):.3f}")
