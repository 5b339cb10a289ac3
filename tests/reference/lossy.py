"""Lossy bodies (section 11 of format.md).

In: what follows `pipeline` in the section `tensor`, and the sections. Out: the bytes of the
elements. Assumes: dtype and shape have been read, checked and held against the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xxhash

from .entropy import read_flags, read_integers
from .narrow import OCTETS, Float32s, decode_floats, encode_floats, saturated
from .sections import BUCKET_SCALES, CHECK, SELECTED, TENSOR, VALUES, Sections, refuse_others
from .wire import Reader, corrupt, features_seen

FLOATS = {1: ("f32", 4), 2: ("bf16", 2), 3: ("f16", 2)}
OCTET_DTYPES = {5: "f8_e4m3", 6: "f8_e5m2"}
ALL, FLAGS, GAPS, DRAWN = range(4)
FLOAT, LEVELS, OCTET, TABLE = range(4)

# Decodes a body of section 2 that must have this dtype and this shape.
DecodeNested = Callable[[bytes, str, tuple[int, ...]], bytes]


@dataclass
class Outline:
    """Where a body stands. data: the bytes that `check` covers, and more."""

    dtype: str
    dims: tuple[int, ...]
    data: bytes
    checksums: bool
    in_archive: bool

    @property
    def n(self) -> int:
        return math.prod(self.dims)


def decode_lossy(
    reader: Reader, outline: Outline, sections: Sections, decode_nested: DecodeNested
) -> bytes:
    """reader: stands behind `pipeline`."""
    if outline.dtype not in ("f32", "bf16", "f16"):
        raise corrupt(f"tensor: a lossy body of {outline.dtype}")
    form = reader.u8("form")
    selection, values_form = form & 7, form >> 3
    if selection > DRAWN or values_form > TABLE:
        raise corrupt(f"tensor: form is {form:#x}")
    k = outline.n
    if selection != ALL:
        if outline.n >= 2**31:
            raise corrupt(f"tensor: a selection of {outline.n} elements")
        k = reader.varint("k", 1 if selection == DRAWN else 0, outline.n)
    seed = reader.unsigned(8, "seed") if selection == DRAWN else 0
    if k == 0 and values_form != 0:
        raise corrupt("tensor: a form of values, and none are selected")
    rule = read_rule(reader, values_form) if k else None
    reader.finish()
    check_sections(outline, sections, selection, rule)
    verify(outline, sections)
    features_seen.add("selection/" + ("all", "flags", "gaps", "drawn")[selection])

    places = read_selection(outline.n, k, selection, seed, sections[SELECTED].payload)
    if rule is None:
        features_seen.add("values/none")
        return bytes(outline.n * FLOATS_BYTES[outline.dtype])
    arrays = Arrays(sections, decode_nested)
    shape = outline.dims if selection == ALL else (k,)
    return place_values(restore_values(rule, k, shape, arrays), places, outline)


FLOATS_BYTES = dict(FLOATS.values())


def check_sections(outline: Outline, sections: Sections, selection: int, rule: Rule | None) -> None:
    expected = {TENSOR}
    if selection in (FLAGS, GAPS):
        expected.add(SELECTED)
    if rule:
        expected.add(VALUES)
    if rule and rule.form != FLOAT:
        expected.add(BUCKET_SCALES)
    if outline.checksums or not outline.in_archive:
        expected.add(CHECK)
    refuse_others(sections, expected)
    for section_id in sorted(expected):
        if not sections[section_id].present:
            raise corrupt(f"tensor body: section {section_id} is missing")


def verify(outline: Outline, sections: Sections) -> None:
    section = sections[CHECK]
    if not section.present:
        features_seen.add("check/none")
        return
    features_seen.add("check/" + ("archive" if outline.in_archive else "frame"))
    reader = Reader(section.payload, "check")
    found = reader.unsigned(8, "checksum")
    if not outline.in_archive and any(reader.take(8, "padding")):
        raise corrupt("check: padding is not zero")
    reader.finish()
    covered = outline.data[: section.id_offset]
    if found != (xxhash.xxh3_64_intdigest(covered) if outline.checksums else 0):
        raise corrupt("check: the checksum does not match")


# 11.2 Selection


def read_selection(n: int, k: int, selection: int, seed: int, payload: bytes) -> list[int]:
    """The selected elements, ascending."""
    if selection == ALL:
        return list(range(n))
    if selection == DRAWN:
        return drawn(n, k, seed)
    reader = Reader(payload, "selected")
    if selection == FLAGS:
        flags = read_flags(reader, n, "selected")
        places = [i for i, flag in enumerate(flags) if flag]
    else:
        gaps = read_integers(reader, k, 0, n - k, "selected")
        places, last = [], -1
        for gap in gaps:
            last += gap + 1
            places.append(last)
    reader.finish()
    if len(places) != k:
        raise corrupt(f"selected: {len(places)} flags are set, k is {k}")
    if places and places[-1] >= n:
        raise corrupt(f"selected: gaps lead to element {places[-1]} of {n}")
    return places


WORD = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    x = (x + GAMMA) & WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def drawn(n: int, k: int, seed: int) -> list[int]:
    others = k > n // 2
    features_seen.add("drawn/" + ("others" if others else "selected"))
    chosen: set[int] = set()
    for j in range(n - (n - k if others else k), n):
        draw = mix((mix(seed) + j * GAMMA) & WORD)
        element = draw * (j + 1) >> 64
        chosen.add(j if element in chosen else element)
    return [i for i in range(n) if (i in chosen) != others]


# 11.3 Values


@dataclass
class Rule:
    """How symbols become values. dtype and item_bytes: of the packed array `values`."""

    form: int
    dtype: str
    item_bytes: int
    shift: int = 0
    step: int = 1
    offset: int = 0
    levels: int = 1
    table: Float32s | None = None
    bucket: int = 0


def read_rule(reader: Reader, form: int) -> Rule:
    features_seen.add("values/" + ("float", "levels", "octets", "table")[form])
    if form == FLOAT:
        dtype, item_bytes = read_dtype(reader, FLOATS)
        return Rule(form, dtype, item_bytes, shift=reader.zigzag("shift", -300, 300))
    if form == LEVELS:
        step = reader.varint("step", 1, 2)
        offset = reader.varint("offset", 0, 65535)
        levels = reader.varint("levels", 1, 32767)
        width = reader.u8("width", 1, 2)
        rule = Rule(form, f"u{8 * width}", width, step=step, offset=offset, levels=levels)
        features_seen.update({f"levels/step {step}", f"levels/width {width}"})
    elif form == OCTET:
        dtype, item_bytes = read_dtype(reader, {i: (name, 1) for i, name in OCTET_DTYPES.items()})
        rule = Rule(form, dtype, item_bytes)
    else:
        entries = reader.u8("entries - 1") + 1
        table = np.frombuffer(reader.take(4 * entries, "table"), "<f4")
        if not np.isfinite(table).all():
            raise corrupt("tensor: an entry of the table is not finite")
        rule = Rule(form, "u8", 1, table=table)
    rule.bucket = reader.varint("bucket", 0, 2**31)
    return rule


def read_dtype(reader: Reader, allowed: dict[int, tuple[str, int]]) -> tuple[str, int]:
    dtype = reader.u8("dtype of values")
    if dtype not in allowed:
        raise corrupt(f"tensor: values of dtype {dtype}")
    features_seen.add(f"values/{allowed[dtype][0]}")
    return allowed[dtype]


@dataclass
class Arrays:
    """The packed arrays of a body."""

    sections: Sections
    decode_nested: DecodeNested

    def read(self, section_id: int, dtype: str, item_bytes: int, shape: tuple[int, ...]) -> bytes:
        reader = Reader(self.sections[section_id].payload, f"section {section_id}")
        if reader.u8("form of the packed array", 0, 1) == 1:
            features_seen.add("packed/coded")
            return self.decode_nested(reader.rest(), dtype, shape)
        features_seen.add("packed/plain")
        octets = reader.take(math.prod(shape) * item_bytes, "elements")
        reader.finish()
        return octets


def restore_values(rule: Rule, k: int, shape: tuple[int, ...], arrays: Arrays) -> Float32s:
    octets = arrays.read(VALUES, rule.dtype, rule.item_bytes, shape)
    if rule.form == FLOAT:
        elements = decode_floats(octets, rule.dtype).astype(np.float64)
        with np.errstate(over="ignore"):
            return saturated((elements * 2.0**rule.shift).astype(np.float32))
    scales = read_scales(rule, k, arrays)
    if rule.form == LEVELS:
        symbols = np.frombuffer(octets, f"<u{rule.item_bytes}").astype(np.int64)
        differences = rule.step * symbols - rule.offset
        if abs(differences).max() > rule.levels:
            raise corrupt(f"values: a level beyond {rule.levels}")
        levels: Float32s = differences.astype(np.float32) / np.float32(rule.levels)
        return levels * scales
    if rule.form == OCTET:
        largest = np.float32(OCTETS[rule.dtype].largest)
        shares: Float32s = decode_floats(octets, rule.dtype) / largest
        return shares * scales
    assert rule.table is not None
    indices = np.frombuffer(octets, np.uint8)
    if indices.max() >= len(rule.table):
        raise corrupt(f"values: symbol {indices.max()} of a table of {len(rule.table)} entries")
    with np.errstate(over="ignore"):
        return saturated(rule.table[indices] * scales)


def read_scales(rule: Rule, k: int, arrays: Arrays) -> Float32s:
    """One for each value."""
    bucket = rule.bucket or k
    count = -(-k // bucket)
    features_seen.add("buckets/" + ("one" if count == 1 else "several"))
    scales = np.frombuffer(arrays.read(BUCKET_SCALES, "f32", 4, (count,)), "<f4")
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise corrupt("bucket_scales: a scale is negative or not finite")
    return np.repeat(scales, min(bucket, k))[:k]


def place_values(values: Float32s, places: list[int], outline: Outline) -> bytes:
    item_bytes = FLOATS_BYTES[outline.dtype]
    octets = encode_floats(values, outline.dtype)
    elements = bytearray(outline.n * item_bytes)
    for i, place in enumerate(places):
        start = i * item_bytes
        elements[place * item_bytes : (place + 1) * item_bytes] = octets[start : start + item_bytes]
    return bytes(elements)
