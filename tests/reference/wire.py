"""The conventions at the head of format.md: errors, integers, varints, bitstreams.

In: bytes of a frame. Out: integers, or a FormatError with the kind that the format states.
Assumes: nothing about the bytes. Speed does not matter here, being readable does.
"""

from __future__ import annotations

# What a decoded frame made use of; the tests ask whether the golden files cover the format.
features_seen: set[str] = set()


class FormatError(Exception):
    """A frame is refused. kind: truncated, corrupt, unsupported or limit."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def corrupt(message: str) -> FormatError:
    return FormatError("corrupt", message)


def unsupported(message: str) -> FormatError:
    return FormatError("unsupported", message)


class Reader:
    """Reads fields one after the other. What reaches beyond the end has the kind `at_end`."""

    def __init__(self, data: bytes, name: str, at_end: str = "corrupt") -> None:
        self.data, self.name, self.at_end, self.offset = data, name, at_end, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.offset

    def take(self, count: int, field: str) -> bytes:
        if count > self.left:
            message = f"{self.name}: {field} needs {count} bytes, {self.left} are left"
            raise FormatError(self.at_end, message)
        self.offset += count
        return self.data[self.offset - count : self.offset]

    def rest(self) -> bytes:
        return self.take(self.left, "rest")

    def unsigned(self, byte_count: int, field: str) -> int:
        return int.from_bytes(self.take(byte_count, field), "little")

    def u8(self, field: str, low: int = 0, high: int = 255) -> int:
        return self._within(self.unsigned(1, field), field, low, high)

    def i16(self, field: str) -> int:
        return int.from_bytes(self.take(2, field), "little", signed=True)

    def varint(self, field: str, low: int = 0, high: int = 2**63 - 1) -> int:
        value, shift = 0, 0
        while True:
            byte = self.u8(field)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
            if shift == 63:
                raise corrupt(f"{self.name}: {field} is a varint of more than 9 bytes")
        if byte == 0 and shift > 7:
            raise corrupt(f"{self.name}: {field} is not the shortest varint")
        return self._within(value, field, low, high)

    def zigzag(self, field: str, low: int, high: int) -> int:
        value = self.varint(field)
        return self._within((value >> 1) ^ -(value & 1), field, low, high)

    def finish(self) -> None:
        if self.left:
            raise corrupt(f"{self.name}: {self.left} bytes are left over")

    def _within(self, value: int, field: str, low: int, high: int) -> int:
        if not low <= value <= high:
            raise corrupt(f"{self.name}: {field} is {value}, allowed are {low} to {high}")
        return value


class BitReader:
    """A bitstream: fields of some bits, lowest bit first."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name, self.position = data, name, 0

    def take(self, bits: int) -> int:
        end = self.position + bits
        if end > 8 * len(self.data):
            raise corrupt(f"{self.name}: the bitstream ends too early")
        window = self.data[self.position >> 3 : (end + 7) >> 3]
        value = int.from_bytes(window, "little") >> (self.position & 7)
        self.position = end
        return value & ((1 << bits) - 1)

    def align(self) -> None:
        """Go to the next byte; what is passed must be zero."""
        if self.take(-self.position % 8):
            raise corrupt(f"{self.name}: unused bits are not zero")

    def take_bytes(self, count: int) -> bytes:
        assert self.position % 8 == 0
        start = self.position >> 3
        self.position += 8 * count
        if self.position > 8 * len(self.data):
            raise corrupt(f"{self.name}: it ends too early")
        return self.data[start : start + count]

    def finish(self) -> None:
        self.align()
        if self.position != 8 * len(self.data):
            raise corrupt(f"{self.name}: bytes are left over")


def bytes_for(bits: int) -> int:
    return (bits + 7) // 8


def take_records(bits: BitReader, count: int, record_bits: int) -> list[int]:
    """Section 3.5: the byte planes of `count` records, lowest first, then the bits above them."""
    planes = [bits.take_bytes(count) for _ in range(record_bits // 8)]
    high_bits = record_bits % 8
    records = []
    for i in range(count):
        record = bits.take(high_bits)
        for plane in reversed(planes):
            record = record << 8 | plane[i]
        records.append(record)
    bits.align()
    return records


def take_counted(bits: BitReader, count: int, low_count: int, width: int) -> int:
    """Section 3.5: g of `width` bits; its last set bit is bit low_count + count from the top."""
    if count == 0:
        return bits.take(low_count) << (width - low_count)
    if count == 15:
        return bits.take(width)
    used = low_count + count
    if used > width:
        raise corrupt(f"{bits.name}: count {count}, low_count {low_count}, of {width} bits")
    return (bits.take(used - 1) << 1 | 1) << (width - used)
