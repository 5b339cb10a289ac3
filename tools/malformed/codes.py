"""Broken tables and streams (format.md 4)."""

from __future__ import annotations

from collections.abc import Iterator

from reference import builder as b
from reference.builder import Chunk, ScaledFields, TensorBody
from reference.weights import gennorm_weights, lengths_of_weights

from .common import (
    ANS_STREAM,
    FLAT16,
    FREQUENCIES,
    RAW32,
    SHORT,
    SYMBOLS,
    TABLE16,
    Case,
    plain,
    scaled,
    with_section,
    without_section,
)


def table_cases() -> Iterator[Case]:
    def tables(payload: bytes) -> bytes:
        return scaled(tables=payload).frame()

    def huffman(lengths: dict[int, int]) -> bytes:
        return tables(b.tables_section(b.huffman_table(lengths, base=112)))

    yield Case("tables_count_zero", tables(b"\0"), "corrupt", "count", "there are 1 to 16 tables")
    yield Case(
        "tables_count_17",
        tables(b.tables_section(*[TABLE16] * 17)),
        "corrupt",
        "count",
        "there are 1 to 16 tables",
    )
    yield Case(
        "tables_left_over", tables(b"\1" + TABLE16 + b"\0"), "corrupt", "tables", "left over"
    )
    yield Case("tables_cut", tables(b"\1" + TABLE16[:-1]), SHORT, "", "tables is complete")
    yield Case(
        "tables_absent", without_section(scaled(), b.TABLES), SHORT, "table", "tables are there"
    )
    yield Case(
        "table_form_reserved_bit",
        tables(b"\1" + bytes([TABLE16[0] | 16]) + TABLE16[1:]),
        "corrupt",
        "form",
        "form bits 4-7 are 0",
    )
    yield Case(
        "table_source_reserved", tables(b"\1\3\0\0"), "unsupported", "source", "source is 0 to 2"
    )
    for name, value in (("low", -65537), ("high", 65537)):
        yield Case(
            f"table_base_too_{name}",
            scaled(table=b.huffman_table(FLAT16, base=value)).frame(),
            "corrupt",
            "base",
            "base is -65536 to 65536",
        )
    yield Case(
        "table_base_in_planes",
        with_section(plain(), b.TABLES, b.tables_section(b.huffman_table({0: 1, 1: 1}, base=1))),
        "corrupt",
        "base",
        "base is 0 in pipeline 0",
    )
    used = TensorBody(
        b.planes_tensor(b.U8, (4,), b"\2\0"),
        [Chunk(b.CODED, b.parts(b"", [b"\0"]))],
        {b.TABLES: b.tables_section(b.huffman_table({0: 1, 1: 1}, base=1))},
    )
    yield Case("table_base_in_coded_planes", used.frame(), "corrupt", "base", "base is 0")
    yield Case(
        "table_first_above_last", tables(b"\1\0\0\5\4\x11"), "corrupt", "last", "first <= last"
    )
    yield Case(
        "static_id_unknown",
        tables(b"\1\1\0" + b.varint(1000000)),
        "unsupported",
        "static",
        "a static table has a registered id",
    )
    yield Case(
        "huffman_overfull_code", huffman({**FLAT16, 0: 3}), "corrupt", "Kraft", "Kraft sum is 1"
    )
    yield Case(
        "huffman_underfull_code", huffman({**FLAT16, 0: 5}), "corrupt", "Kraft", "Kraft sum is 1"
    )
    yield Case("huffman_no_code", huffman({0: 0, 1: 0}), "corrupt", "Kraft", "Kraft sum is 1")
    yield Case(
        "huffman_lone_symbol", huffman({3: 1}), "corrupt", "Kraft", "a lone symbol has a partner"
    )
    long = {s: s + 1 for s in range(12)} | {12: 12}
    yield Case(
        "huffman_overlong_code", huffman(long), "corrupt", "length", "lengths are at most 11"
    )
    odd = b.huffman_table({0: 1, 1: 2, 2: 2}, base=112)
    yield Case(
        "huffman_table_padding",
        tables(b"\1" + odd[:-1] + bytes([odd[-1] | 0xF0])),
        "corrupt",
        "length",
        "the last odd nibble is padded with 0",
    )
    wide = b.flat_lengths(17)
    yield Case(
        "table_symbol_outside_alphabet",
        huffman(wide),
        "corrupt",
        "alphabet",
        "a table gives no code to symbols outside the alphabet",
    )
    yield Case(
        "table_unused_may_be_wider",
        scaled(tables=b.tables_section(TABLE16, b.huffman_table(wide))).frame(),
        "accepted",
        "",
        "a table that no sequence uses is checked for itself only",
    )
    yield Case(
        "table_unused_is_checked",
        scaled(tables=b.tables_section(TABLE16, b.huffman_table({**FLAT16, 0: 3}))).frame(),
        "corrupt",
        "Kraft",
        "a table that no sequence uses is checked for itself",
    )
    unknown_static = bytes([1]) + b.zigzag(0) + b.varint(2**40)
    yield Case(
        "table_unused_static_id",
        scaled(tables=b.tables_section(TABLE16, unknown_static)).frame(),
        "accepted",
        "",
        "the id of a table that nothing uses is not looked up",
    )

    pairs = b.huffman_table({0: 1, 0x11: 1}, base=112, pairs=True)
    right = b.parts(RAW32, [bytes(2)])
    yield Case("pairs_right", scaled(data=right, table=pairs).frame(), "accepted", "", "pairs")
    yield Case(
        "pairs_of_wide_alphabet",
        scaled(ScaledFields(window=15), data=right, table=pairs).frame(),
        "corrupt",
        "pairs",
        "pairs need an alphabet of at most 16",
    )
    yield Case(
        "pairs_symbol_outside_alphabet",
        scaled(
            ScaledFields(window=13),
            data=right,
            table=b.huffman_table({0: 1, 0xF1: 1}, base=112, pairs=True),
        ).frame(),
        "corrupt",
        "alphabet",
        "both halves of a joint symbol are in the alphabet",
    )
    yield Case(
        "pairs_phantom",
        scaled(
            ScaledFields(shape=(31,)),
            data=b.parts(b.records(range(31), 8), [b"\0\x80"]),
            table=pairs,
        ).frame(),
        "corrupt",
        "streams",
        "the phantom of an odd stream is 0",
    )


