"""Frames, tensor bodies and archives (sections 1, 2, 8 and 9 of format.md).

In: the bytes of one frame. Out: dtype, shape and the bytes of the elements, or a FormatError.
Assumes: nothing about the bytes. The modules stand in the order of the format: wire, sections,
chunk (planes), scaled, entropy, kernels, archive, lossy.
"""

from __future__ import annotations

import math

import xxhash

from . import chunk, kernels, scaled
from .archive import NamedArray, read_directory, read_source
from .chunk import FLOATS, Entry, Tensor
from .entropy import read_tables
from .lossy import Outline, decode_lossy
from .sections import (
    ARCHIVE,
    CHUNKS,
    DEAD,
    DIRECTORY,
    EXACT,
    FOOTER,
    INDEX,
    LOSSY,
    SCALES,
    SIGNS,
    SOURCE,
    TABLES,
    TAPS,
    TENSOR,
    TENSORS,
    TRAILER,
    Sections,
    read_sections,
    refuse_others,
    refuse_unknown,
)
from .wire import FormatError, Reader, corrupt, features_seen, unsupported

DEFAULT_MAX_OUTPUT = 1 << 28

# Section 9
DTYPES = {
    1: ("f32", 4),
    2: ("bf16", 2),
    3: ("f16", 2),
    4: ("f64", 8),
    5: ("f8_e4m3", 1),
    6: ("f8_e5m2", 1),
    7: ("i8", 1),
    8: ("u8", 1),
    9: ("i16", 2),
    10: ("u16", 2),
    11: ("i32", 4),
    12: ("u32", 4),
    13: ("i64", 8),
    14: ("u64", 8),
    15: ("bool", 1),
}
PIPELINES = ("planes", "scaled", "kernels")
LOSSY_PIPELINE = 5

Array = tuple[str, tuple[int, ...], bytes]


def decode(frame: bytes, max_output: int = DEFAULT_MAX_OUTPUT) -> Array:
    """dtype, shape and bytes of the one tensor of a frame."""
    flags, body_start = read_frame_header(frame)
    if flags & 2:
        raise FormatError("invalid_argument", "the frame is an archive")
    return decode_tensor(frame, body_start, flags, Budget(max_output))


def decode_archive(
    frame: bytes, max_output: int = DEFAULT_MAX_OUTPUT
) -> tuple[str, bytes, list[NamedArray]]:
    """Kind and first bytes of the source file, then name, dtype, shape and bytes of each tensor."""
    flags, body_start = read_frame_header(frame)
    if not flags & 2:
        raise FormatError("invalid_argument", "the frame is not an archive")
    budget = Budget(max_output)
    sections = read_sections(frame, body_start, ARCHIVE, "archive")
    check_footer(frame, sections, bool(flags & 1))
    directory = read_directory(sections[DIRECTORY].payload)
    bodies = Reader(sections[TENSORS].payload, "tensors")
    tensors: list[NamedArray] = []
    for name, length in directory:
        body = bodies.take(length, f"body of {name!r}")
        tensors.append((name, *decode_tensor(body, 0, flags, budget)))
    bodies.finish()
    kind, header = "none", b""
    if sections[SOURCE].present:
        kind, header = read_source(sections[SOURCE].payload, tensors, budget.take)
    features_seen.add(f"source/{kind}")
    return kind, header, tensors


