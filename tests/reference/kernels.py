"""Pipeline 2, `kernels` (section 6 of format.md): values given a guess from earlier taps.

In: the tensor's sections and a chunk. Out: the chunk's elements as integers of their bits.
Assumes: dtype bf16, f16 or f32; the frame has been split into sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from .chunk import FLOATS, Entry, FloatLayout, Parts, Tensor, read_parts, table_at
from .entropy import decode_sequence, read_flags, read_integers
from .wire import BitReader, Reader, corrupt, features_seen, take_counted, take_records

WINDOWS = {-1: 16, 0: 16, 1: 24, 2: 48}  # H by effort


# 6.1 Parameters and `taps`


@dataclass
class Parameters:
    layout: FloatLayout
    lattice_bits: int
    kept: int
    counted: bool
    low_count: int
    taps: int
    inner: int

    @property
    def kept_low_bits(self) -> int:
        return self.kept - self.lattice_bits

    @property
    def dropped_bits(self) -> int:
        return self.layout.fraction_bits - self.kept


def read_parameters(reader: Reader, dtype: str, n: int, chunk_elements: int) -> Parameters:
    if dtype == "f64":
        raise corrupt("tensor: pipeline kernels with f64")
    layout, lattice_bits = FLOATS[dtype], 10 if dtype == "f16" else 7
    kept = reader.u8("kept", lattice_bits, layout.fraction_bits)
    modes = reader.u8("modes")
    if modes & ~8 or (modes and kept == lattice_bits):
        raise corrupt(f"tensor: modes is {modes} in pipeline kernels, kept {kept}")
    low_count = reader.u8("low_count", 0, kept - lattice_bits) if modes else 0
    taps, inner = reader.varint("taps", 2, 64), reader.varint("inner", 1, 32768)
    if n % (taps * inner) or (n > chunk_elements and chunk_elements % (taps * inner)):
        raise corrupt(f"tensor: taps x inner = {taps * inner} does not divide n or chunk_elements")
    return Parameters(layout, lattice_bits, kept, bool(modes), low_count, taps, inner)


@dataclass
class Tap:
    shift: int  # h
    exponent: int  # tau
    coefficients: list[int]


@dataclass
class Guess:
    whole: int  # G
    half: int
    sign: int


class Kernels:
    """Decodes the chunks of one tensor. payload: the section `taps`."""

    def __init__(self, tensor: Tensor, parameters: Parameters, payload: bytes) -> None:
        self.tensor, self.parameters = tensor, parameters
        reader = Reader(payload, "taps")
        effort = reader.u8("effort", 0, 3) - 1
        self.window = WINDOWS[effort]
        self.alphabet = 2 * self.window + 16
        self.base = reader.zigzag("base", -65536, 65536)
        self.taps = []
        for t in range(parameters.taps):
            shift, exponent = reader.u8("h", 1, 24), reader.zigzag("tau", -65536, 65536)
            coefficients = [reader.i16("coefficient") for _ in range(t)]
            if sum(map(abs, coefficients)) > 65535:
                raise corrupt(f"taps: the coefficients of tap {t} are too large")
            self.taps.append(Tap(shift, exponent, coefficients))
        reader.finish()
        features_seen.update({"kernels", f"kernels/effort {effort}"})
        if parameters.counted:
            features_seen.add("counted/kernels")
        elif parameters.kept_low_bits:
            features_seen.add("low records/kernels")

    # 6.2 Chunk

    def decode_chunk(
        self, entry: Entry, data: bytes, start: int, count: int
    ) -> tuple[list[int], bytes]:
        """The elements, and the side bytes of 2.3."""
        parameters, name = self.parameters, f"chunk at element {start}"
        reader, flags = Reader(data, name), [False] * count
        if entry.kind == 1:
            flags = read_flags(reader, count, f"zeros of {name}")
        kernels = count // parameters.taps
        scales = read_integers(reader, kernels, -1024, 1024, f"kernel scales of {name}")

        side_bytes = data[: reader.offset]

        second = entry.second or 0
        numbers = [second, entry.table] + ([second + 1] if parameters.counted else [])
        tables = [table_at(self.tensor.tables, number, name) for number in numbers]
        escape_bytes = (1 + parameters.layout.exponent_bits + parameters.layout.fraction_bits) // 8
        parts = read_parts(reader, tables, self.tensor.streams, escape_bytes, name)

        order = [(t, j) for t in range(parameters.taps) for j in range(kernels)]
        coded = [(t, j) for t, j in order if not flags[self._place(t, j)]]
        of_first_tap = sum(t == 0 for t, _ in coded)
        symbols = []
        for k, part in enumerate((of_first_tap, len(coded) - of_first_tap)):
            symbols += decode_sequence(tables[k], self.alphabet, part, parts.payloads[k], name)
        if symbols.count(self.alphabet - 1) != len(parts.escapes):
            raise corrupt(f"{name}: escapes is {len(parts.escapes)}, not the symbols' count")
        counts = None
        if parameters.counted:
            counts = decode_sequence(tables[2], 16, len(coded), parts.payloads[2], name)
        decoded = self._decode_values(coded, symbols, counts, scales, parts, name)
        elements = [0] * count
        for (t, j), element in decoded.items():
            elements[self._place(t, j)] = element
        return elements, side_bytes

    def _place(self, t: int, j: int) -> int:
        inner = self.parameters.inner
        return j // inner * self.parameters.taps * inner + t * inner + j % inner

    # 6.4 and 6.5

    def _decode_values(
        self,
        coded: list[tuple[int, int]],
        symbols: list[int],
        counts: list[int] | None,
        scales: list[int],
        parts: Parts,
        name: str,
    ) -> dict[tuple[int, int], int]:
        """{(tap, kernel): bits of the element}, for the coded elements."""
        parameters = self.parameters
        bits, escapes = BitReader(parts.raw, f"{name}: raw"), iter(parts.escapes)
        elements: dict[tuple[int, int], int] = {}  # low bits still missing, but for escapes
        magnitudes: dict[tuple[int, int], int] = {}
        escape_bits: dict[tuple[int, int], int] = {}
        low_bits: list[int] = []
        for c, ((t, j), symbol) in enumerate(zip(coded, symbols, strict=True)):
            guess = self._guess(t, j, magnitudes)
            if symbol == self.alphabet - 1:
                elements[t, j] = next(escapes)
                escape_bits[t, j] = bits.take(parameters.lattice_bits)
            else:
                elements[t, j] = self._value_given_guess(symbol, t, scales[j], guess, bits, name)
            if counts is not None:
                low_count, width = parameters.low_count, parameters.kept_low_bits
                low_bits.append(take_counted(bits, counts[c], low_count, width))
            magnitudes[t, j] = self._magnitude(elements[t, j], scales[j])
        bits.align()
        if counts is None:
            low_bits = take_records(bits, len(coded), parameters.kept_low_bits)
        bits.finish()
        for place, low in zip(coded, low_bits, strict=True):
            if place not in escape_bits:
                elements[place] |= low << parameters.dropped_bits
                continue
            features_seen.add("escape/kernels")
            fraction = elements[place] & ((1 << parameters.layout.fraction_bits) - 1)
            raw_bits = escape_bits[place] << parameters.kept_low_bits | low
            if fraction >> parameters.dropped_bits != raw_bits:
                raise corrupt(f"{name}: raw bits of an escape contradict its record")
        return elements

    def _value_given_guess(
        self, symbol: int, t: int, scale: int, guess: Guess, bits: BitReader, name: str
    ) -> int:
        layout, lattice_bits = self.parameters.layout, self.parameters.lattice_bits
        if symbol > 2 * self.window:
            c = symbol - 2 * self.window - 1
            k, z = -(c & 1), c >> 1
        else:
            delta = symbol - self.window
            if guess.whole >= 8 and guess.half == 0:
                delta = -delta
            k, z = guess.whole + delta, 0
        m = -1 - k if k < 0 else k
        raw_bits = lattice_bits if m == 0 else max(0, lattice_bits - (m.bit_length() - 1))
        largest = (1 << layout.exponent_bits) - 2 - lattice_bits
        exponent = min(max(self.taps[t].exponent + scale, 1), largest)
        top = m << raw_bits | bits.take(raw_bits)
        top += (exponent + lattice_bits - 1 - raw_bits - z) << lattice_bits
        if not 0 <= top < 1 << (layout.exponent_bits + lattice_bits):
            raise corrupt(f"{name}: the bits of a value, {top}, are out of range")
        sign = guess.sign ^ (k < 0)
        top |= sign << (layout.exponent_bits + lattice_bits)
        return top << (layout.fraction_bits - lattice_bits)

    # 6.3 Guess

    def _magnitude(self, value: int, scale: int) -> int:
        """The value as a signed integer in units of the kernel's scale."""
        layout, lattice_bits = self.parameters.layout, self.parameters.lattice_bits
        e = value >> layout.fraction_bits & ((1 << layout.exponent_bits) - 1)
        f = value & ((1 << layout.fraction_bits) - 1)
        s = min(max(e - self.base - scale, -9), 7)
        if s == -9:
            return 0
        top = (1 << lattice_bits) + (f >> (layout.fraction_bits - lattice_bits))
        v = (top >> (lattice_bits - 7) << (8 + s)) >> 8
        return -v if value >> (layout.exponent_bits + layout.fraction_bits) else v

    def _guess(self, t: int, j: int, magnitudes: dict[tuple[int, int], int]) -> Guess:
        lattice_bits = self.parameters.lattice_bits
        tap = self.taps[t]
        x = sum(c * magnitudes.get((k, j), 0) for k, c in enumerate(tap.coefficients))
        y = min(abs(x) >> (tap.shift - 1), 65535)
        q = max(0, y.bit_length() - (lattice_bits + 2))
        rounding = y >> (lattice_bits + 1) != 0 and self.parameters.kept_low_bits == 0
        m2 = (q << (lattice_bits + 1)) + (y >> q) + rounding
        return Guess(m2 >> 1, m2 & 1, int(x < 0))
