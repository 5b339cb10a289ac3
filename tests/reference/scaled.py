"""Pipeline 1, `scaled` (section 3 of format.md).

In: the tensor's sections and a chunk. Out: the chunk's elements as integers of their bits.
Assumes: a float dtype; the frame has been split into sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from .chunk import FLOATS, Entry, FloatLayout, Tensor, read_parts, table_at
from .entropy import decode_sequence, read_flags, read_integers
from .wire import (
    BitReader,
    Reader,
    bytes_for,
    corrupt,
    features_seen,
    take_counted,
    take_records,
)

RAW_SIGN, RANK_ONE, TAP = 0, 1, 2


# 3.1 Parameters


@dataclass
class Parameters:
    layout: FloatLayout
    kept: int
    step_log2: int
    window: int
    has_scales: bool
    sign_mode: int
    counted: bool
    halved: bool
    has_zero: bool
    joint: bool
    low_count: int
    columns: int
    origin: int
    taps: int = 1
    inner: int = 1

    @property
    def signs_in_symbol(self) -> int:
        """S of the format."""
        return 1 if self.sign_mode == RAW_SIGN else 2

    @property
    def alphabet(self) -> int:
        return self.signs_in_symbol * self.window + 2

    @property
    def record_fraction_bits(self) -> int:
        return self.kept - self.step_log2


def read_parameters(reader: Reader, dtype: str) -> Parameters:
    layout = FLOATS[dtype]
    kept = reader.u8("kept", 0, layout.fraction_bits)
    step_log2 = reader.u8("step_log2", 0, min(2, kept))
    window = reader.u8("window", 1, 62)
    modes = reader.u8("modes", 0, 127)
    parameters = Parameters(
        layout,
        kept,
        step_log2,
        window,
        has_scales=bool(modes & 1),
        sign_mode=modes >> 1 & 3,
        counted=bool(modes & 8),
        halved=bool(modes & 16),
        has_zero=bool(modes & 32),
        joint=bool(modes & 64),
        low_count=reader.u8("low_count", 0, kept - step_log2) if modes & 8 else 0,
        columns=reader.varint("columns", 1, 2**31),
        origin=reader.varint("origin"),
    )
    if parameters.sign_mode == 3:
        raise corrupt("tensor: modes: sign_mode is 3")
    if parameters.halved and not parameters.has_scales:
        raise corrupt("tensor: modes: halved without has_scales")
    if parameters.counted and (dtype not in ("f32", "f16") or kept == step_log2):
        raise corrupt(f"tensor: modes: counted with {dtype}, kept {kept}, step_log2 {step_log2}")
    if parameters.joint and not (parameters.counted and parameters.alphabet <= 16):
        raise corrupt(f"tensor: modes: joint with an alphabet of {parameters.alphabet}")
    if parameters.origin >= parameters.columns:
        raise corrupt(f"tensor: origin {parameters.origin}, columns {parameters.columns}")
    if parameters.sign_mode == TAP:
        parameters.taps = reader.varint("taps", 1)
        parameters.inner = reader.varint("inner", 1)
    return parameters


class Scaled:
    """Decodes the chunks of one tensor. sections: id -> payload of those that this pipeline has."""

    def __init__(self, tensor: Tensor, parameters: Parameters, sections: dict[int, bytes]) -> None:
        self.tensor, self.parameters = tensor, parameters
        self.rows = -(-(tensor.n + parameters.origin) // parameters.columns)
        side_values = self.rows + parameters.columns
        has_sides = parameters.has_scales or parameters.sign_mode == RANK_ONE or sections[3]
        if has_sides and side_values > tensor.n // 4 + 65536:
            raise corrupt(f"tensor: {side_values} rows + columns for {tensor.n} elements")
        self._read_dead(sections[3])
        self._read_scales(sections[4])
        self._read_signs(sections[5])
        self._note_features()

    # 3.2 Zeros

    def _read_dead(self, payload: bytes) -> None:
        reader = Reader(payload, "dead")
        flags = reader.u8("flags", 1, 3) if payload else 0
        self.dead_rows, self.dead_columns = [], []
        if flags & 1:
            features_seen.add("dead/rows")
            self.dead_rows = read_flags(reader, self.rows, "dead rows")
        if flags & 2:
            features_seen.add("dead/columns")
            self.dead_columns = read_flags(reader, self.parameters.columns, "dead columns")
        reader.finish()
        self.live_rows: range | list[int] = range(self.rows)
        self.live_columns: range | list[int] = range(self.parameters.columns)
        if flags & 1:
            self.live_rows = [r for r in self.live_rows if not self.dead_rows[r]]
        if flags & 2:
            self.live_columns = [c for c in self.live_columns if not self.dead_columns[c]]

    def _is_live(self, i: int) -> bool:
        row, column = self._place(i)
        dead_row = bool(self.dead_rows) and self.dead_rows[row]
        return not dead_row and not (self.dead_columns and self.dead_columns[column])

    def _place(self, i: int) -> tuple[int, int]:
        return divmod(i + self.parameters.origin, self.parameters.columns)

    # 3.3 Prediction

    def _read_scales(self, payload: bytes) -> None:
        reader = Reader(payload, "scales")
        self.column_scales: dict[int, int] = {}
        self.row_scales: dict[int, int] = {}
        if self.parameters.has_scales:
            low, high = -32768, 32767
            columns = read_integers(reader, len(self.live_columns), low, high, "column scales")
            rows = read_integers(reader, len(self.live_rows), low, high, "row scales")
            self.column_scales = dict(zip(self.live_columns, columns, strict=True))
            self.row_scales = dict(zip(self.live_rows, rows, strict=True))
        reader.finish()

    def _prediction(self, i: int) -> int:
        if not self.parameters.has_scales:
            return 0
        row, column = self._place(i)
        halved = self.parameters.halved
        return (self.row_scales[row] + self.column_scales[column] + halved) >> halved

    # 3.4 Signs

    def _read_signs(self, payload: bytes) -> None:
        self.row_signs: dict[int, int] = {}
        self.column_signs: dict[int, int] = {}
        bits = BitReader(payload, "signs")
        if self.parameters.sign_mode == RANK_ONE:
            self.row_signs = {r: bits.take(1) for r in self.live_rows}
            bits.align()
            self.column_signs = {c: bits.take(1) for c in self.live_columns}
        bits.finish()

    def _previous(self, i: int, start: int) -> int | None:
        parameters = self.parameters
        if parameters.sign_mode != TAP or i - parameters.inner < start:
            return None
        return i - parameters.inner if i // parameters.inner % parameters.taps else None

    # 3.5 and 3.6: symbols, escapes, records of a chunk

    def decode_chunk(
        self, entry: Entry, data: bytes, start: int, count: int
    ) -> tuple[list[int], bytes]:
        """The elements, and the side bytes of 2.3."""
        parameters, name = self.parameters, f"chunk at element {start}"
        reader = Reader(data, name)
        elements = [0] * count
        coded = [i for i in range(start, start + count) if self._is_live(i)]
        if entry.kind == 1:
            flags = read_flags(reader, len(coded), f"zeros of {name}")
            coded = [i for i, zero in zip(coded, flags, strict=True) if not zero]
        side_bytes = data[: reader.offset]

        tables = [table_at(self.tensor.tables, entry.table, name)]
        if parameters.counted and not parameters.joint:
            tables.append(table_at(self.tensor.tables, entry.second or 0, name))
        parts = read_parts(reader, tables, self.tensor.streams, self._escape_bytes(), name)

        zero = parameters.signs_in_symbol * parameters.window
        counts: list[int] = []
        if parameters.joint:
            both = decode_sequence(tables[0], 16, 2 * len(coded), parts.payloads[0], name)
            symbols = both[::2]
            counts = [v for symbol, v in zip(symbols, both[1::2], strict=True) if symbol != zero]
            if max(symbols, default=0) >= parameters.alphabet or sum(counts) != sum(both[1::2]):
                raise corrupt(f"{name}: a joint symbol outside the alphabet, or a count of a zero")
        else:
            alphabet = parameters.alphabet
            symbols = decode_sequence(tables[0], alphabet, len(coded), parts.payloads[0], name)
        if zero in symbols:
            features_seen.add("zeros/in_band")
            if not parameters.has_zero:
                raise corrupt(f"{name}: a zero symbol without has_zero")
        recorded = [(i, s) for i, s in zip(coded, symbols, strict=True) if s != zero]
        if sum(s == zero + 1 for _, s in recorded) != len(parts.escapes):
            raise corrupt(f"{name}: escapes is {len(parts.escapes)}, not the symbols' count")
        if parameters.counted:
            if not parameters.joint:
                counts = decode_sequence(tables[1], 16, len(recorded), parts.payloads[1], name)
            records = self._counted_records(parts.raw, counts, name)
        else:
            records = self._plain_records(parts.raw, len(recorded), name)

        escapes = iter(parts.escapes)
        tap_state: dict[int, tuple[int, int]] = {}  # element -> sign and q of 3.4
        for (i, symbol), (g, raw_sign) in zip(recorded, records, strict=True):
            previous_sign, q = tap_state.get(self._previous(i, start), (0, 0))
            prediction = self._prediction(i)
            low = 0
            if symbol == zero + 1:
                x, low, sign = self._split_escape(next(escapes), name)
                tap_state[i] = sign, 0
            else:
                d, flip = divmod(symbol, parameters.signs_in_symbol)
                x = d + tables[0].base + prediction + ((q + 1) >> 1)
                sign = flip ^ self._guess(i, previous_sign)
                tap_state[i] = sign ^ raw_sign, x - prediction
            elements[i - start] = self._assemble(sign ^ raw_sign, x, g, low)
        return elements, side_bytes

    def _guess(self, i: int, previous_sign: int) -> int:
        if self.parameters.sign_mode == RANK_ONE:
            row, column = self._place(i)
            return self.row_signs[row] ^ self.column_signs[column]
        return previous_sign

    def _plain_records(self, raw: bytes, count: int, name: str) -> list[tuple[int, int]]:
        """(g, sign) of each record; sign 0 when the symbol holds it."""
        bits = BitReader(raw, f"{name}: raw")
        sign_bits = int(self.parameters.sign_mode == RAW_SIGN)
        records = take_records(bits, count, self.parameters.record_fraction_bits + sign_bits)
        bits.finish()
        return [(r >> sign_bits, r & sign_bits) for r in records]

    def _counted_records(self, raw: bytes, counts: list[int], name: str) -> list[tuple[int, int]]:
        parameters = self.parameters
        bits, records = BitReader(raw, f"{name}: raw"), []
        for count in counts:
            sign = bits.take(int(parameters.sign_mode == RAW_SIGN))
            width = parameters.record_fraction_bits
            records.append((take_counted(bits, count, parameters.low_count, width), sign))
        bits.finish()
        return records

    def _low_bits(self) -> int:
        return self.parameters.layout.fraction_bits - self.parameters.kept

    def _escape_bits(self) -> int:
        parameters = self.parameters
        x_bits = parameters.layout.exponent_bits + parameters.step_log2
        return x_bits + self._low_bits() + parameters.signs_in_symbol - 1

    def _escape_bytes(self) -> int:
        return bytes_for(self._escape_bits())

    def _split_escape(self, record: int, name: str) -> tuple[int, int, int]:
        """x, the fraction bits below the kept ones, sign (0 when it is in the raw record)."""
        if record >> self._escape_bits():
            raise corrupt(f"{name}: unused bits of an escape record are not zero")
        sign_bits, low_bits = self.parameters.signs_in_symbol - 1, self._low_bits()
        sign, rest = record & sign_bits, record >> sign_bits
        if rest & ((1 << low_bits) - 1):
            features_seen.add("escape/low_bits")
        return rest >> low_bits, rest & ((1 << low_bits) - 1), sign

    def _assemble(self, sign: int, x: int, g: int, low: int) -> int:
        parameters, layout = self.parameters, self.parameters.layout
        x %= 1 << (layout.exponent_bits + parameters.step_log2)
        e_and_f = (x << parameters.record_fraction_bits | g) << self._low_bits() | low
        return sign << (layout.exponent_bits + layout.fraction_bits) | e_and_f

    def _note_features(self) -> None:
        p = self.parameters
        features_seen.add("sign/" + ("raw", "rank_one", "tap")[p.sign_mode])
        features_seen.add("scales/" + (("whole", "halved")[p.halved] if p.has_scales else "none"))
        features_seen.add(f"step_log2/{p.step_log2}")
        if p.counted:
            features_seen.add("counted/joint" if p.joint else "counted/scaled")
            features_seen.add("low_count/" + ("some" if p.low_count else "0"))
        if p.kept < p.layout.fraction_bits:
            features_seen.add("kept/scaled")
