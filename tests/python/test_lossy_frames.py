"""The reference decoder and the real one agree on lossy frames made here, and on broken ones."""

from __future__ import annotations

import random
from pathlib import Path

import gradwire
import numpy as np
import pytest
from reference import build_lossy as lb
from reference import builder as b
from reference import decoder, wire
from reference.build_lossy import LossyBody
from reference.builder import Chunk

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
MAX_OUTPUT = 1 << 14  # so that no broken frame takes long
ITEM_BYTES = {b.F32: 4, b.BF16: 2, b.F16: 2, b.U8: 1, b.U16: 2, lb.E4M3: 1, lb.E5M2: 1}


def compare_verdicts(frame: bytes) -> bool:
    """Both refuse the frame, or both restore the same. Whether they do."""
    try:
        expected: bytes | None = decoder.decode(frame, MAX_OUTPUT)[2]
    except wire.FormatError:
        expected = None
    try:
        restored: bytes | None = gradwire.decompress(frame, max_output=MAX_OUTPUT).tobytes()
    except gradwire.GradwireError:
        restored = None
    assert restored == expected
    return restored is not None


def packed(dtype: int, octets: bytes, rng: random.Random) -> bytes:
    count = len(octets) // ITEM_BYTES[dtype]
    if count == 0 or rng.random() < 0.5:
        return lb.plain(octets)
    return lb.nested(dtype, count, Chunk(b.STORED, octets))


def finite(dtype: int, count: int, rng: random.Random) -> bytes:
    """Any bits, now and then of numbers that are not finite."""
    random_bits = np.random.default_rng(rng.getrandbits(32))
    words = random_bits.integers(0, 2 ** (8 * ITEM_BYTES[dtype]), count)
    fraction = {b.F32: 23, b.BF16: 7, b.F16: 10, lb.E4M3: 3, lb.E5M2: 2}[dtype]
    exponents = (1 << (8 * ITEM_BYTES[dtype] - 1 - fraction)) - 1
    if rng.random() < 0.9:
        top = words >> fraction & exponents == exponents
        words = np.where(top, words ^ 1 << fraction, words)
    return words.astype(f"<u{ITEM_BYTES[dtype]}").tobytes()


def random_selection(
    n: int, rng: random.Random
) -> tuple[int, int | None, int | None, bytes | None]:
    """Selection, k, seed, payload of `selected`."""
    selection = rng.choice((lb.ALL, lb.FLAGS, lb.GAPS, lb.GAPS, lb.DRAWN))
    if selection == lb.ALL:
        return selection, None, None, None
    if selection == lb.DRAWN:
        return selection, rng.randint(1, n), rng.getrandbits(64), None
    chosen = sorted(rng.sample(range(n), rng.randint(0, n)))
    if selection == lb.FLAGS:
        return selection, len(chosen), None, b.bitmap(np.isin(range(n), chosen))
    gaps = [i - previous - 1 for previous, i in zip([-1, *chosen], chosen, strict=False)]
    if not gaps:
        return selection, 0, None, b""
    ways = [
        lambda: b.rice_integers(gaps, rng.randint(0, 8)),
        lambda: b.classed_integers(gaps),
        lambda: b.classed_integers(gaps, deltas=True),
        lambda: b.byte_integers(gaps),
    ]
    return selection, len(chosen), None, rng.choice(ways)()


def random_values(k: int, rng: random.Random) -> tuple[int, bytes, dict[int, bytes]]:
    """Form, rule, and sections."""
    bucket = rng.choice((0, 1, 3, 10, 1000))
    form = rng.choice((lb.FLOAT, lb.LEVELS, lb.OCTETS, lb.TABLE))
    scales = abs(np.frombuffer(finite(b.F32, -(-k // (bucket or k)), rng), "<f4"))
    sections = {lb.BUCKET_SCALES: packed(b.F32, scales.tobytes(), rng)}
    if form == lb.FLOAT:
        dtype = rng.choice((b.F32, b.BF16, b.F16))
        sections = {lb.VALUES: packed(dtype, finite(dtype, k, rng), rng)}
        return form, lb.float_rule(dtype, rng.choice((0, 0, 1, -7, -300, 300))), sections
    if form == lb.LEVELS:
        step, width = rng.choice((1, 2)), rng.choice((1, 2))
        levels = rng.choice((1, 2, 127, 32767 if width == 2 else 100))
        symbols = [rng.randint(0, 2 * levels // step) for _ in range(k)]
        rule = lb.level_rule(step, levels, levels, width, bucket)
        dtype, octets = (b.U8, b.U16)[width - 1], np.array(symbols, f"<u{width}").tobytes()
    elif form == lb.OCTETS:
        dtype = rng.choice((lb.E4M3, lb.E5M2))
        rule, octets = lb.octet_rule(dtype, bucket), finite(dtype, k, rng)
    else:
        entries = np.frombuffer(finite(b.F32, rng.randint(1, 256), rng), "<f4").tolist()
        octets = bytes(rng.randrange(len(entries)) for _ in range(k))
        dtype, rule = b.U8, lb.table_rule(entries, bucket)
    return form, rule, sections | {lb.VALUES: packed(dtype, octets, rng)}


def random_body(rng: random.Random) -> LossyBody:
    shape = [rng.randint(1, 9) for _ in range(rng.randint(0, 3))]
    selection, k, seed, selected = random_selection(int(np.prod(shape)), rng)
    count = int(np.prod(shape)) if k is None else k
    form, rule, sections = random_values(count, rng) if count else (0, b"", {})
    if selected is not None:
        sections[lb.SELECTED] = selected
    dtype = rng.choice((b.F32, b.BF16, b.F16))
    tensor = lb.lossy_tensor(dtype, shape, selection, form, rule, k, seed)
    return LossyBody(tensor, sections, checksums=rng.random() < 0.5)


@pytest.mark.parametrize("seed", range(6))
def test_decoders_agree_on_random_bodies(seed: int) -> None:
    rng = random.Random(seed)
    accepted = sum(compare_verdicts(random_body(rng).frame()) for _ in range(60))
    assert accepted > 30


@pytest.mark.parametrize("seed", range(4))
def test_decoders_agree_on_flipped_bits(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        frame = LossyBody(**(vars(random_body(rng)) | {"checksums": False})).frame()
        for bit in rng.sample(range(8 * len(frame)), min(200, 8 * len(frame))):
            flipped = bytearray(frame)
            flipped[bit // 8] ^= 1 << bit % 8
            compare_verdicts(bytes(flipped))


@pytest.mark.parametrize("name", ["lossy-drawn-1-of-67.gw", "lossy-drawn-34-of-67.gw"])
def test_decoders_agree_on_flipped_bits_of_golden_frames(name: str) -> None:
    frame = (GOLDEN / name).read_bytes()
    assert not frame[6] & b.CHECKSUMS
    for bit in range(0, 8 * len(frame), 3):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        compare_verdicts(bytes(flipped))


@pytest.mark.parametrize("name", ["lossy-gaps-e4m3.gw", "lossy-flags-sign.gw"])
def test_a_flipped_bit_of_a_checked_frame_is_an_error(name: str) -> None:
    frame = (GOLDEN / name).read_bytes()
    for bit in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(gradwire.GradwireError):
            gradwire.decompress(bytes(flipped))
