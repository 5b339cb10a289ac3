"""What the chunks of all pipelines share, and pipeline 0 (sections 2.1, 3.6 and 5 of format.md).

In: the bytes of a chunk and its entry in `index`. Out: its parts, or its elements as integers.
Assumes: the tensor's fields have been read and checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from .entropy import Table, decode_sequence, stream_count
from .wire import Reader, corrupt, features_seen


@dataclass
class FloatLayout:
    """Section 2.1: sign, E bits of exponent, W bits of fraction."""

    exponent_bits: int
    fraction_bits: int


FLOATS = {
    "f32": FloatLayout(8, 23),
    "bf16": FloatLayout(8, 7),
    "f16": FloatLayout(5, 10),
    "f64": FloatLayout(11, 52),
}


@dataclass
class Tensor:
    """The fields that every pipeline has."""

    dtype: str
    item_bytes: int
    shape: tuple[int, ...]
    n: int
    chunk_elements: int
    streams: int
    tables: list[Table]


@dataclass
class Entry:
    """One entry of `index`."""

    kind: int
    table: int
    second: int | None
    length: int


def table_at(tables: list[Table], number: int, name: str) -> Table:
    if number >= len(tables):
        raise corrupt(f"{name}: table index {number}, there are {len(tables)} tables")
    return tables[number]


@dataclass
class Parts:
    """`u32 raw_bytes | u16 size[...] | u16 escapes | raw | streams | escape records`."""

    raw: bytes
    payloads: list[list[bytes]]
    escapes: list[int]


def read_parts(
    reader: Reader, tables: list[Table], streams: int, escape_bytes: int, name: str
) -> Parts:
    """tables: one for each sequence of the chunk, in order."""
    raw_bytes = reader.unsigned(4, "raw_bytes")
    counts = [stream_count(table, streams) for table in tables]
    sizes = [[reader.unsigned(2, "size") for _ in range(count)] for count in counts]
    escapes = reader.unsigned(2, "escapes")
    raw = reader.take(raw_bytes, "raw")
    payloads = [[reader.take(size, "stream") for size in group] for group in sizes]
    if escapes and not escape_bytes:
        raise corrupt(f"{name}: {escapes} escapes where there can be none")
    records = [reader.unsigned(escape_bytes, "escape record") for _ in range(escapes)]
    reader.finish()
    return Parts(raw, payloads, records)


@dataclass
class Plane:
    """Section 5: how one byte of the elements is coded. mode: 0 raw, 1 constant, 2 coded."""

    mode: int
    value: int = 0


def read_plane_parameters(reader: Reader, item_bytes: int, tables: list[Table]) -> list[Plane]:
    planes = []
    for _ in range(item_bytes):
        plane = Plane(reader.u8("plane mode", 0, 2))
        features_seen.add("plane/" + ("raw", "constant", "coded")[plane.mode])
        if plane.mode:
            plane.value = reader.u8("plane value" if plane.mode == 1 else "plane table")
        if plane.mode == 2:
            table_at(tables, plane.value, "tensor: plane").for_alphabet(256)
        planes.append(plane)
    return planes


def decode_planes(
    tensor: Tensor, planes: list[Plane], entry: Entry, data: bytes, count: int, name: str
) -> list[int]:
    if entry.kind != 0 or entry.table:
        raise corrupt(f"{name}: kind {entry.kind}, table {entry.table} in pipeline planes")
    tables = [table_at(tensor.tables, p.value, name) for p in planes if p.mode == 2]
    parts = read_parts(Reader(data, name), tables, tensor.streams, 0, name)
    if len(parts.raw) != count * sum(p.mode == 0 for p in planes):
        raise corrupt(f"{name}: raw_bytes is {len(parts.raw)}")
    raw, coded = Reader(parts.raw, name), iter(zip(tables, parts.payloads, strict=True))
    elements = [0] * count
    for b, plane in enumerate(planes):
        if plane.mode == 0:
            octets = list(raw.take(count, "raw plane"))
        elif plane.mode == 1:
            octets = [plane.value] * count
        else:
            table, payloads = next(coded)
            octets = decode_sequence(table, 256, count, payloads, f"{name}, plane {b}")
        elements = [e | octet << (8 * b) for e, octet in zip(elements, octets, strict=True)]
    return elements
