"""Puts frames together by hand, true ones and lying ones, from docs/format.md.

In: fields, symbols, chunks. Out: bytes of a frame. Nothing is checked: what a test asks for is
written, so that a frame can break one rule and keep all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import xxhash

from .build_codes import (
    ans_payload as ans_payload,
)
from .build_codes import (
    ans_table as ans_table,
)
from .build_codes import (
    bitmap as bitmap,
)
from .build_codes import (
    bitstream as bitstream,
)
from .build_codes import (
    byte_integers as byte_integers,
)
from .build_codes import (
    classed_integers as classed_integers,
)
from .build_codes import (
    equal_integers as equal_integers,
)
from .build_codes import (
    flat_lengths as flat_lengths,
)
from .build_codes import (
    huffman_stream as huffman_stream,
)
from .build_codes import (
    huffman_streams as huffman_streams,
)
from .build_codes import (
    huffman_table as huffman_table,
)
from .build_codes import (
    joint as joint,
)
from .build_codes import (
    nibbles as nibbles,
)
from .build_codes import (
    rice_integers as rice_integers,
)
from .build_codes import (
    rice_stream as rice_stream,
)
from .build_codes import (
    runs as runs,
)
from .build_codes import (
    small_integers as small_integers,
)
from .build_codes import (
    small_stream as small_stream,
)
from .build_codes import (
    tables_section as tables_section,
)
from .build_codes import (
    u16 as u16,
)
from .build_codes import (
    u32 as u32,
)
from .build_codes import (
    u64 as u64,
)
from .build_codes import (
    varint as varint,
)
from .build_codes import (
    zigzag as zigzag,
)

F32, BF16, F16, F64, U8, U16 = 1, 2, 3, 4, 8, 10
TENSOR, TABLES, DEAD, SCALES, SIGNS, TAPS, INDEX, CHUNKS, TRAILER = range(1, 10)
SOURCE, SHARED_TABLES, TENSORS, DIRECTORY, FOOTER = range(32, 37)
CODED, ZERO_MAP, CONSTANT, STORED = range(4)
CHECKSUMS, ARCHIVE = 1, 2


# Sections 1 and 8: frames and archives


def section(section_id: int, payload: bytes) -> bytes:
    return bytes([section_id]) + varint(len(payload)) + payload


def frame(
    body: bytes, flags: int = 0, magic: bytes = b"GRDW", version: tuple[int, int] = (0, 1)
) -> bytes:
    return magic + bytes(version) + u16(flags) + varint(len(body)) + body


@dataclass
class Chunk:
    """data: its bytes; side_bytes and decoded matter for checksums only."""

    kind: int
    data: bytes = b""
    table: int = 0
    second: int | None = None
    decoded: bytes = b""
    side_bytes: bytes = b""

    def entry(self) -> bytes:
        second = b"" if self.second is None else bytes([self.second])
        return bytes([self.kind | self.table << 4]) + second + varint(len(self.data))


@dataclass
class TensorBody:
    """The sections of a tensor; `index`, `chunks` and `trailer` are made from the chunks."""

    tensor: bytes
    chunks: list[Chunk] = field(default_factory=list)
    sections: dict[int, bytes] = field(default_factory=dict)
    checksums: bool = False

    def all_sections(self, head: bytes = b"", in_archive: bool = False) -> dict[int, bytes]:
        """head: the bytes before the body that the checksums cover. A section of ours wins."""
        made = {TENSOR: self.tensor}
        if self.chunks:
            made[INDEX] = b"".join(c.entry() for c in self.chunks)
            made[CHUNKS] = b"".join(c.data for c in self.chunks)
        made = dict(sorted((made | self.sections).items()))
        if TRAILER in self.sections:
            return made
        before = b"".join(section(i, p) for i, p in made.items() if i < TRAILER)
        covered = head + before
        trailer = b""
        if self.chunks:
            head_hash = xxhash.xxh3_64_intdigest(covered[: len(covered) - len(made[CHUNKS])])
            if self.checksums:
                trailer = b"".join(u64(self._hash(head_hash, c)) for c in range(len(self.chunks)))
            trailer = trailer.ljust(0 if in_archive else 16, b"\0")
        elif self.checksums:
            trailer = u64(xxhash.xxh3_64_intdigest(covered))
        return dict(sorted((made | {TRAILER: trailer}).items())) if trailer else made

    def _hash(self, head_hash: int, number: int) -> int:
        chunk = self.chunks[number]
        side_hash = xxhash.xxh3_64_intdigest(chunk.side_bytes) if chunk.side_bytes else 0
        return xxhash.xxh3_64_intdigest(chunk.decoded, (head_hash + number + side_hash) % 2**64)

    def body(self, head: bytes = b"") -> bytes:
        return b"".join(section(i, p) for i, p in self.all_sections(head).items())

    def archive_body(self) -> bytes:
        sections = self.all_sections(in_archive=True)
        return b"".join(section(i, p) for i, p in sections.items())

    def frame(self) -> bytes:
        length = len(self.body())  # does not depend on what the checksums are
        head = frame(bytes(length), self.checksums)[:-length]
        return head + self.body(head)

    def with_sections(self, sections: dict[int, bytes]) -> TensorBody:
        return replace(self, sections=self.sections | sections)


def archive(
    tensors: Sequence[tuple[bytes, bytes]], source: bytes | None = None, checksums: bool = False
) -> bytes:
    """tensors: (name, body). source: the payload of that section."""
    sections = archive_sections(tensors, source)
    return archive_frame(sections, checksums)


def archive_sections(
    tensors: Sequence[tuple[bytes, bytes]], source: bytes | None = None
) -> dict[int, bytes]:
    sections = {} if source is None else {SOURCE: source}
    sections[TENSORS] = b"".join(body for _, body in tensors)
    sections[DIRECTORY] = directory([(name, len(body)) for name, body in tensors])
    return sections


def directory(entries: Sequence[tuple[bytes, int]]) -> bytes:
    """entries: (name, body length). Names share what they can with the name before."""
    octets, previous = b"", b""
    for name, length in entries:
        shared = 0
        while shared < min(len(previous), len(name)) and previous[shared] == name[shared]:
            shared += 1
        octets += directory_entry(shared, name[shared:], length)
        previous = name
    return raw_directory(octets, len(entries))


def directory_entry(shared: int, rest: bytes, length: int) -> bytes:
    return varint(shared) + varint(len(rest)) + rest + varint(length)


def raw_directory(octets: bytes, count: int) -> bytes:
    integers = byte_integers(octets) if octets else b""
    return varint(count) + varint(len(octets)) + integers


def archive_frame(
    sections: dict[int, bytes],
    checksums: bool = False,
    offset_error: int = 0,
    hash_error: int = 0,
    behind: bytes = b"",
    flags: int = 0,
) -> bytes:
    """flags: those besides checksums and archive."""
    flags |= ARCHIVE | checksums
    written = {i: section(i, payload) for i, payload in sorted(sections.items())}
    body_bytes = sum(map(len, written.values())) + 18 + len(behind)
    start = frame(bytes(body_bytes), flags)[:-body_bytes]
    offset = len(start) + sum(len(s) for i, s in written.items() if i < DIRECTORY)
    whole = start + b"".join(written.values()) + bytes([FOOTER, 16]) + u64(offset + offset_error)
    tensors_end = len(start) + sum(len(s) for i, s in written.items() if i <= TENSORS)
    covered = whole[: tensors_end - len(sections[TENSORS])] + whole[tensors_end:]
    digest = xxhash.xxh3_64_intdigest(covered) if checksums else 0
    return whole + u64(digest + hash_error) + behind


# Sections 2, 3.1, 5, 6.1: the payload of `tensor`


def tensor_head(dtype: int, shape: Sequence[int]) -> bytes:
    return bytes([dtype, len(shape)]) + b"".join(map(varint, shape))


def planes_tensor(
    dtype: int,
    shape: Sequence[int],
    planes: bytes,
    chunk_elements: int = 65536,
    streams_log2: int = 0,
) -> bytes:
    return (
        tensor_head(dtype, shape) + b"\0" + varint(chunk_elements) + bytes([streams_log2]) + planes
    )


@dataclass
class ScaledFields:
    """The parameters of pipeline 1, as they are written."""

    dtype: int = BF16
    shape: Sequence[int] = (32,)
    chunk_elements: int = 65536
    streams_log2: int = 0
    kept: int = 7
    step_log2: int = 0
    window: int = 14
    modes: int = 0
    low_count: int = 0
    columns: int = 32
    origin: int = 0
    taps_inner: tuple[int, int] | None = None

    def tensor(self) -> bytes:
        return (
            tensor_head(self.dtype, self.shape)
            + b"\1"
            + varint(self.chunk_elements)
            + bytes([self.streams_log2, self.kept, self.step_log2, self.window, self.modes])
            + (bytes([self.low_count]) if self.modes & 8 else b"")
            + varint(self.columns)
            + varint(self.origin)
            + b"".join(map(varint, self.taps_inner or ()))
        )


def kernels_tensor(
    dtype: int,
    shape: Sequence[int],
    kept: int,
    taps: int,
    inner: int,
    modes: int = 0,
    low_count: int = 0,
) -> bytes:
    head = tensor_head(dtype, shape) + b"\2" + varint(65536) + bytes([0, kept, modes])
    if modes & 8:
        head += bytes([low_count])
    return head + varint(taps) + varint(inner)


def taps_section(taps: Sequence[tuple[int, int, Sequence[int]]], effort: int, base: int) -> bytes:
    """taps: h, tau, coefficients of each."""
    payload = bytes([effort + 1]) + zigzag(base)
    for shift, exponent, coefficients in taps:
        payload += bytes([shift]) + zigzag(exponent)
        payload += b"".join(u16(c & 0xFFFF) for c in coefficients)
    return payload


# Sections 3.5 and 3.6: chunks


def parts(raw: bytes, streams: Sequence[bytes], escapes: Sequence[bytes] = ()) -> bytes:
    sizes = b"".join(u16(len(stream)) for stream in streams)
    return u32(len(raw)) + sizes + u16(len(escapes)) + raw + b"".join(streams) + b"".join(escapes)


def records(values: Sequence[int], record_bits: int) -> bytes:
    planes = b"".join(
        bytes(value >> (8 * b) & 255 for value in values) for b in range(record_bits // 8)
    )
    high_bits = record_bits % 8
    return planes + bitstream([(value >> (record_bits - high_bits), high_bits) for value in values])
