"""Broken integer arrays and flag maps (format.md 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reference import builder as b
from reference.builder import Chunk, ScaledFields

from .common import FLAT16, RAW32, SHORT, STREAM32, SYMBOLS, Case, scaled


def small_code_cases() -> Iterator[Case]:
    scales = ScaledFields(modes=1)
    equal = b.equal_integers(0)

    def integers(array: bytes) -> bytes:
        return scaled(scales, scales=array + equal).frame()

    def zeros(flag_map: bytes) -> bytes:
        data = flag_map + b.parts(RAW32, [STREAM32])
        return scaled(entry=Chunk(b.ZERO_MAP, data)).frame()

    yield Case("integers_mode_six", integers(b"\6\0"), "corrupt", "mode", "modes are 0 to 5")
    yield Case(
        "integers_last_86",
        integers(b"\1\0\x56" + bytes(44) + b"\0"),
        "corrupt",
        "largest symbol",
        "a class symbol is at most 85",
    )
    good = b.classed_integers([0, 40, 90, 1000] * 8)
    yield Case("integers_right", integers(good), "accepted", "", "mode 1")
    yield Case(
        "integers_extra_bits_cut", scaled(scales, scales=good[:-1]).frame(), SHORT, "", "mode 1"
    )
    start = b"\1\0"
    lengths = b.flat_lengths(33)
    stream = b.huffman_stream([32] * 32, lengths)
    coded = b"\x20" + b.nibbles(list(lengths.values())) + b.varint(len(stream)) + stream
    yield Case(
        "integers_overfull_code",
        integers(start + b"\2\x11\1\4" + bytes(4)),
        "corrupt",
        "Kraft",
        "Kraft sum is 1",
    )
    yield Case(
        "integers_stream_bytes_huge",
        integers(start + b"\1\x11" + b.varint(2**63 - 1)),
        SHORT,
        "stream",
        "the stream fits the section",
    )
    yield Case(
        "integers_stream_too_short",
        integers(start + b"\1\x11\3" + bytes(3)),
        SHORT,
        "",
        "a symbol needs at least a bit",
    )
    yield Case(
        "integers_stream_goes_on",
        integers(start + b"\1\x11\5" + bytes(5)),
        "corrupt",
        "",
        "a stream ends in its last byte",
    )
    thirty_one = replace(scales, shape=(31,), columns=31)
    stream = b.huffman_stream([32] * 31, lengths)
    coded = b"\x20" + b.nibbles(list(lengths.values())) + b.varint(len(stream)) + stream
    extra = bytearray(b.bitstream([(1, 4)] * 31))
    extra[-1] |= 0x80
    yield Case(
        "integers_extra_bits_padding",
        scaled(
            thirty_one,
            data=b.parts(RAW32[:31], [b.huffman_stream(SYMBOLS[:31], FLAT16)]),
            scales=start + coded + bytes(extra) + equal,
        ).frame(),
        "corrupt",
        "",
        "unused bits are 0",
    )
    yield Case("flags_kind_zero", zeros(b"\0"), "corrupt", "kind", "a flag map has kind 1 or 2")
    yield Case("flags_kind_three", zeros(b"\3"), "corrupt", "kind", "a flag map has kind 1 or 2")
    yield Case(
        "flags_bitmap_mode",
        zeros(b"\1" + b.classed_integers([0, 0, 0, 0])),
        "corrupt",
        "mode",
        "a bitmap has integer array mode 0, 3 or 4",
    )
    yield Case(
        "flags_bitmap_value",
        zeros(b"\1" + b.equal_integers(256)),
        "corrupt",
        "",
        "bytes are 0 to 255",
    )
    thirty = ScaledFields(shape=(30,))
    yield Case(
        "flags_bitmap_padding",
        scaled(
            thirty, entry=Chunk(b.ZERO_MAP, b.bitmap([], b"\0\0\0\x40") + b.parts(b"", [b""]))
        ).frame(),
        "corrupt",
        "",
        "unused bits are 0",
    )
    yield Case(
        "flags_runs_too_many",
        zeros(b"\2" + b.varint(17) + equal + b.equal_integers(1)),
        "corrupt",
        "flag map",
        "there are at most (flags + 1) / 2 runs",
    )
    yield Case(
        "flags_runs_huge_count",
        zeros(b"\2" + b.varint(2**62) + equal + b.equal_integers(1)),
        "corrupt",
        "flag map",
        "there are at most (flags + 1) / 2 runs",
    )
    yield Case(
        "flags_distance_zero",
        zeros(b.runs([1, 0], [1, 1])),
        "corrupt",
        "run",
        "a distance is at least 1 but for the first",
    )
    yield Case(
        "flags_length_zero", zeros(b.runs([1, 2], [1, 0])), "corrupt", "flag map", "runs are long"
    )
    yield Case(
        "flags_run_beyond_end",
        zeros(b.runs([30], [3])),
        "corrupt",
        "run",
        "runs do not reach beyond the last flag",
    )
    yield Case(
        "flags_distance_beyond_end",
        zeros(b"\2\1" + b.equal_integers(2**40) + b.equal_integers(1)),
        "corrupt",
        "",
        "runs do not reach beyond the last flag",
    )
