"""Broken values of lossy bodies: rules, packed arrays, symbols, scales (format.md 11.3)."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from reference import build_lossy as lb
from reference import builder as b
from reference.build_lossy import LossyBody
from reference.builder import Chunk, TensorBody

from .common import SHORT, Case
from .lossy import sparse

ONE = struct.pack("<f", 1)
LARGEST = 3.4028234663852886e38


def all_of(
    values: int, rule: bytes, symbols: bytes, scales: bytes | None = None, dtype: int = b.F32
) -> bytes:
    """A frame of four elements."""
    sections = {lb.VALUES: symbols}
    if scales is not None:
        sections[lb.BUCKET_SCALES] = scales
    return LossyBody(lb.lossy_tensor(dtype, (4,), lb.ALL, values, rule), sections).frame()


def floats(rule: bytes, symbols: bytes, dtype: int = b.F32) -> bytes:
    return all_of(lb.FLOAT, rule, lb.plain(symbols), dtype=dtype)


def scaled(values: int, rule: bytes, symbols: bytes, scales: bytes = ONE) -> bytes:
    return all_of(values, rule, lb.plain(symbols), lb.plain(scales))


def levels(
    symbols: bytes = b"\1\2\3\0",
    step: int = 1,
    offset: int = 2,
    count: int = 2,
    width: int = 1,
    bucket: int = 0,
    scales: bytes = ONE,
) -> bytes:
    rule = lb.level_rule(step, offset, count, width, bucket)
    return scaled(lb.LEVELS, rule, symbols, scales)


def rule_cases() -> Iterator[Case]:
    four = ONE * 4
    for shift in (-300, 300):
        frame = floats(lb.float_rule(b.F32, shift), four)
        yield Case(f"lossy_shift_{shift}", frame, "accepted", "", "shift is -300 to 300")
    for shift in (-301, 301, 2**40):
        frame = floats(lb.float_rule(b.F32, shift), four)
        yield Case(f"lossy_shift_{shift}", frame, "corrupt", "shift", "shift is -300 to 300")
    for dtype in (b.F64, b.U8, lb.E4M3):
        frame = floats(lb.float_rule(dtype), four)
        yield Case(f"lossy_floats_of_{dtype}", frame, "corrupt", "dtype", "f32, bf16 or f16")
    yield Case("lossy_levels_right", levels(), "accepted", "", "levels")
    wrong = {
        "step": (0, 3),
        "offset": (65536,),
        "count": (0, 32768),
        "width": (0, 3),
        "bucket": (2**31 + 1,),
    }
    for name, values in wrong.items():
        for value in values:
            word = "levels" if name == "count" else name
            frame = levels(**{name: value})  # type: ignore[arg-type]
            yield Case(f"lossy_{word}_{value}", frame, "corrupt", word, f"{word} has a range")
    yield Case("lossy_bucket_2_31", levels(bucket=2**31), "accepted", "", "bucket has a range")
    for dtype in (b.U8, b.F32):
        frame = scaled(lb.OCTETS, lb.octet_rule(dtype, 0), bytes(4))
        yield Case(f"lossy_octets_of_{dtype}", frame, "corrupt", "dtype", "f8_e4m3 or f8_e5m2")
    for name, entry in (("nan", math.nan), ("infinite", -math.inf)):
        frame = scaled(lb.TABLE, lb.table_rule([1.0, entry], 0), bytes(4))
        yield Case(f"lossy_entry_{name}", frame, "corrupt", "table", "entries are finite")
    cut = lb.lossy_tensor(b.F32, (4,), lb.ALL, lb.TABLE, b"\xff" + ONE * 255)
    sections = {lb.BUCKET_SCALES: lb.plain(ONE), lb.VALUES: lb.plain(bytes(4))}
    yield Case("lossy_table_cut", LossyBody(cut, sections).frame(), SHORT, "", "entries are there")


def array_cases() -> Iterator[Case]:
    rule = lb.float_rule(b.BF16)
    good = b.u16(0x3F80) * 4

    def array(payload: bytes) -> bytes:
        return all_of(lb.FLOAT, rule, payload)

    def nested(dtype: int = b.BF16, count: int = 4) -> bytes:
        return array(lb.nested(dtype, count, Chunk(b.CONSTANT)))

    yield Case("lossy_packed_right", nested(), "accepted", "", "packed array")
    stored = array(lb.nested(b.BF16, 4, Chunk(b.STORED, good)))
    yield Case("lossy_packed_stored", stored, "accepted", "", "packed array")
    for form in (2, 255):
        yield Case(f"lossy_packed_{form}", array(bytes([form]) + good), "corrupt", "values", "0, 1")
    yield Case("lossy_packed_empty", array(b""), SHORT, "values", "it has a form")
    yield Case("lossy_plain_short", array(lb.plain(good[:-1])), SHORT, "values", "count elements")
    yield Case("lossy_plain_long", array(lb.plain(good + b"\0")), "corrupt", "values", "the same")
    for name, frame in (
        ("of_f16", nested(b.F16)),
        ("of_f32", nested(b.F32)),
        ("of_3", nested(count=3)),
        ("of_5", nested(count=5)),
        ("of_none", array(b"\1" + TensorBody(b.tensor_head(b.BF16, (0,))).archive_body())),
        ("of_2_60", nested(count=2**60)),
    ):
        yield Case(f"lossy_nested_{name}", frame, SHORT, "", "its dtype and count are known")
    square = TensorBody(b.planes_tensor(b.BF16, (2, 2), bytes(2)), [Chunk(b.CONSTANT)])
    yield Case(
        "lossy_nested_of_2_dims",
        array(b"\1" + square.archive_body()),
        "corrupt",
        "values",
        "it has one dimension",
    )
    line = TensorBody(b.planes_tensor(b.BF16, (4,), bytes(2)), [Chunk(b.CONSTANT)])
    yield Case(
        "lossy_nested_with_trailer",
        array(b"\1" + line.body()),
        "corrupt",
        "trailer",
        "as in an archive without checksums",
    )
    yield Case(
        "lossy_nested_optional_section",
        array(b"\1" + line.archive_body() + b.section(200, b"x")),
        "accepted",
        "",
        "it is a body as any",
    )
    yield Case("lossy_nested_cut", array(b"\1" + line.archive_body()[:-3]), SHORT, "", "it ends")
    inner = sparse().body(in_archive=True)
    yield Case("lossy_nested_lossy", array(b"\1" + inner), "corrupt unsupported", "", "it is exact")
    octets = lb.octet_rule(lb.E4M3, 0)
    for dtype, kinds in ((lb.E4M3, "accepted"), (b.U8, "corrupt")):
        coded = lb.nested(dtype, 4, Chunk(b.CONSTANT, b"\x30"))
        frame = all_of(lb.OCTETS, octets, coded, lb.plain(ONE))
        word = "" if kinds == "accepted" else "values"
        yield Case(f"lossy_nested_octets_of_{dtype}", frame, kinds, word, "the type of the values")
    coded = lb.nested(b.F32, 1, Chunk(b.CONSTANT, ONE))
    frame = all_of(lb.OCTETS, octets, lb.plain(b"\x30" * 4), coded)
    yield Case("lossy_nested_scales", frame, "accepted", "", "a packed array of one f32 a bucket")


def value_cases() -> Iterator[Case]:
    for dtype, number, width in (
        (b.F32, 0x7F800000, 4),
        (b.F32, 0xFFC00000, 4),
        (b.F32, 0x7F800001, 4),
        (b.BF16, 0xFF80, 2),
        (b.BF16, 0x7FC0, 2),
        (b.F16, 0x7C00, 2),
        (b.F16, 0xFFFF, 2),
    ):
        frame = floats(lb.float_rule(dtype), bytes(3 * width) + number.to_bytes(width, "little"))
        yield Case(f"lossy_element_{number:x}", frame, "corrupt", "values", "elements are finite")
    largest = floats(lb.float_rule(b.F32), struct.pack("<2f", LARGEST, -LARGEST) * 2, b.F16)
    yield Case("lossy_values_beyond_f16", largest, "accepted", "", "the largest finite number")
    yield Case("lossy_level_too_high", levels(b"\0\4\5\0"), "corrupt", "level", "at most levels")
    low = levels(b"\3\0\3\3", offset=3)
    yield Case("lossy_level_too_low", low, "corrupt", "level", "at least -levels")
    signs = levels(b"\0\1\1\0", 2, 1, 1)
    yield Case("lossy_signs_right", signs, "accepted", "", "step 2")
    yield Case("lossy_sign_two", levels(b"\0\1\2\0", 2, 1, 1), "corrupt", "level", "step 2")
    wide = levels(struct.pack("<4H", 0, 65534, 32767, 1), 1, 32767, 32767, 2)
    yield Case("lossy_levels_wide", wide, "accepted", "", "width 2")
    wide = levels(struct.pack("<4H", 0, 65535, 32767, 1), 1, 32767, 32767, 2)
    yield Case("lossy_level_65535", wide, "corrupt", "level", "width 2")
    for dtype, symbols, kinds in (
        (lb.E4M3, (0x7E, 0xFE), "accepted"),
        (lb.E4M3, (0x7F, 0xFF), "corrupt"),
        (lb.E5M2, (0x7B, 0xFB), "accepted"),
        (lb.E5M2, (0x7C, 0x7F, 0xFC, 0xFD), "corrupt"),
    ):
        for symbol in symbols:
            frame = scaled(lb.OCTETS, lb.octet_rule(dtype, 0), bytes([0, 1, 0x80, symbol]))
            word = "values" if kinds == "corrupt" else ""
            yield Case(f"lossy_octet_{dtype}_{symbol:x}", frame, kinds, word, "octets are finite")
    entries = [1.5, -0.0, LARGEST]
    table = lb.table_rule(entries, 2)
    both = struct.pack("<2f", 1e-3, LARGEST)
    frame = scaled(lb.TABLE, table, b"\0\2\2\1", both)
    yield Case("lossy_table_right", frame, "accepted", "", "the largest finite number")
    frame = scaled(lb.TABLE, table, b"\0\1\3\1", both)
    yield Case("lossy_symbol_beyond_table", frame, "corrupt", "symbol", "symbols are below entries")
    yield from scale_cases()


def scale_cases() -> Iterator[Case]:
    def scale(value: float) -> bytes:
        return levels(bucket=3, scales=ONE + struct.pack("<f", value))

    for name, value in (("nan", math.nan), ("infinite", math.inf), ("negative", -1e-45)):
        rule = "scales are finite and not below 0"
        yield Case(f"lossy_scale_{name}", scale(value), "corrupt", "bucket_scales", rule)
    yield Case("lossy_scale_minus_zero", scale(-0.0), "accepted", "", "-0 is not below 0")
    yield Case("lossy_scale_subnormal", scale(1e-45), "accepted", "", "subnormals count")
    word = "bucket_scales"
    yield Case("lossy_scales_too_few", levels(bucket=3), SHORT, word, "one a bucket")
    many = levels(bucket=2, scales=ONE * 3)
    yield Case("lossy_scales_too_many", many, "corrupt", word, "one a bucket")
    absent = all_of(lb.LEVELS, lb.level_rule(1, 2, 2, 1, 0), lb.plain(b"\1\2\3\0"))
    yield Case("lossy_scales_absent", absent, SHORT, word, "one a bucket")
