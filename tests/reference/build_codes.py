"""Writes integers, tables, streams and small codes by hand (format.md: conventions, 4 and 7).

In: numbers and symbols. Out: bytes. Nothing is checked, so that a test can write lies.
"""

from __future__ import annotations

from collections.abc import Sequence

from .entropy import alias_slots, canonical_codes, contiguous_slots, segments
from .wire import bytes_for

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


def rice_integers(values: Sequence[int], low_bits: int, smallest: int | None = None) -> bytes:
    smallest = min(values) if smallest is None else smallest
    fields = []
    for value in values:
        t = value - smallest
        fields += [((1 << (t >> low_bits)) - 1, (t >> low_bits) + 1)]
        fields += [(t & ((1 << low_bits) - 1), low_bits)]
    return rice_stream(smallest, low_bits, bitstream(fields))


def rice_stream(smallest: int, low_bits: int, stream: bytes) -> bytes:
    return b"\5" + zigzag(smallest) + bytes([low_bits]) + varint(len(stream)) + stream


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
