"""The reference decoder on frames put together by hand; each expected value is worked out here."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from reference import builder as b
from reference import decoder, entropy, weights, wire
from reference.builder import Chunk, ScaledFields, TensorBody


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def test_smallest_frame_byte_by_byte() -> None:
    head = (
        b"GRDW"
        b"\0\1"  # version 0.1
        b"\1\0"  # flags: checksums
        b"\x0f"  # body_bytes
        b"\1\3"  # section tensor, 3 bytes
        b"\1\1\0"  # f32, ndim 1, dims 0
    )
    frame = head + b"\x09\x08" + wire_hash(head)
    assert decoder.decode(frame) == ("f32", (0,), b"")
    assert frame == TensorBody(b.tensor_head(b.F32, (0,)), checksums=True).frame()


def wire_hash(octets: bytes) -> bytes:
    return decoder.xxhash.xxh3_64_intdigest(octets).to_bytes(8, "little")


def test_stored_and_constant_chunks_with_checksums() -> None:
    first, last = words(1, 2, 3, 4), words(9)
    chunks = [
        Chunk(b.STORED, first, decoded=first),
        Chunk(b.CONSTANT, words(7), decoded=words(7) * 4),
        Chunk(b.CONSTANT, decoded=bytes(8)),
        Chunk(b.STORED, last, decoded=last),
    ]
    tensor = b.planes_tensor(b.U16, (13,), b"\0\0", chunk_elements=4)
    frame = TensorBody(tensor, chunks, checksums=True).frame()
    assert decoder.decode(frame)[2] == first + words(7, 7, 7, 7, 0, 0, 0, 0) + last


def test_every_prefix_is_truncated() -> None:
    data = bytes(range(12))
    body = TensorBody(
        b.planes_tensor(b.U8, (12,), b"\0"), [Chunk(b.STORED, data, decoded=data)], checksums=True
    )
    frame = body.frame()
    assert decoder.decode(frame)[2] == data
    for length in range(len(frame)):
        with pytest.raises(wire.FormatError, match="truncated"):
            decoder.decode(frame[:length])


def test_every_flipped_bit_is_noticed() -> None:
    data = bytes(range(12))
    body = TensorBody(
        b.planes_tensor(b.U8, (12,), b"\0"), [Chunk(b.STORED, data, decoded=data)], checksums=True
    )
    frame = body.frame()
    for bit in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(wire.FormatError):
            decoder.decode(bytes(flipped))


def test_planes_raw_constant_and_coded() -> None:
    # Lowest byte raw, then constant 0xAB, then coded with codes 1: 0, 2: 10, 3: 11; then raw.
    lengths = {1: 1, 2: 2, 3: 2}
    coded = [1, 2, 3, 1]  # bits 0 10 11 0, first bit lowest: 0b011010
    raw = bytes([10, 11, 12, 13]) + bytes([20, 21, 22, 23])
    data = b.u32(8) + b.u16(1) + b.u16(0) + raw + bytes([0b011010])
    tensor = b.planes_tensor(11, (4,), bytes([0, 1, 0xAB, 2, 0, 0]))
    frame = TensorBody(
        tensor,
        [Chunk(b.CODED, data)],
        {b.TABLES: b.tables_section(b.huffman_table(lengths))},
    ).frame()
    expected = [0x14_01_AB_0A, 0x15_02_AB_0B, 0x16_03_AB_0C, 0x17_01_AB_0D]
    assert coded == [e >> 16 & 255 for e in expected]
    assert decoder.decode(frame) == ("i32", (4,), struct.pack("<4I", *expected))


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 1000])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("streams", [1, 4])
def test_huffman_streams_come_back(count: int, pairs: bool, streams: int) -> None:
    symbols = np.random.default_rng(count).integers(0, 16, count).tolist()
    lengths = b.flat_lengths(256 if pairs else 16)
    payloads = b.huffman_streams(symbols, lengths, streams, pairs)
    table = entropy.Table("dynamic", "huffman", pairs, 0, lengths)
    assert entropy.decode_sequence(table, 16, count, payloads, "test") == symbols


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 2000])
@pytest.mark.parametrize("alphabet", [5, 16, 17, 200])
def test_ans_streams_come_back(count: int, alphabet: int) -> None:
    random = np.random.default_rng(alphabet)
    weights = random.random(alphabet) ** 4
    frequencies = {s: 1 + int(w) for s, w in enumerate(weights * 3000 / weights.sum())}
    frequencies[0] += 4096 - sum(frequencies.values())
    shares = np.array(list(frequencies.values())) / 4096
    symbols = random.choice(alphabet, count, p=shares).tolist()
    payload = b.ans_payload(symbols, frequencies, alias=alphabet <= 16)
    table = entropy.Table("dynamic", "ans", False, 0, frequencies)
    assert entropy.decode_sequence(table, alphabet, count, [payload], "test") == symbols


def test_alias_slots_of_three_symbols() -> None:
    # f = 512, 3328, 256: small = 3 .. 15, large = 0, 1, 2 with 2 on top. Bucket 15 goes to symbol
    # 2, which has nothing left and becomes small; its own bucket 2 and then 14 to 3 go to symbol
    # 1, of which 13 buckets are all; bucket 1 goes to symbol 0, which keeps its own.
    slots = entropy.alias_slots({0: 512, 1: 3328, 2: 256})
    owners = [symbol for symbol, _ in slots]
    assert owners[::256] == [0, 0] + [1] * 13 + [2]
    assert owners[255::256] == owners[::256]
    assert slots[0x1FF] == (0, 511)
    assert slots[0x200] == (1, 0)
    assert slots[0xEFF] == (1, 3327)
    assert slots[0xF03] == (2, 3)


def test_lengths_and_frequencies_of_weights() -> None:
    # Fibonacci weights make the longest codes: 1, 2, 3, ... and two of the last length.
    assert weights.lengths_of_weights([8, 5, 3, 2, 1, 1]) == {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 5}
    limited = weights.lengths_of_weights([8, 5, 3, 2, 1, 1], limit=4)
    assert sum(2.0**-length for length in limited.values()) == 1
    assert max(limited.values()) == 4
    assert weights.lengths_of_weights([0, 0, 7]) == {2: 1, 0: 1}
    assert weights.lengths_of_weights([7, 0]) == {0: 1, 1: 1}
    # 4096 / 3 = 1365.3: the shortfall of 1 goes to the lowest.
    assert weights.frequencies_of_weights([5, 5, 0, 5]) == {0: 1366, 1: 1365, 3: 1365}
    # 4096 x 9999 / 10001 = 4095.2 and twice max(1, 0): 1 too many, from the largest.
    assert weights.frequencies_of_weights([1, 9999, 1]) == {0: 1, 1: 4094, 2: 1}


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([7] * 40, b.equal_integers(7)),
        ([-5, 0, 26, 27, 91, 4000], b.classed_integers([-5, 0, 26, 27, 91, 4000])),
        ([10, 10, 9, 40, 39], b.classed_integers([10, 10, 9, 40, 39], deltas=True)),
        ([0, 5, 255, 5], b.small_integers([0, 5, 255, 5])),
        ([0, 5, 255], b.byte_integers([0, 5, 255])),
        ([], b""),
    ],
)
def test_integer_arrays_come_back(values: list[int], written: bytes) -> None:
    reader = wire.Reader(written, "test")
    assert entropy.read_integers(reader, len(values), -10, 5000, "test") == values
    reader.finish()


def test_class_symbols_of_integer_arrays() -> None:
    # t = 32 = 100000: b = 5, symbol 32 + 0 with 4 extra bits 0; t = 91 = 1011011: b = 6, symbol
    # 32 + 2 + 0 with 5 extra bits 11011. Codes of symbols 32 and 34: 0 and 1, so the stream is 10.
    lengths = [0] * 32 + [1, 0, 1]
    written = b"\1\0\x22" + b.nibbles(lengths) + b"\1\2" + b.bitstream([(0, 4), (0b11011, 5)])
    assert entropy.read_integers(wire.Reader(written, "test"), 2, 0, 99, "test") == [32, 91]


@pytest.mark.parametrize(
    "written",
    [
        b.bitmap([0, 1, 1, 0, 0, 0, 0, 0, 1, 0]),
        b.runs([1, 5], [2, 1]),
        b"\2\2\4\1\5\4\2\1",
    ],
)
def test_flag_maps_come_back(written: bytes) -> None:
    flags = entropy.read_flags(wire.Reader(written, "test"), 10, "test")
    assert [i for i, flag in enumerate(flags) if flag] == [1, 2, 8]


def scaled_frame(
    fields: ScaledFields, chunk: Chunk, lengths: dict[int, int], base: int, **sections: bytes
) -> bytes:
    by_id = {getattr(b, name.upper()): payload for name, payload in sections.items()}
    tables = b.tables_section(b.huffman_table(lengths, base))
    return TensorBody(fields.tensor(), [chunk], {b.TABLES: tables} | by_id).frame()


def test_scaled_with_rows_columns_zeros_and_an_escape() -> None:
    """Two rows of three columns, bf16, halved scales, rank_one signs, column 1 dead, a zero map.

    Columns 0 and 2 have scales 2 and 5, rows 0 and 1 have 240 and 243: predictions (R + C + 1) >> 1
    are 121, 123 and 123, 124. Signs: rows 0, 1 and columns 1, 0, so guesses are 1, 0 and 0, 1.
    """
    fields = ScaledFields(shape=(2, 3), window=2, modes=1 | 2 | 16, columns=3)
    # Live elements: 0, 2, 3, 5; element 3 is a zero by the map. S = 2, escape = symbol 5.
    #   0: e = 121 - 1 = 120: d = -1, sign 1 = guess: symbol 0
    #   2: e = 123, d = 0, sign 1, flip: symbol 2 + 1 = 3
    #   5: e = 200, an escape: sign 0
    fractions = [0x11, 0x22, 0x33]
    stream = b.huffman_stream([0, 3, 5], {0: 1, 3: 2, 5: 2})
    escape = b.u16(200 << 1)
    data = b.bitmap([0, 0, 1, 0]) + b.parts(b.records(fractions, 7), [stream], [escape])
    frame = scaled_frame(
        fields,
        Chunk(b.ZERO_MAP, data),
        {0: 1, 3: 2, 5: 2},
        base=-1,
        dead=b"\2" + b.runs([1], [1]),
        scales=b.byte_integers([2, 5]) + b.byte_integers([240, 243]),
        signs=bytes([0b10, 0b01]),
    )
    expected = words(0x8000 | 120 << 7 | 0x11, 0, 0x8000 | 123 << 7 | 0x22, 0, 0, 200 << 7 | 0x33)
    assert decoder.decode(frame) == ("bf16", (2, 3), expected)


def test_scaled_with_taps() -> None:
    """One kernel of 4 taps, bf16, no scales (predictions 0), base 50, V = 30."""
    fields = ScaledFields(shape=(4,), window=30, modes=4 | 32, columns=4, taps_inner=(4, 1))
    # 0: no previous, sign 1: guess 0, flip 1; e = 70: d = 70, symbol 2 (70 - 50) + 1 = 41
    # 1: q = 70: (70 + 1) >> 1 = 35; sign 1 = guess; e = 100: d = 65, symbol 30
    # 2: a zero: symbol 60
    # 3: the previous is a zero: guess 0, q = 0; sign 0; e = 51: d = 51, symbol 2
    lengths = {41: 2, 30: 2, 60: 2, 2: 2}
    stream = b.huffman_stream([41, 30, 60, 2], lengths)
    data = b.parts(b.records([1, 2, 3], 7), [stream])
    frame = scaled_frame(fields, Chunk(b.CODED, data), lengths, base=50)
    expected = words(0x8000 | 70 << 7 | 1, 0x8000 | 100 << 7 | 2, 0, 51 << 7 | 3)
    assert decoder.decode(frame)[2] == expected


@pytest.mark.parametrize("joint", [False, True])
def test_scaled_with_counted_bits_and_kept_bits(joint: bool) -> None:
    """f32 with 20 of 23 fraction bits kept, 2 of them in the symbol, so G = 18; low_count 3."""
    fields = ScaledFields(
        b.F32,
        (5,),
        kept=20,
        step_log2=2,
        window=14,
        modes=8 | 32 | 64 * joint,
        low_count=3,
        columns=5,
    )
    # x = e << 2 | top fraction bits; base 480 (e = 120).
    #   0: e = 120, top 01, g = 101 and zeros: u = 3, v = 0, bits 101; symbol 1; + sign
    #   1: e = 121, top 11, g = 0000 1 and zeros: u = 5, v = 2, bits 0000; symbol 7; - sign
    #   2: a zero: symbol 14
    #   3: e = 120, top 00, g = 1 and 17th bit from the top: u = 17 = 3 + 14, v = 14; symbol 0
    #   4: an escape: e = 3, top 10, g = 3FFFF, u = 18, v = 15, low 3 bits 101, - sign
    symbols, counts = [1, 7, 14, 0, 15], [0, 2, 0, 14, 15]
    raw = b.bitstream(
        [(0, 1), (0b101, 3), (1, 1), (0, 4), (0, 1), (0x8000, 16), (1, 1), (0x3FFFF, 18)]
    )
    lengths = b.flat_lengths(16)
    if joint:
        both = [s for pair in zip(symbols, counts, strict=True) for s in pair]
        streams = [b.huffman_stream(both, lengths)]
    else:
        streams = [b.huffman_stream(s, lengths) for s in (symbols, [0, 2, 14, 15])]
    escape = ((3 << 2 | 0b10) << 3 | 0b101).to_bytes(2, "little")
    chunk = Chunk(b.CODED, b.parts(raw, streams, [escape]), second=None if joint else 0)
    table = b.huffman_table(lengths, base=480)
    frame = TensorBody(fields.tensor(), [chunk], {b.TABLES: b.tables_section(table)}).frame()
    expected = [
        120 << 23 | (1 << 18 | 0b101 << 15) << 3,
        1 << 31 | 121 << 23 | (3 << 18 | 1 << 13) << 3,
        0,
        120 << 23 | (1 << 17 | 1 << 1) << 3,
        1 << 31 | 3 << 23 | (2 << 18 | 0x3FFFF) << 3 | 0b101,
    ]
    assert decoder.decode(frame)[2] == struct.pack("<5I", *expected)


def test_kernels_of_two_taps() -> None:
    """bf16, one kernel of two taps, C = 0, base 127, tau 127 and 126.

    Tap 0 is 1.5 (e = 127, F = 0x40): D = 0, so m = 1, r = 7; no guess: k = 1, symbol 1 + 16 = 17.
    v = 192 << 8 >> 8 = 192. With coefficient 32 and h = 8: X = 6144, Y = 48, so G = 24, half = 0.
    Tap 1 is -1.25 * 2^3 (e = 130, F = 0x20): D = 4, m = (128 + 32) >> 3 = 20, r = 3; the signs
    differ: k = -21, delta = -45 is too far. With 0.75 (e = 126, F = 0x40): D = 0, m = 1, k = 1,
    delta = 1 - 24 is too far. With 14 (e = 130, F = 0x60): D = 4, m = 224 >> 3 = 28, r = 3:
    delta = 4; G >= 8 and half = 0, so -4: symbol 12.
    """
    lengths = {12: 1, 17: 1}
    raw = b.bitstream([(0x40, 7), (0, 3)])
    streams = [b.huffman_stream([17], lengths), b.huffman_stream([12], lengths)]
    frame = TensorBody(
        b.kernels_tensor(b.BF16, (1, 2), 7, 2, 1),
        [Chunk(b.CODED, b.equal_integers(0) + b.parts(raw, streams), second=0)],
        {
            b.TABLES: b.tables_section(b.huffman_table(lengths)),
            b.TAPS: b.taps_section([(1, 127, []), (8, 126, [32])], effort=-1, base=127),
        },
    ).frame()
    assert decoder.decode(frame)[2] == words(127 << 7 | 0x40, 130 << 7 | 0x60)


def small_body() -> bytes:
    tensor = b.planes_tensor(b.U8, (3,), b"\0")
    chunk = Chunk(b.STORED, b"abc", decoded=b"abc")
    return TensorBody(tensor, [chunk], checksums=True).archive_body()


def test_archive_of_two_tensors() -> None:
    source = b"\2\0" + b.varint(4) + b.byte_integers(b"head")
    named = [(b"first", small_body()), ("fünf".encode(), small_body())]
    frame = b.archive(named, source, checksums=True)
    tensors = [("first", "u8", (3,), b"abc"), ("fünf", "u8", (3,), b"abc")]
    assert decoder.decode_archive(frame) == ("npy", b"head", tensors)


def test_archive_with_derived_header() -> None:
    prefix = b'"__metadata__":{"format":"pt"},'
    source = b"\1\1" + b.varint(len(prefix)) + b.byte_integers(prefix) + b.varint(2)
    frame = b.archive([(b"x", small_body()), (b"xy", small_body())], source, checksums=True)
    text = (
        b'{"__metadata__":{"format":"pt"},"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
        b'"xy":{"dtype":"U8","shape":[3],"data_offsets":[3,6]}}  '
    )
    kind, header, _ = decoder.decode_archive(frame)
    assert (kind, header) == ("safetensors", struct.pack("<Q", len(text)) + text)
