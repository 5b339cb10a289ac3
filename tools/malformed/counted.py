"""Broken counts of fraction bits (format.md 3.5 and 3.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reference import builder as b
from reference.builder import Chunk, ScaledFields

from .common import FLAT16, SHORT, STREAM32, SYMBOLS, TABLE16, Case, scaled

COUNTED = ScaledFields(dtype=b.F32, kept=18, modes=8, low_count=2)
# G = 18, low_count = 2: v = 1 has u = 3 and 2 bits, 14 has u = 16 and 15 bits, 15 has all 18.
COUNTS = [1, 0, 14, 15] * 8
COUNT_BITS = {0: 2, 1: 2, 14: 15, 15: 18}
RAW = b.bitstream([(i & 3, 1 + COUNT_BITS[v]) for i, v in enumerate(COUNTS)])
COUNT_STREAM = b.huffman_stream(COUNTS, FLAT16)


def counted_cases() -> Iterator[Case]:
    tables = b.tables_section(TABLE16, b.huffman_table(FLAT16))

    def counted(
        raw: bytes = RAW, second: int = 1, fields: ScaledFields = COUNTED, tables: bytes = tables
    ) -> bytes:
        chunk = Chunk(b.CODED, b.parts(raw, [STREAM32, COUNT_STREAM]), second=second)
        return scaled(fields, entry=chunk, tables=tables).frame()

    yield Case("counted_right", counted(), "accepted", "", "counted records")
    yield Case("counted_raw_cut", counted(RAW[:-1]), SHORT, "raw", "raw_bytes fits the counts")
    yield Case("counted_raw_goes_on", counted(RAW + b"\0"), "corrupt", "raw", "raw_bytes fits")
    short = replace(COUNTED, kept=15)
    yield Case(
        "counted_beyond_fraction", counted(fields=short), "corrupt", "count", "u is at most G"
    )
    low = replace(COUNTED, low_count=19)
    yield Case("low_count_high", counted(fields=low), "corrupt", "low_count", "low_count <= G")
    wide = b.tables_section(TABLE16, b.huffman_table(b.flat_lengths(17)))
    yield Case(
        "counted_wide_table", counted(tables=wide), "corrupt", "alphabet", "counts are 0 to 15"
    )
    yield Case(
        "second_table_out_of_range",
        counted(second=2),
        "corrupt",
        "table",
        "a table index is below the count of tables",
    )
    yield Case("second_16", counted(second=16), "corrupt", "second", "second is below 16")


def joint_cases() -> Iterator[Case]:
    fields = replace(COUNTED, modes=8 | 32 | 64)

    def joint(symbols: list[int], counts: list[int], fields: ScaledFields = fields) -> bytes:
        both = [s for pair in zip(symbols, counts, strict=True) for s in pair]
        recorded = [v for s, v in zip(symbols, counts, strict=True) if s != 14]
        raw = b.bitstream([(i & 3, 1 + COUNT_BITS[v]) for i, v in enumerate(recorded)])
        data = b.parts(raw, [b.huffman_stream(both, FLAT16)])
        return scaled(fields, data=data).frame()

    zero = [14, *SYMBOLS[1:]]
    yield Case("joint_right", joint(zero, [0, *COUNTS[1:]]), "accepted", "", "joint symbols")
    yield Case("joint_count_of_zero", joint(zero, COUNTS), "corrupt", "zero", "a zero has count 0")
    alone = scaled(ScaledFields(modes=64)).frame()
    yield Case("joint_without_counted", alone, "corrupt", "joint", "joint needs counted")
    wide = joint(SYMBOLS, COUNTS, replace(fields, window=15))
    yield Case("joint_wide_alphabet", wide, "corrupt", "joint", "joint has at most 16 symbols")
    narrow = joint(SYMBOLS, COUNTS, replace(fields, window=10))
    yield Case("joint_symbol_high", narrow, "corrupt", "symbol", "symbols are in the alphabet")