def ans_cases() -> Iterator[Case]:
    def ans(stream: bytes, frequencies: dict[int, int] | None = None) -> bytes:
        table = b.ans_table(frequencies or FREQUENCIES, base=112)
        return scaled(data=b.parts(RAW32, [stream]), table=table).frame()

    def table(payload: bytes) -> bytes:
        data = b.parts(RAW32, [ANS_STREAM])
        return scaled(data=data, tables=b"\1" + payload).frame()

    yield Case("ans_right", ans(ANS_STREAM), "accepted", "", "ANS")
    for name, change in (("low", -1), ("high", 1)):
        yield Case(
            f"ans_frequencies_too_{name}",
            ans(ANS_STREAM, {**FREQUENCIES, 0: 96 + change}),
            "corrupt",
            "frequenc",
            "frequencies sum to 4096",
        )
    written = b.ans_table(FREQUENCIES, base=112)
    yield Case(
        "ans_frequencies_padding",
        table(written[:-1] + bytes([written[-1] | 0x80])),
        "corrupt",
        "frequenc",
        "unused bits are 0",
    )
    yield Case("ans_frequencies_cut", table(written[:-1]), SHORT, "", "the table is complete")
    for name, state in (("low", 2**15 - 1), ("high", 2**31), ("zero", 0), ("max", 2**32 - 1)):
        yield Case(
            f"ans_state_{name}",
            ans(b.u32(state) + ANS_STREAM[4:]),
            "corrupt",
            "streams",
            "initial states lie in [2^15, 2^31)",
        )
    lone = {3: 4096}
    yield Case(
        "ans_final_state",
        ans(b.u32(2**15 + 1) + b.u32(2**15) * 31, lone),
        "corrupt",
        "streams",
        "all states end at 2^15",
    )
    yield Case("ans_lone_symbol", ans(b.u32(2**15) * 32, lone), "accepted", "", "frequency 4096")
    yield Case("ans_words_left", ans(ANS_STREAM + b"\0\0"), "corrupt", "", "all words are used")
    yield Case("ans_half_word", ans(ANS_STREAM + b"\0"), "corrupt", "", "words have two bytes")
    many = [0] * 32 * 6
    rare = b.ans_payload(many, FREQUENCIES, alias=True)
    fields = ScaledFields(shape=(len(many),))
    raw = b.records([r & 255 for r in range(len(many))], 8)

    def long_ans(stream: bytes) -> bytes:
        table = b.ans_table(FREQUENCIES, base=112)
        return scaled(fields, data=b.parts(raw, [stream]), table=table).frame()

    yield Case("ans_words_missing", long_ans(rare[:-2]), SHORT, "", "the words are there")
    yield Case(
        "ans_states_cut", ans(ANS_STREAM[:126]), SHORT, "streams", "there are min(n, 32) states"
    )


