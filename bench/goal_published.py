"""The published construction alone, and the share of zeros that its size would need.

Exponents by Huffman, zero locations by distance and run length, nothing predicted, no pairs of
symbols. Published: 0.4931 of the size, on gradients that are not public. With a share z of zeros,
the size is (1 - z) c + locations; c, the cost of values that are not zero, is measured.

In: a corpus. Out: a section.
"""

from __future__ import annotations

import math

from checking import Corpus, Section, report
from goal_coding import frame_bytes

PUBLISHED_FRACTION = 0.4931
CONSTRUCTION = ("--level=1", "--zeros=runs", "--no-pairs", "--coder=huffman")
NON_ZERO_OPTIONS = "level=1,zeros=none,pairs=false,coder=huffman,tables=dynamic"


def published(corpus: Corpus) -> list[Section]:
    checks = [
        report(name, _sizes(corpus, name), _zeros_needed(corpus, name)) for name in corpus.names
    ]
    note = (
        f"Measured: dynamic and hybrid tables, share of zeros there is. Wanted: the share of zeros "
        f"that would give {PUBLISHED_FRACTION}, if their locations cost nothing (long runs) or as "
        "much as scattered ones."
    )
    return [Section("The published construction alone", checks, note)]


def _sizes(corpus: Corpus, name: str) -> str:
    sizes = [corpus.fraction(name, *CONSTRUCTION, f"--tables={t}") for t in ("dynamic", "hybrid")]
    tensors = corpus.tensors(name)
    zeros = sum(int((tensor.bits == 0).sum()) for tensor in tensors)
    share = zeros / sum(tensor.bits.size for tensor in tensors)
    return f"{sizes[0]:.4f}, {sizes[1]:.4f}, zeros {share:.3f}"


def _zeros_needed(corpus: Corpus, name: str) -> str:
    cost, value_bits = non_zero_cost(corpus, name)
    if cost <= PUBLISHED_FRACTION:
        return f"none, values cost {cost:.4f}"
    free = 1 - PUBLISHED_FRACTION / cost
    return f"{free:.3f} to {scattered_zeros(cost, value_bits):.3f}, values cost {cost:.4f}"


def non_zero_cost(corpus: Corpus, name: str) -> tuple[float, int]:
    """Return size fraction of the values that are not zero, tensor by tensor, and bits a value."""
    compressed = raw = 0
    value_bits = 0
    for tensor in corpus.tensors(name):
        values = tensor.bits[tensor.bits != 0]
        value_bits = 8 * values.itemsize
        if values.size:
            compressed += frame_bytes(values, tensor.dtype, NON_ZERO_OPTIONS)
            raw += values.nbytes
    return compressed / raw, value_bits


def scattered_zeros(cost: float, value_bits: int) -> float:
    """Solve (1 - z) cost + h(z) / value_bits = the published fraction, by bisection."""

    def fraction(z: float) -> float:
        h = -z * math.log2(z) - (1 - z) * math.log2(1 - z)
        return (1 - z) * cost + h / value_bits

    low, high = 0.2, 1 - 1e-9  # the fraction falls from here on
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fraction(middle) > PUBLISHED_FRACTION else (low, middle)
    return low
