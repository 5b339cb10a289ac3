"""Puts frames together by hand, true ones and lying ones, from docs/format.md.

In: fields, symbols, chunks. Out: bytes of a frame. Nothing is checked: what a test asks for is
written, so that a frame can break one rule and keep all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import xxhash

from .entropy import alias_slots, canonical_codes, contiguous_slots, segments
from .wire import bytes_for

F32, BF16, F16, F64, U8, U16 = 1, 2, 3, 4, 8, 10
TENSOR, TABLES, DEAD, SCALES, SIGNS, TAPS, INDEX, CHUNKS, TRAILER = range(1, 10)
SOURCE, SHARED_TABLES, TENSORS, DIRECTORY, FOOTER = range(32, 37)
CODED, ZERO_MAP, CONSTANT, STORED = range(4)
CHECKSUMS, ARCHIVE = 1, 2


# Conventions


def u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def varint(value: int) -> bytes:
    octets = bytearray()
    while value >= 128:
        octets.append(value & 127 | 128)
        value >>= 7
    return bytes([*octets, value])


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def bitstream(fields: Sequence[tuple[int, int]]) -> bytes:
    """fields: (value, bits) in order."""
    total, position = 0, 0
    for value, bits in fields:
        total |= value << position
        position += bits
    return total.to_bytes(bytes_for(position), "little")


def nibbles(values: Sequence[int]) -> bytes:
    return bitstream([(value, 4) for value in values])


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

    def all_sections(self, head: bytes = b"") -> dict[int, bytes]:
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
            trailer = trailer.ljust(16, b"\0")
        elif self.checksums:
            trailer = u64(xxhash.xxh3_64_intdigest(covered))
        return dict(sorted((made | {TRAILER: trailer}).items())) if trailer else made

    def _hash(self, head_hash: int, number: int) -> int:
        chunk = self.chunks[number]
        side_hash = xxhash.xxh3_64_intdigest(chunk.side_bytes) if chunk.side_bytes else 0
        return xxhash.xxh3_64_intdigest(chunk.decoded, (head_hash + number + side_hash) % 2**64)

    def body(self, head: bytes = b"") -> bytes:
        return b"".join(section(i, p) for i, p in self.all_sections(head).items())

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
    entries = [varint(len(name)) + name + varint(len(body)) for name, body in tensors]
    sections = {} if source is None else {SOURCE: source}
    sections[TENSORS] = b"".join(body for _, body in tensors)
    sections[DIRECTORY] = varint(len(entries)) + b"".join(entries)
    return sections


def archive_frame(
    sections: dict[int, bytes],
    checksums: bool = False,
    offset_error: int = 0,
    hash_error: int = 0,
    behind: bytes = b"",
) -> bytes:
    flags = ARCHIVE | checksums
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
    columns: int = 32
    origin: int = 0
    taps_inner: tuple[int, int] | None = None

    def tensor(self) -> bytes:
        return (
            tensor_head(self.dtype, self.shape)
            + b"\1"
            + varint(self.chunk_elements)
            + bytes([self.streams_log2, self.kept, self.step_log2, self.window, self.modes])
            + varint(self.columns)
            + varint(self.origin)
            + b"".join(map(varint, self.taps_inner or ()))
        )


def kernels_tensor(
    dtype: int, shape: Sequence[int], kept: int, taps: int, inner: int, modes: int = 0
) -> bytes:
    head = tensor_head(dtype, shape) + b"\2" + varint(65536) + bytes([0, kept, modes])
    return head + varint(taps) + varint(inner)


def taps_section(taps: Sequence[tuple[int, int, Sequence[int]]], effort: int, base: int) -> bytes:
    """taps: h, tau, coefficients of each."""
    payload = bytes([effort + 1]) + zigzag(base)
    for shift, exponent, coefficients in taps:
        payload += bytes([shift]) + zigzag(exponent)
        payload += b"".join(u16(c & 0xFFFF) for c in coefficients)
    return payload


# Section 4: tables and streams


def tables_section(*tables: bytes) -> bytes:
    return varint(len(tables)) + b"".join(tables)


def huffman_table(lengths: dict[int, int], base: int = 0, pairs: bool = False) -> bytes:
    first, last = min(lengths), max(lengths)
    values = nibbles([lengths.get(s, 0) for s in range(first, last + 1)])
    return bytes([8 * pairs]) + zigzag(base) + bytes([first, last]) + values


def ans_table(frequencies: dict[int, int], base: int = 0, pairs: bool = False) -> bytes:
    first, last = min(frequencies), max(frequencies)
    fields = [(frequencies.get(s, 0), 12) for s in range(first, last + 1)]
    values = bitstream(fields) if last > first else b""
    return bytes([4 | 8 * pairs]) + zigzag(base) + bytes([first, last]) + values


def flat_lengths(count: int) -> dict[int, int]:
    """Code lengths of a complete code of `count` symbols, as even as can be."""
    long = count.bit_length() - (count & (count - 1) == 0)
    short_count = 2**long - count
    return {s: long - (s < short_count) for s in range(count)}


def joint(symbols: Sequence[int]) -> list[int]:
    padded = [*symbols, 0]
    return [padded[i] | padded[i + 1] << 4 for i in range(0, len(symbols), 2)]


def huffman_stream(symbols: Sequence[int], lengths: dict[int, int]) -> bytes:
    codes = {symbol: (length, code) for (length, code), symbol in canonical_codes(lengths).items()}
    fields = []
    for symbol in symbols:
        length, code = codes[symbol]
        fields += [(code >> (length - 1 - i) & 1, 1) for i in range(length)]
    return bitstream(fields)


def huffman_streams(
    symbols: Sequence[int], lengths: dict[int, int], streams: int = 1, pairs: bool = False
) -> list[bytes]:
    payloads, start = [], 0
    for count in segments(len(symbols), streams):
        part = symbols[start : start + count]
        payloads.append(huffman_stream(joint(part) if pairs else part, lengths))
        start += count
    return payloads


def ans_payload(symbols: Sequence[int], frequencies: dict[int, int], alias: bool) -> bytes:
    """The encoder runs backwards; its words come out last first."""
    slots = alias_slots(frequencies) if alias else contiguous_slots(frequencies)
    slot_of = {place: slot for slot, place in enumerate(slots)}
    states, words = [2**15] * min(len(symbols), 32), []
    for i in reversed(range(len(symbols))):
        state, frequency = states[i % 32], frequencies[symbols[i]]
        if state >= frequency << 19:
            words.append(state & 0xFFFF)
            state >>= 16
        quotient, offset = divmod(state, frequency)
        states[i % 32] = quotient << 12 | slot_of[symbols[i], offset]
    return b"".join(map(u32, states)) + b"".join(map(u16, reversed(words)))


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


# Section 7


def equal_integers(value: int) -> bytes:
    return b"\0" + zigzag(value)


def byte_integers(values: Sequence[int]) -> bytes:
    return b"\4" + bytes(values)


def classed_integers(values: Sequence[int], deltas: bool = False) -> bytes:
    if deltas:
        values = [v - w for v, w in zip(values, [0, *values[:-1]], strict=True)]
    smallest, symbols, extra = min(values), [], []
    for value in values:
        t = value - smallest
        if t < 32:
            symbols.append(t)
            continue
        b = t.bit_length() - 1
        symbols.append(32 + 2 * (b - 5) + (t >> (b - 1) & 1))
        extra.append((t & ((1 << (b - 1)) - 1), b - 1))
    return bytes([2 if deltas else 1]) + zigzag(smallest) + small_stream(symbols) + bitstream(extra)


def small_integers(values: Sequence[int]) -> bytes:
    return b"\3" + small_stream(values)


def small_stream(symbols: Sequence[int]) -> bytes:
    lengths = flat_lengths(max(2, max(symbols) + 1))
    stream = huffman_stream(symbols, lengths)
    return bytes([max(lengths)]) + nibbles(list(lengths.values())) + varint(len(stream)) + stream


def bitmap(flags: Sequence[int], octets: bytes | None = None) -> bytes:
    octets = bitstream([(int(f), 1) for f in flags]) if octets is None else octets
    return b"\1" + byte_integers(octets) if octets else b"\1"


def runs(distances: Sequence[int], lengths: Sequence[int]) -> bytes:
    head = b"\2" + varint(len(distances))
    return head + byte_integers(distances) + byte_integers(lengths) if distances else head