def gennorm_cases() -> Iterator[Case]:
    def gennorm(shape: int, window: int = 14, form: int = 2, more: bytes = b"") -> bytes:
        table = bytes([form]) + b.zigzag(112) + bytes([shape, 20]) + more
        known = shape & (0x9F if more else 0x1F)
        weights = gennorm_weights(known, 20, int.from_bytes(more, "little"), 16)
        lengths = lengths_of_weights(weights)
        data = b.parts(RAW32, [b.huffman_stream(SYMBOLS, lengths)])
        return scaled(ScaledFields(window=window), data=data, table=table).frame()

    yield Case("gennorm_right", gennorm(14), "accepted", "", "a gennorm table")
    yield Case(
        "gennorm_other_signs", gennorm(14 | 16), "accepted", "", "its S need not be the tensor's"
    )
    mixture, mean = b"\xa7\x61", b"\x60"
    yield Case("gennorm_mixture_right", gennorm(142, more=mixture), "accepted", "", "of two parts")
    yield Case("gennorm_mean_right", gennorm(158, more=mean), "accepted", "", "with a mean")
    yield Case("gennorm_shape_high_bit", gennorm(142), SHORT, "gennorm", "bit 7 tells of more")
    yield Case("gennorm_mixture_cut", gennorm(142, more=mean), SHORT, "gennorm", "it has 2 bytes")
    yield Case("gennorm_mean_long", gennorm(158, more=mixture), "corrupt", "tables", "it has 1")
    yield Case("gennorm_step_log2_three", gennorm(14 | 96), "corrupt", "gennorm", "it is 0 to 2")
    yield Case("gennorm_pairs", gennorm(14, form=10), "corrupt", "pairs", "there are no pairs")
    yield Case(
        "gennorm_odd_alphabet", gennorm(14 | 16, window=13), "corrupt", "gennorm", "V is whole"
    )
    plane = TensorBody(
        b.planes_tensor(b.U8, (4,), b"\2\0"),
        [Chunk(b.CODED, b.parts(b"", [b"\0"]))],
        {b.TABLES: b"\1\2\0\x0e\x14"},
    )
    yield Case("gennorm_of_plane", plane.frame(), "corrupt", "gennorm", "A is at most 126")
    plane.chunks[:] = [Chunk(b.STORED, bytes(4))]
    yield Case(
        "gennorm_of_plane_without_sequence",
        plane.frame(),
        "corrupt",
        "gennorm",
        "a plane uses its table even if no chunk has the sequence",
    )
    for name, shape, form in (("step_log2_three", 96, 2), ("pairs", 0, 10)):
        unused = bytes([form]) + b.zigzag(0) + bytes([shape, 20])
        yield Case(
            f"gennorm_unused_{name}",
            scaled(tables=b.tables_section(TABLE16, unused)).frame(),
            "corrupt",
            "gennorm",
            "a gennorm table that nothing uses is checked for itself",
        )
