"""Damaged frames raise GradwireError: no crash, no wrong values, nothing beyond the budget."""

from __future__ import annotations

import gradwire
import numpy as np
import pytest
from gradwire.dtypes import numpy_dtype

BUDGET = 1 << 20  # a damaged shape may ask for much


def small_tensor(name: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(7)
    values = 1e-2 * rng.normal(size=shape) * 2.0 ** np.arange(shape[-1])
    values[rng.random(shape) < 0.1] = 0
    return (values * 1000 if name.startswith("i") else values).astype(numpy_dtype(name))


FRAMES = {
    "matrix-bf16": lambda **o: gradwire.compress(small_tensor("bf16", (24, 16)), **o),
    "matrix-f32-level3": lambda **o: gradwire.compress(small_tensor("f32", (9, 10)), level=3, **o),
    "kernels-bf16-level3": lambda **o: gradwire.compress(
        small_tensor("bf16", (6, 5, 3, 3)), level=3, **o
    ),
    "matrix-f16-ans": lambda **o: gradwire.compress(
        small_tensor("f16", (24, 16)), coder="ans", **o
    ),
    "planes-i32": lambda **o: gradwire.compress(small_tensor("i32", (40, 3)), **o),
    "empty": lambda **o: gradwire.compress(np.empty((0, 4), np.float32), **o),
    "batch": lambda **o: gradwire.compress_batch(
        {"a": small_tensor("bf16", (8, 9)), "b": small_tensor("i32", (5, 2))}, **o
    ),
}


def restore(case: str, frame: bytes) -> bytes:
    if case != "batch":
        x = gradwire.decompress(frame, max_output=BUDGET)
        return repr((x.dtype, x.shape)).encode() + x.tobytes()
    tensors = gradwire.decompress_batch(frame, max_output=BUDGET)
    return b"".join(name.encode() + x.tobytes() for name, x in tensors.items())


def flipped(frame: bytes, bit: int) -> bytes:
    damaged = bytearray(frame)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


@pytest.mark.parametrize("case", FRAMES)
def test_every_prefix_is_truncated(case: str) -> None:
    frame = FRAMES[case]()
    for n in range(len(frame)):
        with pytest.raises(gradwire.TruncatedError):
            restore(case, frame[:n])


@pytest.mark.parametrize("case", FRAMES)
def test_every_flipped_bit_is_an_error(case: str) -> None:
    frame = FRAMES[case]()
    for bit in range(8 * len(frame)):
        with pytest.raises(gradwire.GradwireError):
            restore(case, flipped(frame, bit))


@pytest.mark.parametrize("case", FRAMES)
def test_without_checksums_flipped_bits_are_harmless(case: str) -> None:
    frame = FRAMES[case](checksum=False)
    errors = 0
    for bit in range(8 * len(frame)):
        try:
            restore(case, flipped(frame, bit))
        except gradwire.GradwireError:
            errors += 1
    assert errors > 0


@pytest.mark.parametrize("case", FRAMES)
def test_bytes_behind_a_frame_are_an_error(case: str) -> None:
    frame = FRAMES[case]()
    for tail in (b"\0", frame):
        with pytest.raises(gradwire.GradwireError):
            restore(case, frame + tail)


def test_random_bytes_are_an_error() -> None:
    rng = np.random.default_rng(5)
    for n in range(200):
        with pytest.raises(gradwire.GradwireError):
            gradwire.decompress(rng.bytes(n))
        with pytest.raises(gradwire.GradwireError):
            gradwire.decompress_batch(b"GRDW\0\1\3\0" + rng.bytes(n))


@pytest.mark.parametrize("case", [case for case in FRAMES if case != "batch"])
def test_info_of_damaged_headers_is_an_error_or_harmless(case: str) -> None:
    frame = FRAMES[case]()
    for n in range(len(frame)):
        with pytest.raises(gradwire.TruncatedError):
            gradwire.info(frame[:n])
    for bit in range(8 * min(len(frame), 60)):
        try:
            gradwire.info(flipped(frame, bit))
        except gradwire.GradwireError:
            continue
