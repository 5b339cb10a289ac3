"""Broken parameters, side sections and chunks of pipeline 1 (format.md 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reference import builder as b
from reference.builder import Chunk, ScaledFields, TensorBody

from .common import FLAT16, RAW32, SHORT, STREAM32, SYMBOLS, Case, scaled


def scaled_cases() -> Iterator[Case]:
    base = ScaledFields()
    f32 = replace(base, dtype=b.F32)
    fields: list[tuple[str, ScaledFields, str, str]] = [
        ("kept_above_fraction_bits", replace(base, kept=8), "kept", "kept is at most W"),
        ("step_log2_three", replace(base, step_log2=3), "step_log2", "step_log2 is at most 2"),
        (
            "step_log2_above_kept",
            replace(base, kept=1, step_log2=2),
            "step_log2",
            "step_log2 is at most kept",
        ),
        ("window_zero", replace(base, window=0), "window", "window is at least 1"),
        ("window_63", replace(base, window=63), "window", "window is at most 62"),
        ("sign_mode_three", replace(base, modes=6), "sign_mode", "sign_mode is 0 to 2"),
        ("modes_reserved_bit", replace(base, modes=128), "modes", "modes bit 7 is 0"),
        ("halved_without_scales", replace(base, modes=16), "halved", "halved needs has_scales"),
        ("counted_of_bf16", replace(base, modes=8), "counted", "counted is for f32 and f16"),
        (
            "counted_of_f64",
            replace(base, dtype=b.F64, kept=52, modes=8),
            "counted",
            "counted is for f32 and f16",
        ),
        (
            "counted_of_nothing",
            replace(f32, kept=2, step_log2=2, modes=8),
            "counted",
            "counted needs kept > step_log2",
        ),
        ("columns_zero", replace(base, columns=0), "columns", "columns is at least 1"),
        (
            "columns_above_2_31",
            replace(base, columns=2**31 + 1),
            "columns",
            "columns is at most 2^31",
        ),
        ("origin_not_below_columns", replace(base, origin=32), "origin", "origin < columns"),
        ("taps_zero", replace(base, modes=4, taps_inner=(0, 1)), "taps", "taps is at least 1"),
        ("inner_zero", replace(base, modes=4, taps_inner=(1, 0)), "inner", "inner is at least 1"),
    ]
    for name, wrong, word, rule in fields:
        yield Case(name, scaled(wrong).frame(), "corrupt", word, rule)

    scales = replace(base, modes=1)
    equal = b.equal_integers(0)
    yield Case(
        "columns_above_share_of_elements",
        scaled(replace(scales, columns=2**31), scales=equal + equal).frame(),
        "corrupt",
        "columns",
        "rows + columns is at most n / 4 + 65536",
    )
    yield Case(
        "rows_above_share_of_elements",
        TensorBody(
            replace(scales, shape=(100000,), columns=1).tensor(),
            [Chunk(b.CONSTANT)] * 2,
            {b.SCALES: equal + equal},
        ).frame(),
        "corrupt",
        "columns",
        "rows + columns is at most n / 4 + 65536",
    )
    for name, value in (("low", -32769), ("high", 32768)):
        yield Case(
            f"scales_too_{name}",
            scaled(scales, scales=b.equal_integers(value) + equal).frame(),
            "corrupt",
            "scale",
            "scales are -32768 to 32767",
        )
    yield Case(
        "scales_sum_too_high",
        scaled(
            scales, scales=b.classed_integers(list(range(32740, 32772)), deltas=True) + equal
        ).frame(),
        "corrupt",
        "scale",
        "a sum of deltas keeps the range",
    )
    yield Case(
        "scales_left_over",
        scaled(scales, scales=equal + equal + b"\0").frame(),
        "corrupt",
        "scales",
        "nothing is left over",
    )
    yield Case("scales_cut", scaled(scales, scales=equal).frame(), SHORT, "scale", "two arrays")
    yield Case("scales_absent", scaled(scales).frame(), SHORT, "scales", "has_scales needs scales")
    signs = replace(base, modes=2, window=7)
    yield Case(
        "signs_cut", scaled(signs, signs=b"\0" * 4).frame(), SHORT, "signs", "all bits are there"
    )
    yield Case(
        "signs_left_over",
        scaled(signs, signs=bytes(6)).frame(),
        "corrupt",
        "signs",
        "nothing is left over",
    )
    yield Case(
        "signs_padding",
        scaled(signs, signs=b"\2" + bytes(4)).frame(),
        "corrupt",
        "signs",
        "unused bits are 0",
    )
    no_flags = b.runs([], [])
    yield Case(
        "dead_flags_zero", scaled(dead=b"\0").frame(), "corrupt", "dead", "at least one flag"
    )
    yield Case(
        "dead_flags_reserved",
        scaled(dead=b"\5" + no_flags).frame(),
        "corrupt",
        "dead",
        "reserved flags are 0",
    )
    yield Case(
        "dead_left_over",
        scaled(dead=b"\1" + no_flags + b"\0").frame(),
        "corrupt",
        "dead",
        "nothing is left over",
    )
    yield Case("dead_cut", scaled(dead=b"\3" + no_flags).frame(), SHORT, "", "two flag maps")


def chunk_cases() -> Iterator[Case]:
    def coded(raw: bytes, streams: list[bytes], escapes: list[bytes] | None = None) -> bytes:
        return scaled(data=b.parts(raw, streams, escapes or [])).frame()

    yield Case(
        "raw_bytes_too_small",
        coded(RAW32[:-1], [STREAM32]),
        SHORT,
        "raw",
        "raw_bytes is what the records need",
    )
    yield Case(
        "raw_bytes_too_large", coded(RAW32 + b"\0", [STREAM32]), "corrupt", "raw", "the same"
    )
    lying = b.u32(2**32 - 1) + b.parts(RAW32, [STREAM32])[4:]
    yield Case(
        "raw_bytes_beyond_chunk", scaled(data=lying).frame(), SHORT, "raw", "it fits the chunk"
    )
    lying = b.u32(32) + b.u16(65535) + b.parts(RAW32, [STREAM32])[6:]
    yield Case("size_beyond_chunk", scaled(data=lying).frame(), SHORT, "size", "it fits the chunk")
    yield Case(
        "chunk_left_over",
        scaled(data=b.parts(RAW32, [STREAM32]) + b"\0").frame(),
        "corrupt",
        "",
        "sizes and escape records end where the chunk ends",
    )
    yield Case("chunk_cut", scaled(data=b"\x20\0\0").frame(), SHORT, "", "the chunk has its sizes")
    yield Case(
        "stream_too_short",
        coded(RAW32, [STREAM32[:-1]]),
        SHORT,
        "stream",
        "a stream holds its symbols",
    )
    yield Case(
        "stream_goes_on",
        coded(RAW32, [STREAM32 + b"\0"]),
        "corrupt",
        "stream",
        "a stream ends in its last byte",
    )
    narrow = {0: 1, 1: 2, 2: 3, 3: 3}
    symbols = [0] * 31 + [1]
    stream = b.huffman_stream(symbols, narrow)
    padded = stream[:-1] + bytes([stream[-1] | 0x80])
    table = b.huffman_table(narrow)
    yield Case(
        "stream_padding",
        scaled(data=b.parts(RAW32, [padded]), table=table).frame(),
        "corrupt",
        "stream",
        "unused bits are 0",
    )
    two_streams = ScaledFields(streams_log2=1)
    yield Case(
        "stream_without_symbols_has_bytes",
        scaled(two_streams, data=b.parts(RAW32, [STREAM32, b"\0"])).frame(),
        "corrupt",
        "stream",
        "a stream without symbols has size 0",
    )
    escaped = [*SYMBOLS[:-1], 15]
    escaped_stream = b.huffman_stream(escaped, FLAT16)
    yield Case(
        "escapes_too_few",
        coded(RAW32, [escaped_stream]),
        "corrupt",
        "escape",
        "escapes is the number of escape symbols",
    )
    yield Case(
        "escapes_too_many",
        coded(RAW32, [escaped_stream], [b"\1", b"\1"]),
        "corrupt",
        "escape",
        "escapes is the number of escape symbols",
    )
    tap = ScaledFields(kept=3, modes=2, window=7)
    yield Case(
        "escape_record_padding",
        scaled(
            tap,
            data=b.parts(b.records([r & 7 for r in range(32)], 3), [escaped_stream], [b"\xff\xff"]),
            signs=bytes(5),
        ).frame(),
        "corrupt",
        "escape",
        "unused bits of an escape record are 0",
    )
    zero = b.huffman_stream([*SYMBOLS[:-1], 14], FLAT16)
    yield Case(
        "zero_symbol_without_has_zero",
        coded(RAW32[:-1], [zero]),
        "corrupt",
        "zero",
        "the zero symbol needs has_zero",
    )
    three = ScaledFields(kept=2)
    raw = bytearray(b.records([r & 7 for r in range(31)], 3))
    yield Case(
        "raw_padding",
        scaled(
            replace(three, shape=(31,)),
            data=b.parts(
                bytes(raw[:-1]) + bytes([raw[-1] | 0x80]), [b.huffman_stream(SYMBOLS[:31], FLAT16)]
            ),
        ).frame(),
        "corrupt",
        "padding",
        "unused bits are 0",
    )
    yield Case(
        "planes_with_escapes",
        TensorBody(
            b.planes_tensor(b.U8, (4,), b"\0"), [Chunk(b.CODED, b.parts(bytes(4), [], [b""]))]
        ).frame(),
        "corrupt",
        "escape",
        "planes have no escapes",
    )
    yield Case(
        "planes_raw_bytes",
        TensorBody(
            b.planes_tensor(b.U8, (4,), b"\0"), [Chunk(b.CODED, b.parts(bytes(5), []))]
        ).frame(),
        "corrupt",
        "raw",
        "raw_bytes is what the raw planes need",
    )
