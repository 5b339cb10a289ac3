"""Narrow floats to f32 and back (section 11.3 of format.md), by their bits.

In: bytes of elements; or f32 values that are finite. Out: f32 values; or bytes of elements, rounded
to the nearest, ties to even, the largest finite one in the place of infinities.
Assumes: nothing about the bytes; what is not finite is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .wire import corrupt

Float32s = npt.NDArray[np.float32]
LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True)
class Layout:
    exponent_bits: int
    fraction_bits: int
    has_infinities: bool = True

    @property
    def item_bytes(self) -> int:
        return (1 + self.exponent_bits + self.fraction_bits) // 8

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_bits + self.fraction_bits)

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def largest_bits(self) -> int:
        """Without infinities only the last magnitude is a NaN."""
        if not self.has_infinities:
            return self.sign_bit - 2
        return (((1 << self.exponent_bits) - 1) << self.fraction_bits) - 1

    @property
    def largest(self) -> float:
        return self.decode(self.largest_bits)

    def decode(self, bits: int) -> float:
        magnitude = bits & (self.sign_bit - 1)
        if magnitude > self.largest_bits:
            raise corrupt(f"values: an element is {bits:#x}, which is infinite or NaN")
        exponent, fraction = divmod(magnitude, 1 << self.fraction_bits)
        if exponent:
            fraction += 1 << self.fraction_bits
        unit = max(exponent, 1) - self.bias - self.fraction_bits
        return math.copysign(math.ldexp(fraction, unit), -1 if bits & self.sign_bit else 1)

    def encode(self, value: float) -> int:
        sign = self.sign_bit if math.copysign(1, value) < 0 else 0
        exponent = max(math.frexp(value)[1] - 1, 1 - self.bias)
        # A whole number of units, or between two; `round` takes ties to the even one.
        units = round(math.ldexp(abs(value), self.fraction_bits - exponent))
        # The leading bit of a normal number, and a carry, count as one more in the exponent field.
        bits = ((exponent + self.bias - 1) << self.fraction_bits) + units if value else 0
        return sign | min(bits, self.largest_bits)


LAYOUTS = {"f32": Layout(8, 23), "bf16": Layout(8, 7), "f16": Layout(5, 10)}
OCTETS = {"f8_e4m3": Layout(4, 3, has_infinities=False), "f8_e5m2": Layout(5, 2)}


def decode_floats(octets: bytes, dtype: str) -> Float32s:
    layout = (LAYOUTS | OCTETS)[dtype]
    words = np.frombuffer(octets, f"<u{layout.item_bytes}").tolist()
    return np.array([layout.decode(word) for word in words], np.float32)


def encode_floats(values: Float32s, dtype: str) -> bytes:
    layout = LAYOUTS[dtype]
    words = [layout.encode(value) for value in values.tolist()]
    return np.array(words, f"<u{layout.item_bytes}").tobytes()


def saturated(values: Float32s) -> Float32s:
    """The largest finite number in the place of infinities."""
    return np.clip(values, -LARGEST, LARGEST)