class Budget:
    """Counts what a frame asks for before it is made."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self, byte_count: int, what: str) -> None:
        if byte_count > self.left:
            message = f"{what} asks for {byte_count} bytes, {self.left} are left in the budget"
            raise FormatError("limit", message)
        self.left -= byte_count


# 1 Frame


def read_frame_header(frame: bytes) -> tuple[int, int]:
    """Flags, and where the body starts; it is complete and nothing follows it."""
    reader = Reader(frame, "frame", at_end="truncated")
    if frame[:4] != b"GRDW"[: len(frame)]:
        raise corrupt(f"frame: magic is {frame[:4]!r}, not b'GRDW'")
    reader.take(4, "magic")
    major, minor = reader.u8("major"), reader.u8("minor")
    if (major, minor) != (0, 1):
        raise unsupported(f"frame: version {major}.{minor}, this reference knows 0.1")
    flags = reader.unsigned(2, "flags")
    if flags & ~15:
        raise corrupt(f"frame: flags {flags:#x} has reserved bits")
    if flags & 4:
        raise unsupported(f"frame: flags {flags:#x} has streamed")
    features_seen.add("checksums/on" if flags & 1 else "checksums/off")
    body_bytes = reader.varint("body_bytes")
    start = reader.offset
    reader.take(body_bytes, "body")
    reader.finish()
    return flags, start


# 2 Tensor body


def decode_tensor(
    data: bytes,
    start: int,
    flags: int,
    budget: Budget,
    expected: tuple[str, tuple[int, ...]] | None = None,
) -> Array:
    """data: the frame, or in an archive the body, which begins at `start`, and flags the frame's.

    expected: dtype and shape that the body must have.
    """
    sections = read_sections(data, start, EXACT | LOSSY, "tensor")
    reader = Reader(sections[TENSOR].payload, "tensor")
    dtype, item_bytes = read_dtype(reader)
    shape = tuple(reader.varint("dims") for _ in range(reader.u8("ndim", 0, 32)))
    if math.prod(d for d in shape if d) * item_bytes > 2**62:
        raise corrupt(f"tensor: dims {shape} are more than 2^62 bytes")
    n, checksums, in_archive = math.prod(shape), bool(flags & 1), start == 0
    if expected not in (None, (dtype, shape)):
        raise corrupt(f"tensor: {dtype} {shape}, it must be {expected}")
    budget.take(n * item_bytes, "tensor: dims")
    features_seen.update({f"dtype/{dtype}", f"rank/{min(len(shape), 5)}"})
    if n == 0:
        refuse_unknown(sections, EXACT, "tensor")
        return dtype, shape, decode_empty(data, reader, sections, checksums)

    pipeline = reader.u8("pipeline")
    if pipeline == LOSSY_PIPELINE:
        if not flags & 8:
            raise corrupt("tensor: a lossy body in a frame without the flag")
        refuse_unknown(sections, LOSSY, "lossy")
        outline = Outline(dtype, shape, data, checksums, in_archive)
        return dtype, shape, decode_lossy(reader, outline, sections, decode_nested)
    refuse_unknown(sections, EXACT, "tensor")
    if pipeline >= len(PIPELINES):
        raise unsupported(f"tensor: pipeline {pipeline}")
    if pipeline and dtype not in FLOATS:
        raise corrupt(f"tensor: pipeline {PIPELINES[pipeline]} with dtype {dtype}")
    chunk_elements = reader.varint("chunk_elements", 1, 65536)
    streams_log2 = reader.u8("streams_log2", 0, 5)
    features_seen.update({f"pipeline/{PIPELINES[pipeline]}", f"streams_log2/{streams_log2}"})
    payloads = {section_id: section.payload for section_id, section in sections.items()}
    tables = read_tables(payloads[TABLES])
    tensor = Tensor(dtype, item_bytes, shape, n, chunk_elements, 1 << streams_log2, tables)

    has_second = pipeline == 2
    if pipeline == 0:
        planes = chunk.read_plane_parameters(reader, item_bytes, tables)
    elif pipeline == 1:
        parameters = scaled.read_parameters(reader, dtype)
        has_second = parameters.counted and not parameters.joint
    else:
        kernel_parameters = kernels.read_parameters(reader, dtype, n, chunk_elements)
    reader.finish()
    allowed = {0: set(), 1: {DEAD, SCALES, SIGNS}, 2: {TAPS}}
    refuse_others(sections, {TENSOR, TABLES, INDEX, CHUNKS, TRAILER} | allowed[pipeline])
    if pipeline != 1 and any(table.base for table in tables):
        raise corrupt(f"tables: base is not 0 in pipeline {PIPELINES[pipeline]}")
    if pipeline == 1:
        scaled_decoder = scaled.Scaled(tensor, parameters, payloads)
    elif pipeline == 2:
        kernel_decoder = kernels.Kernels(tensor, kernel_parameters, payloads[TAPS])

    entries = read_index(tensor, payloads[INDEX], pipeline, has_second)
    if not sections[CHUNKS].present:
        raise corrupt("tensor body: chunks is absent")
    chunks = Reader(payloads[CHUNKS], "chunks")
    trailer = Trailer(data, sections, checksums, len(entries), in_archive)
    decoded = []
    for c, entry in enumerate(entries):
        first = c * chunk_elements
        count = min(n, first + chunk_elements) - first
        payload = chunks.take(entry.length, f"chunk {c}")
        side_bytes = b""
        if entry.kind >= 2:
            octets = plain_chunk(tensor, entry, payload, count, f"chunk {c}")
        else:
            if pipeline == 0:
                elements = chunk.decode_planes(tensor, planes, entry, payload, count, f"chunk {c}")
            elif pipeline == 1:
                elements, side_bytes = scaled_decoder.decode_chunk(entry, payload, first, count)
            else:
                elements, side_bytes = kernel_decoder.decode_chunk(entry, payload, first, count)
            octets = b"".join(e.to_bytes(item_bytes, "little") for e in elements)
        features_seen.add("chunk/" + ("coded", "zero map", "constant", "stored")[entry.kind])
        trailer.check_chunk(c, octets, side_bytes)
        decoded.append(octets)
    chunks.finish()
    return dtype, shape, b"".join(decoded)


def decode_nested(body: bytes, dtype: str, shape: tuple[int, ...]) -> bytes:
    """A body in a section of another: as in an archive without checksums."""
    budget = Budget(math.prod(shape) * dict(DTYPES.values())[dtype])
    return decode_tensor(body, 0, 0, budget, (dtype, shape))[2]


def read_dtype(reader: Reader) -> tuple[str, int]:
    dtype = reader.u8("dtype")
    if dtype not in DTYPES:
        raise unsupported(f"tensor: dtype {dtype}")
    return DTYPES[dtype]


def decode_empty(data: bytes, tensor: Reader, sections: Sections, checksums: bool) -> bytes:
    features_seen.add("chunk/none")
    tensor.finish()
    refuse_others(sections, {TENSOR, TRAILER} if checksums else {TENSOR})
    trailer, expected = sections[TRAILER], b""
    if checksums:
        expected = xxhash.xxh3_64_intdigest(data[: trailer.id_offset]).to_bytes(8, "little")
    if trailer.payload != expected:
        raise corrupt("trailer: the checksum does not match the tensor")
    return b""


# 2.2 Index


def read_index(tensor: Tensor, payload: bytes, pipeline: int, has_second: bool) -> list[Entry]:
    reader, entries = Reader(payload, "index"), []
    count = -(-tensor.n // tensor.chunk_elements)
    if count > 1:
        features_seen.add("chunks/several")
    if 2 * count > len(payload):
        raise corrupt(f"index: {count} chunks do not fit into {len(payload)} bytes")
    for c in range(count):
        info = reader.u8("info")
        kind, table = info & 3, info >> 4
        if info & 12 or (table and (kind >= 2 or pipeline == 0)):
            raise corrupt(f"index: info of chunk {c} is {info}")
        second = reader.u8("second", 0, 15) if has_second and kind < 2 else None
        entries.append(Entry(kind, table, second, reader.varint("length")))
    reader.finish()
    return entries


def plain_chunk(tensor: Tensor, entry: Entry, payload: bytes, count: int, name: str) -> bytes:
    """The kinds constant and stored."""
    if entry.kind == 2:
        element = payload or bytes(tensor.item_bytes)
        features_seen.add("constant/" + ("element" if payload else "zero"))
        if len(element) != tensor.item_bytes:
            raise corrupt(f"{name}: a constant chunk of {len(payload)} bytes")
        return element * count
    if len(payload) != count * tensor.item_bytes:
        raise corrupt(f"{name}: a stored chunk of {len(payload)} bytes")
    return payload


# 2.3 Trailer


class Trailer:
    def __init__(
        self,
        data: bytes,
        sections: Sections,
        checksums: bool,
        chunk_count: int,
        in_archive: bool,
    ) -> None:
        self.payload, self.checksums = sections[TRAILER].payload, checksums
        if in_archive and not checksums and sections[TRAILER].present:
            raise corrupt("trailer: it has no place in an archive without checksums")
        self.head_hash = xxhash.xxh3_64_intdigest(data[: sections[CHUNKS].offset])
        used = 8 * chunk_count if checksums else 0
        if len(self.payload) != (used if in_archive else max(16, used)) or any(self.payload[used:]):
            raise corrupt(f"trailer: {len(self.payload)} bytes, or padding that is not zero")

    def check_chunk(self, number: int, octets: bytes, side_bytes: bytes) -> None:
        if not self.checksums:
            return
        side_hash = xxhash.xxh3_64_intdigest(side_bytes) if side_bytes else 0
        seed = (self.head_hash + number + side_hash) % 2**64
        expected = int.from_bytes(self.payload[8 * number : 8 * number + 8], "little")
        if xxhash.xxh3_64_intdigest(octets, seed) != expected:
            raise corrupt(f"trailer: the checksum of chunk {number} does not match")


# 8 Archive body


def check_footer(frame: bytes, sections: Sections, checksums: bool) -> None:
    for section_id in (TENSORS, DIRECTORY, FOOTER):
        if not sections[section_id].present:
            raise corrupt(f"archive body: section {section_id} is absent")
    reader = Reader(sections[FOOTER].payload, "footer")
    offset, digest = reader.unsigned(8, "offset"), reader.unsigned(8, "hash")
    reader.finish()
    if offset != sections[DIRECTORY].id_offset:
        raise corrupt(f"footer: offset is {offset}")
    tensors = sections[TENSORS]
    covered = frame[: tensors.offset] + frame[tensors.offset + len(tensors.payload) : -8]
    if digest != (xxhash.xxh3_64_intdigest(covered) if checksums else 0):
        raise corrupt("footer: the hash does not match")
