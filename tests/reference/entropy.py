"""Sections 4.1 to 4.3 and 7 of format.md: tables, Huffman, ANS, integer arrays, flag maps.

In: payloads of streams and the tables of the frame. Out: lists of symbols, integers or flags.
Assumes: nothing about the bytes; counts come from the caller, who has checked them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .weights import (
    ANS_TOTAL,
    MAX_CODE_LENGTH,
    bytes_of_more,
    check_gennorm,
    gennorm_weights,
    static_weights,
    values_of_weights,
)
from .wire import BitReader, Reader, bytes_for, corrupt, features_seen, unsupported

# 4.1 Tables


@dataclass
class Table:
    """One entry of `tables`. values: code lengths (huffman) or frequencies (ans), if not 0."""

    source: str
    coder: str
    pairs: bool
    base: int
    values: dict[int, int] = field(default_factory=dict)
    parameters: tuple[int, ...] = ()

    def for_alphabet(self, alphabet: int) -> dict[int, int]:
        """The table's values, checked against the alphabet that is to use them."""
        features_seen.update({f"table/{self.source}", f"coder/{self.coder}"})
        if self.pairs:
            features_seen.add(f"pairs/{self.coder}")
            if alphabet > 16:
                raise corrupt(f"tables: pairs need an alphabet of at most 16, not {alphabet}")
        values = self.values
        if self.source == "static":
            weights = static_weights(self.parameters[0], alphabet, self.pairs)
            values = values_of_weights(weights, self.coder)
        elif self.source == "gennorm":
            values = values_of_weights(gennorm_weights(*self.parameters, alphabet), self.coder)
        for symbol in values:
            if max([symbol & 15, symbol >> 4] if self.pairs else [symbol]) >= alphabet:
                raise corrupt(f"tables: symbol {symbol} is outside an alphabet of {alphabet}")
        return values


def read_tables(payload: bytes) -> list[Table]:
    if not payload:
        return []
    reader = Reader(payload, "tables")
    tables = [read_table(reader) for _ in range(reader.varint("count", 1, 16))]
    reader.finish()
    return tables


def read_table(reader: Reader) -> Table:
    form = reader.u8("form", 0, 15)
    if form & 3 == 3:
        raise unsupported("tables: source 3 is reserved")
    source = ("dynamic", "static", "gennorm")[form & 3]
    coder = "ans" if form & 4 else "huffman"
    table = Table(source, coder, bool(form & 8), reader.zigzag("base", -65536, 65536))
    if source == "static":
        table.parameters = (reader.varint("static id"),)
    elif source == "gennorm":
        shape, scale = reader.u8("shape"), reader.u8("scale")
        table.parameters = (shape, scale, reader.unsigned(bytes_of_more(shape), "more"))
        check_gennorm(shape, table.pairs)
    else:
        first = reader.u8("first")
        last = reader.u8("last", first)
        if coder == "huffman":
            table.values = read_code_lengths(reader, first, last)
        else:
            table.values = read_frequencies(reader, first, last)
    return table


def read_code_lengths(reader: Reader, first: int, last: int) -> dict[int, int]:
    """Nibbles, low one first, of the symbols first to last; a complete code."""
    count = last - first + 1
    nibbles = BitReader(reader.take(bytes_for(4 * count), "code lengths"), "code lengths")
    lengths = [nibbles.take(4) for _ in range(count)]
    nibbles.finish()
    if max(lengths) > MAX_CODE_LENGTH:
        raise corrupt(f"{reader.name}: a code length is {max(lengths)}, at most 11 is allowed")
    kraft_sum = sum(2 ** (MAX_CODE_LENGTH - length) for length in lengths if length)
    if kraft_sum != 2**MAX_CODE_LENGTH:
        raise corrupt(f"{reader.name}: code lengths: Kraft sum {kraft_sum}/2048, 1 is needed")
    return {first + i: length for i, length in enumerate(lengths) if length}


def read_frequencies(reader: Reader, first: int, last: int) -> dict[int, int]:
    if first == last:
        return {first: ANS_TOTAL}
    count = last - first + 1
    fields = BitReader(reader.take(bytes_for(12 * count), "frequencies"), "frequencies")
    frequencies = [fields.take(12) for _ in range(count)]
    fields.finish()
    if sum(frequencies) != ANS_TOTAL:
        raise corrupt(f"tables: frequencies sum to {sum(frequencies)}, not to {ANS_TOTAL}")
    return {first + i: f for i, f in enumerate(frequencies) if f}


