"""Broken Golomb-Rice codes (format.md 7.1, mode 5), as the gaps of a lossy body."""

from __future__ import annotations

from collections.abc import Iterator

from reference import build_lossy as lb
from reference import builder as b
from reference.builder import ScaledFields

from .common import SHORT, Case, scaled
from .lossy import gaps_frame


def rice_cases() -> Iterator[Case]:
    gaps = [3, 0, 90, 17, 5, 64, 1, 2]  # of 8 selected elements of 300
    good = b.rice_integers(gaps, 4)
    stream = good[4:]

    def frame(array: bytes, n: int = 300) -> bytes:
        return gaps_frame(array, 8, n)

    yield Case("rice_right", frame(good), "accepted", "", "mode 5")
    for low_bits in (0, 1, 31):
        name = f"rice_of_{low_bits}_low_bits_right"
        yield Case(name, frame(b.rice_integers(gaps, low_bits)), "accepted", "", "b is 0 to 31")
    lower = b.rice_integers([9, 9, 9, 9, 9, 9, 9, 8], 2, smallest=7)
    yield Case("rice_with_a_lower_smallest", frame(lower), "accepted", "", "m need not appear")
    scales = scaled(
        ScaledFields(modes=1), scales=b.rice_integers([0] * 32, 0) + b.equal_integers(0)
    )
    yield Case("rice_of_scales_right", scales.frame(), "accepted", "", "mode 5 is read everywhere")
    yield Case(
        "rice_low_bits_32",
        frame(b.rice_stream(0, 32, bytes(40))),
        "corrupt",
        "low bits",
        "b is at most 31",
    )
    yield Case(
        "rice_stream_too_short",
        frame(b.rice_stream(0, 4, stream[:-1])),
        SHORT,
        "selected",
        "mode 5",
    )
    yield Case(
        "rice_stream_shorter_than_its_low_bits",
        frame(b.rice_stream(0, 31, bytes(31))),
        SHORT,
        "too short",
        "a value takes b + 1 bits at least",
    )
    yield Case(
        "rice_stream_goes_on",
        frame(b.rice_stream(0, 4, stream + b"\0")),
        "corrupt",
        "stream",
        "a stream ends in its last byte",
    )
    yield Case(
        "rice_padding",
        frame(b.rice_stream(0, 4, stream[:-1] + bytes([stream[-1] | 128]))),
        "corrupt",
        "stream",
        "unused bits are 0",
    )
    yield Case(
        "rice_without_a_last_zero",
        frame(b.rice_stream(0, 0, b"\xff" * 40)),
        "corrupt",
        "selected",
        "a bit 0 ends the bits 1",
    )
    yield Case(
        "rice_stream_bytes_huge",
        frame(b"\5\0\4" + b.varint(2**63 - 1) + stream),
        SHORT,
        "selected",
        "the stream fits the section",
    )
    yield Case("rice_cut", frame(b"\5\0"), SHORT, "selected", "b is there")
    yield Case(
        "rice_smallest_negative",
        frame(b.rice_integers(gaps, 4, smallest=-1)),
        "accepted",
        "",
        "only values must be in the range",
    )
    yield Case(
        "rice_value_negative",
        frame(b.rice_integers([*gaps[:-1], -1], 4)),
        "corrupt",
        "selected",
        "values are in the range of the context",
    )
    for name, smallest in (("high", 2**61), ("low", -(2**61))):
        yield Case(
            f"rice_smallest_{name}",
            frame(b.rice_integers([smallest + v for v in gaps], 4)),
            "corrupt",
            "selected",
            "values are in the range of the context",
        )
    wrapped = b.bitstream([(0b011, 3), (0, 31)] + [(0, 32)] * 7)
    yield Case(
        "rice_above_32_bits",
        frame(b.rice_stream(-(2**32), 31, wrapped)),
        "corrupt",
        "selected",
        "t is below 2^32",
    )
    yield Case(
        "rice_values_equal_and_many",
        lb.LossyBody(
            lb.lossy_tensor(
                b.BF16, (1 << 20,), lb.GAPS, lb.FLOAT, lb.float_rule(b.BF16), k=1 << 20
            ),
            {lb.SELECTED: b.rice_stream(0, 0, bytes(8)), lb.VALUES: lb.plain(b"")},
        ).frame(),
        SHORT,
        "selected",
        "a value takes a bit at least",
    )
