"""The reference decoder on lossy bodies put together by hand; expected values worked out here."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from reference import build_lossy as lb
from reference import builder as b
from reference import decoder, lossy, narrow, wire
from reference.build_lossy import LossyBody
from reference.builder import Chunk

ONE = struct.pack("<f", 1)


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def test_a_small_frame_byte_by_byte() -> None:
    head = (
        b"GRDW"
        b"\0\1"  # version 0.1
        b"\x09\0"  # flags: checksums, lossy
        b"\x2b"  # body_bytes
        b"\1\x08"  # section tensor, 8 bytes
        b"\2\1\x0a"  # bf16, ndim 1, dims 10
        b"\5\2\3"  # pipeline 5, form: gaps and floats, k 3
        b"\2\2"  # bf16, shift 1
        b"\x0a\4"  # section selected, 4 bytes
        b"\4\1\0\4"  # mode 4: 1, 0 and 4 elements in between
        b"\x0c\7"  # section values, 7 bytes
        b"\0"  # elements as they are:
        b"\x80\x3f\x80\xbf\x20\x40"  # 1, -1, 2.5
    )
    frame = head + b"\x0d\x10" + decoder.xxhash.xxh3_64_digest(head)[::-1] + bytes(8)
    expected = words(0, 0x4000, 0xC000, 0, 0, 0, 0, 0x40A0, 0, 0)
    assert decoder.decode(frame) == ("bf16", (10,), expected)
    made = LossyBody(
        lb.lossy_tensor(b.BF16, (10,), lb.GAPS, lb.FLOAT, lb.float_rule(b.BF16, 1), k=3),
        {lb.SELECTED: b.byte_integers([1, 0, 4]), lb.VALUES: lb.plain(head[-6:])},
        checksums=True,
    )
    assert made.frame() == frame
    for bit in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(wire.FormatError):
            decoder.decode(bytes(flipped))


def decode_all(
    values: int, rule: bytes, symbols: bytes, scales: bytes = b"", dtype: int = b.F32, n: int = 4
) -> list[float]:
    sections = {lb.VALUES: lb.plain(symbols)}
    if scales:
        sections[lb.BUCKET_SCALES] = lb.plain(scales)
    body = LossyBody(lb.lossy_tensor(dtype, (n,), lb.ALL, values, rule), sections)
    octets = decoder.decode(body.frame())[2]
    numpy_dtype = {b.F32: np.float32, b.F16: np.float16, b.BF16: ml_dtypes.bfloat16}[dtype]
    return np.frombuffer(octets, numpy_dtype).astype(np.float64).tolist()


def test_levels_are_a_quotient_and_then_a_product() -> None:
    # (s - 3) / 3 of two buckets; in f32 1 / 3 is 11184811 / 2^25, 2 / 3 twice that.
    rule = lb.level_rule(1, 3, 3, 1, 3)
    third = 11184811 / 2**25
    restored = decode_all(lb.LEVELS, rule, bytes([4, 0, 1, 5]), struct.pack("<2f", 3, 4))
    assert restored == [1.0, -3.0, -2.0, 8 * third]
    signs = decode_all(lb.LEVELS, lb.level_rule(2, 1, 1, 2, 0), words(1, 0, 0, 1), ONE)
    assert signs == [1.0, -1.0, -1.0, 1.0]


def test_octets_have_subnormals_and_a_largest() -> None:
    # e4m3: 0x7e is 448, 0x38 is 1, 0x01 is 2^-9, 0x80 is -0; with N = 448 each is divided by 448
    # and multiplied by it, which is exact for these but for rounding of 1 / 448.
    restored = decode_all(
        lb.OCTETS, lb.octet_rule(lb.E4M3, 0), b"\x7e\x38\x01\x80", struct.pack("<f", 448)
    )
    one = np.float32(1) / np.float32(448) * np.float32(448)
    assert restored == [448.0, float(one), float(one) / 512, 0.0]
    assert np.signbit(restored[3])
    # e5m2: 0x7b is 57344, 0x3c is 1, 0x01 is 2^-16.
    restored = decode_all(
        lb.OCTETS, lb.octet_rule(lb.E5M2, 0), b"\x7b\xfb\x3c\x01", struct.pack("<f", 7)
    )
    one = np.float32(1) / np.float32(57344) * np.float32(7)
    assert restored == [7.0, -7.0, float(one), float(one) / 2**16]


def test_tables_have_a_scale_a_bucket() -> None:
    rule = lb.table_rule([0.5, -3.0, 1e38], 2)
    restored = decode_all(lb.TABLE, rule, bytes([1, 0, 2, 0]), struct.pack("<2f", 2, 100))
    assert restored == [-6.0, 1.0, float(narrow.LARGEST), 50.0]


@pytest.mark.parametrize(
    ("dtype", "value", "restored"),
    [
        (b.BF16, 1 + 2**-8, 1.0),  # between 1 and 1 + 2^-7: to the even one
        (b.BF16, 1 + 3 * 2**-8, 1 + 2**-6),
        (b.BF16, 1 + 2**-8 + 2**-20, 1 + 2**-7),
        (b.BF16, -3.4e38, -(2**128) * (1 - 2**-8)),  # would round to an infinity
        (b.BF16, 2**-134, 0.0),  # half of the smallest: to the even one
        (b.BF16, 3 * 2**-134, 2**-132),
        (b.F16, 2049.0, 2048.0),
        (b.F16, 2051.0, 2052.0),
        (b.F16, 65519.0, 65504.0),
        (b.F16, -65520.0, -65504.0),
        (b.F16, 2**-25, 0.0),
        (b.F16, 3 * 2**-25, 2**-23),
        (b.F32, 2**-149, 2**-149),
    ],
)
def test_values_are_rounded_to_the_dtype(dtype: int, value: float, restored: float) -> None:
    symbols = struct.pack("<f", value)
    assert decode_all(lb.FLOAT, lb.float_rule(b.F32), symbols, dtype=dtype, n=1) == [restored]


def test_a_shift_rounds_once_to_f32_and_then_to_the_dtype() -> None:
    # (1 + 2^-10) 2^-149 is 2^-149 in f32; an f32 of 2^-149 is no zero, in bf16 it is one.
    symbols = words(0x3C01)
    rule = lb.float_rule(b.F16, -149)
    assert decode_all(lb.FLOAT, rule, symbols, n=1) == [2**-149]
    assert decode_all(lb.FLOAT, rule, symbols, dtype=b.BF16, n=1) == [0.0]
    assert decode_all(lb.FLOAT, lb.float_rule(b.F16, 128), symbols, n=1) == [narrow.LARGEST]


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("f16", np.float16),
        ("f8_e4m3", ml_dtypes.float8_e4m3fn),
        ("f8_e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_narrow_floats_are_those_of_numpy(dtype: str, numpy_dtype: type) -> None:
    unsigned = np.dtype(f"u{np.dtype(numpy_dtype).itemsize}")
    bits = np.arange(2 ** (8 * unsigned.itemsize)).astype(unsigned)
    expected = bits.view(numpy_dtype).astype(np.float32)
    finite = np.isfinite(expected)
    assert narrow.decode_floats(bits[finite].tobytes(), dtype).tobytes() == (
        expected[finite].tobytes()
    )
    for word in bits[~finite][:: max(1, (~finite).sum() // 50)]:
        with pytest.raises(wire.FormatError):
            narrow.decode_floats(word.tobytes(), dtype)


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)]
)
def test_rounding_is_that_of_numpy(dtype: str, numpy_dtype: type) -> None:
    random = np.random.default_rng(4)
    bits = random.integers(0, 2**32, 5000, dtype=np.uint32)
    bits[::2] &= np.uint32(0xFFFFF000)  # many ties
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(numpy_dtype)
    kept = np.isfinite(expected.astype(np.float32))
    encoded = np.frombuffer(narrow.encode_floats(values, dtype), np.uint16)
    assert (encoded[kept] == expected.view(np.uint16)[kept]).all()
    assert ((encoded[~kept] & 0x7FFF) == {"bf16": 0x7F7F, "f16": 0x7BFF}[dtype]).all()


def test_draws_are_those_of_the_real_decoder() -> None:
    assert lossy.mix(0) == 0xE220A8397B1DCDAF  # the first number of splitmix64 of seed 0
    assert lossy.drawn(20, 5, 99) == DRAWN_5_OF_20
    assert lossy.drawn(20, 15, 99) == [i for i in range(20) if i not in DRAWN_5_OF_20]
    assert lossy.drawn(7, 7, 1) == list(range(7))
    for n, k in ((1, 1), (2, 1), (1000, 499), (1000, 501)):
        chosen = lossy.drawn(n, k, n + k)
        assert len(chosen) == k == len(set(chosen))


DRAWN_5_OF_20 = [2, 5, 7, 11, 12]


def test_rice_codes_come_back() -> None:
    values = [5, 0, 77, 3, 1000, 6]
    for low_bits in range(32):
        reader = wire.Reader(b.rice_integers(values, low_bits), "test")
        assert lossy.read_integers(reader, len(values), 0, 1000, "test") == values
        reader.finish()


def test_a_nested_body_holds_the_values() -> None:
    coded = lb.nested(b.F16, (2, 2), Chunk(b.CONSTANT, words(0x3C00)))
    tensor = lb.lossy_tensor(b.F32, (2, 2), lb.ALL, lb.FLOAT, lb.float_rule(b.F16, -1))
    frame = LossyBody(tensor, {lb.VALUES: coded}).frame()
    assert decoder.decode(frame) == ("f32", (2, 2), struct.pack("<f", 0.5) * 4)


def test_lossy_and_exact_bodies_in_an_archive() -> None:
    lossy_body = LossyBody(
        lb.lossy_tensor(b.F16, (3,), lb.DRAWN, lb.FLOAT, lb.float_rule(b.F16), 1, 5),
        {lb.VALUES: lb.plain(words(0x3C00))},
        checksums=True,
    )
    exact = b.TensorBody(
        b.planes_tensor(b.U8, (3,), b"\0"),
        [Chunk(b.STORED, b"abc", decoded=b"abc")],
        checksums=True,
    )
    sections = b.archive_sections(
        [(b"a", lossy_body.body(in_archive=True)), (b"b", exact.archive_body())]
    )
    frame = b.archive_frame(sections, checksums=True, flags=lb.LOSSY)
    _, _, tensors = decoder.decode_archive(frame)
    place = lossy.drawn(3, 1, 5)[0]
    expected = bytes(2 * place) + words(0x3C00) + bytes(2 * (2 - place))
    assert tensors == [("a", "f16", (3,), expected), ("b", "u8", (3,), b"abc")]