# 4.2 Huffman


def canonical_codes(lengths: dict[int, int]) -> dict[tuple[int, int], int]:
    """{(length, code): symbol}."""
    codes: dict[tuple[int, int], int] = {}
    code, previous = 0, None
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items()):
        code = 0 if previous is None else (code + 1) << (length - previous)
        codes[length, code] = symbol
        previous = length
    return codes


def huffman_stream(payload: bytes, lengths: dict[int, int], count: int, name: str) -> list[int]:
    if count > 8 * len(payload):
        raise corrupt(f"{name}: {count} symbols do not fit into {len(payload)} bytes")
    codes, bits, symbols = canonical_codes(lengths), BitReader(payload, name), []
    for _ in range(count):
        length, code = 0, 0
        while (length, code) not in codes:
            length, code = length + 1, code << 1 | bits.take(1)
        symbols.append(codes[length, code])
    bits.finish()
    return symbols


def segments(count: int, streams: int) -> list[int]:
    """How many symbols each of the streams has."""
    segment = (-(-count // streams) + 31) // 32 * 32
    return [max(0, min(count - k * segment, segment)) for k in range(streams)]


# 4.3 ANS


def contiguous_slots(frequencies: dict[int, int]) -> list[tuple[int, int]]:
    """(symbol, offset) of each slot."""
    return [(s, o) for s in sorted(frequencies) for o in range(frequencies[s])]


def alias_slots(frequencies: dict[int, int]) -> list[tuple[int, int]]:
    left = [frequencies.get(s, 0) for s in range(16)]
    small = [s for s in range(16) if left[s] < 256]
    large = [s for s in range(16) if left[s] >= 256]
    divider, alias = [256] * 16, list(range(16))
    while small:
        b = small.pop()
        divider[b] = left[b]
        t = large[-1]
        alias[b] = t
        left[t] -= 256 - divider[b]
        if left[t] < 256:
            small.append(large.pop())
    slots, used = [], [0] * 16
    for z in range(ANS_TOTAL):
        b = z >> 8
        s = b if z & 255 < divider[b] else alias[b]
        slots.append((s, used[s]))
        used[s] += 1
    return slots


def ans_stream(
    payload: bytes, frequencies: dict[int, int], alias: bool, count: int, name: str
) -> list[int]:
    features_seen.add("ans/alias" if alias else "ans/contiguous")
    slots = alias_slots(frequencies) if alias else contiguous_slots(frequencies)
    reader, lanes, symbols = Reader(payload, name), min(count, 32), []
    states = [reader.unsigned(4, "state") for _ in range(lanes)]
    if any(not 2**15 <= state < 2**31 for state in states):
        raise corrupt(f"{name}: an initial ANS state is outside [2^15, 2^31)")
    for i in range(count):
        state = states[i % 32]
        symbol, offset = slots[state & 4095]
        state = frequencies[symbol] * (state >> 12) + offset
        if state < 2**15:
            state = state << 16 | reader.unsigned(2, "word")
        states[i % 32] = state
        symbols.append(symbol)
    if any(state != 2**15 for state in states):
        raise corrupt(f"{name}: an ANS state does not end at 2^15")
    reader.finish()
    return symbols


# Sequences: what tables and streams make together


def stream_count(table: Table, streams: int) -> int:
    return streams if table.coder == "huffman" else 1


def decode_sequence(
    table: Table, alphabet: int, count: int, payloads: list[bytes], name: str
) -> list[int]:
    values, symbols = table.for_alphabet(alphabet), []
    alias = alphabet <= 16 and not table.pairs
    parts = segments(count, len(payloads)) if table.coder == "huffman" else [count]
    for k, (part, payload) in enumerate(zip(parts, payloads, strict=True)):
        units, stream = (part + 1) // 2 if table.pairs else part, f"{name}, stream {k}"
        if table.coder == "huffman":
            decoded = huffman_stream(payload, values, units, stream)
        else:
            decoded = ans_stream(payload, values, alias, units, stream)
        if table.pairs:
            decoded = [half for joint in decoded for half in (joint & 15, joint >> 4)]
            if part % 2 and decoded.pop():
                raise corrupt(f"{stream}: the phantom symbol is not 0")
        symbols += decoded
    return symbols


# 7.1 Integer arrays


def read_integers(
    reader: Reader, count: int, low: int, high: int, name: str, modes: tuple[int, ...] = ()
) -> list[int]:
    """`count` integers, each from low to high. modes: those allowed here, none = all."""
    if count == 0:
        return []
    mode = reader.u8(f"mode of {name}", 0, 5)
    if modes and mode not in modes:
        raise corrupt(f"{name}: integer array mode {mode} is not allowed here")
    features_seen.add(f"integers/{mode}")
    if mode == 0:
        return [reader.zigzag(f"value of {name}", low, high)] * count
    if mode == 3:
        values = read_small_stream(reader, count, 255, name)
    elif mode == 4:
        values = list(reader.take(count, name))
    elif mode == 5:
        values = read_rice(reader, count, name)
    else:
        values = read_classed(reader, count, name)
        if mode == 2:
            for i in range(1, count):
                values[i] += values[i - 1]
    if min(values) < low or max(values) > high:
        raise corrupt(f"{name}: values {min(values)} to {max(values)}, allowed {low} to {high}")
    return values


def read_small_stream(reader: Reader, count: int, largest: int, name: str) -> list[int]:
    last = reader.u8(f"last of {name}", 0, largest)
    lengths = read_code_lengths(reader, 0, last)
    payload = reader.take(reader.varint(f"stream_bytes of {name}"), name)
    return huffman_stream(payload, lengths, count, name)


def read_rice(reader: Reader, count: int, name: str) -> list[int]:
    smallest = reader.zigzag(f"smallest of {name}", -(2**62), 2**62 - 1)
    low_bits = reader.u8(f"low bits of {name}", 0, 31)
    stream = BitReader(reader.take(reader.varint(f"stream_bytes of {name}"), name), name)
    values = []
    for _ in range(count):
        high = 0
        while stream.take(1):
            high += 1
        t = high << low_bits | stream.take(low_bits)
        if t >= 2**32:
            raise corrupt(f"{name}: a value is {t} above the smallest")
        values.append(smallest + t)
    stream.finish()
    return values


def read_classed(reader: Reader, count: int, name: str) -> list[int]:
    smallest = reader.zigzag(f"smallest of {name}", -(2**62), 2**62 - 1)
    symbols = read_small_stream(reader, count, 85, name)
    extra_bits = [0 if s < 32 else 4 + (s - 32) // 2 for s in symbols]
    extra = BitReader(reader.take(bytes_for(sum(extra_bits)), f"extra bits of {name}"), name)
    values = []
    for s, bits in zip(symbols, extra_bits, strict=True):
        t = s if s < 32 else (2 | s & 1) << bits | extra.take(bits)
        values.append(smallest + t)
    extra.finish()
    return values


# 7.2 Flag maps


def read_flags(reader: Reader, count: int, name: str) -> list[bool]:
    kind = reader.u8(f"kind of the flag map of {name}", 1, 2)
    if kind == 1:
        features_seen.add("flags/bitmap")
        octets = read_integers(reader, bytes_for(count), 0, 255, f"bitmap of {name}", (0, 3, 4))
        bits = BitReader(bytes(octets), f"bitmap of {name}")
        flags = [bool(bits.take(1)) for _ in range(count)]
        bits.finish()
        return flags
    features_seen.add("flags/runs")
    runs = reader.varint(f"count of runs of {name}", 0, (count + 1) // 2)
    distances = read_integers(reader, runs, 0, count, f"distances of {name}")
    lengths = read_integers(reader, runs, 1, count, f"lengths of {name}")
    flags = []
    for k, (distance, length) in enumerate(zip(distances, lengths, strict=True)):
        if k and distance == 0:
            raise corrupt(f"{name}: two runs touch (distance 0)")
        if len(flags) + distance + length > count:
            raise corrupt(f"{name}: a run ends behind the last of {count} flags")
        flags += [False] * distance + [True] * length
    return flags + [False] * (count - len(flags))
