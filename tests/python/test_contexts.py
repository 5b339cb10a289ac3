"""Contexts, streaming, and what other Python threads may do meanwhile."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gradwire
import ml_dtypes
import numpy as np
import pytest


def gradient(seed: int = 1, shape: tuple[int, ...] = (60, 70)) -> np.ndarray:
    values = np.random.default_rng(seed).normal(0, 1e-3, shape)
    return values.astype(ml_dtypes.bfloat16)


def test_a_compressor_gives_the_frames_of_compress() -> None:
    compressor = gradwire.Compressor(level=3, coder="ans")
    for seed, shape in enumerate([(60, 70), (3,), (0, 2), (), (8, 4, 3, 3), (60, 70)]):
        x = gradient(seed, shape)
        frame = gradwire.compress(x, level=3, coder="ans")
        assert compressor.compress(x) == frame
        out = bytearray(gradwire.compress_bound(x.dtype, x.size))
        assert out[: compressor.compress_into(x, out)] == frame


def test_compress_into_needs_room_and_a_writable_buffer() -> None:
    compressor = gradwire.Compressor()
    for out, message in ((bytearray(10), "out has room for 10"), (bytes(9999), "read-only")):
        with pytest.raises(gradwire.ArgumentError, match=message):
            compressor.compress_into(gradient(), out)


def test_a_decompressor_restores_frames_of_any_kind() -> None:
    decompressor = gradwire.Decompressor(threads=2)
    for seed, shape in enumerate([(60, 70), (3,), (0, 2), (), (8, 4, 3, 3), (60, 70)]):
        x = gradient(seed, shape)
        frame = gradwire.compress(x)
        assert decompressor.decompress(frame).tobytes() == x.tobytes()
        out = np.ones(shape, x.dtype)
        assert decompressor.decompress(frame, out=out) is out
        assert out.tobytes() == x.tobytes()


def test_a_decompressor_outlives_errors() -> None:
    decompressor = gradwire.Decompressor(max_output=10_000)
    with pytest.raises(gradwire.TruncatedError):
        decompressor.decompress(gradwire.compress(gradient())[:-1])
    with pytest.raises(gradwire.LimitError):
        decompressor.decompress(gradwire.compress(np.zeros(10_001, np.uint8)))
    assert decompressor.decompress(gradwire.compress(gradient())).tobytes() == gradient().tobytes()


@pytest.mark.parametrize("piece", [1, 7, 1000, 10**6])
def test_streams_take_pieces_of_any_size(piece: int) -> None:
    x = gradient()
    data = x.tobytes()
    compressor, decompressor = gradwire.Compressor(), gradwire.Decompressor()
    for _ in range(2):
        compressor.begin(x.dtype, x.shape)
        for i in range(0, len(data), piece):
            compressor.feed(data[i : i + piece])
        frame = compressor.finish()
        assert frame == gradwire.compress(x)

        done = [decompressor.feed(frame[i : i + piece]) for i in range(0, len(frame), piece)]
        assert done == [False] * (len(done) - 1) + [True]
        assert decompressor.feed(b"")
        restored = decompressor.finish()
        assert (restored.dtype, restored.shape) == (x.dtype, x.shape)
        assert restored.tobytes() == data


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("checksum", [True, False])
def test_values_can_be_drained_while_their_frame_comes_in(threads: int, checksum: bool) -> None:
    x = gradient(2, (4, 60_000))
    frame = gradwire.compress(x, checksum=checksum)
    decompressor = gradwire.Decompressor(threads=threads)
    assert decompressor.header() is None
    assert decompressor.drain().size == 0
    parts, done = [], False
    for i in range(0, len(frame), 7001):
        assert not done
        done = decompressor.feed(frame[i : i + 7001])
        parts.append(decompressor.drain())
    assert done
    assert sum(part.size > 0 for part in parts) > 2, "chunk after chunk"
    assert decompressor.header() == (x.dtype, x.shape)
    rest = decompressor.finish()
    assert (rest.dtype, rest.shape) == (x.dtype, (0,))
    assert np.concatenate(parts).tobytes() == x.tobytes()


def test_finish_returns_what_was_not_drained() -> None:
    x = gradient(3, (2, 60_000))
    frame = gradwire.compress(x)
    decompressor = gradwire.Decompressor()
    decompressor.feed(frame[: len(frame) * 3 // 4])
    first = decompressor.drain()
    assert 0 < first.size < x.size
    decompressor.feed(frame[len(frame) * 3 // 4 :])
    assert np.concatenate([first, decompressor.finish()]).tobytes() == x.tobytes()
    with pytest.raises(gradwire.TruncatedError, match="not complete"):
        decompressor.finish()
    decompressor.feed(frame)
    assert decompressor.finish().shape == x.shape, "the next tensor has not been drained"


def test_a_damaged_stream_is_found_out_by_its_end() -> None:
    x = gradient(4, (2, 60_000))
    frame = bytearray(gradwire.compress(x))
    frame[-12] ^= 1  # in the trailer's checksums
    decompressor = gradwire.Decompressor()
    assert not decompressor.feed(frame[:-18])
    assert decompressor.drain().tobytes() == x.tobytes(), "restored, not yet verified"
    with pytest.raises(gradwire.CorruptError, match="checksum"):
        decompressor.feed(frame[-18:])
    assert decompressor.header() is None
    with pytest.raises(gradwire.TruncatedError):
        decompressor.finish()
    with pytest.raises(gradwire.LimitError):
        gradwire.Decompressor(max_output=1000).feed(frame[:-18])
    with pytest.raises(gradwire.ArgumentError, match="archive"):
        decompressor.feed(gradwire.compress_batch({"x": x})[:12])


def test_streams_out_of_order_are_refused() -> None:
    compressor = gradwire.Compressor()
    for call in (lambda: compressor.feed(b"abcd"), compressor.finish):
        with pytest.raises(gradwire.ArgumentError, match="begin"):
            call()
    compressor.begin("float32", (2, 2))
    with pytest.raises(gradwire.ArgumentError, match="float64"):
        compressor.feed(np.zeros(2))
    compressor.feed(np.zeros(3, np.float32))
    with pytest.raises(gradwire.ArgumentError, match="4 are left"):
        compressor.feed(np.zeros(2, np.float32))
    with pytest.raises(gradwire.ArgumentError):
        compressor.finish()
    for dtype, shape in (("float3", (2,)), ("float32", (-1,)), ("float32", (1.5,))):
        with pytest.raises(gradwire.ArgumentError):
            compressor.begin(dtype, shape)

    decompressor = gradwire.Decompressor()
    frame = gradwire.compress(gradient())
    decompressor.feed(frame[:50])
    with pytest.raises(gradwire.TruncatedError, match="not complete"):
        decompressor.finish()
    decompressor.feed(frame[50:])
    with pytest.raises(gradwire.CorruptError, match="behind the end"):
        decompressor.feed(b"x")
    assert decompressor.finish().tobytes() == gradient().tobytes()
    with pytest.raises(gradwire.CorruptError):
        decompressor.feed(b"no frame at all")
    assert decompressor.feed(frame), "an error ends the stream; the next one is a new one"
    decompressor.reset()
    with pytest.raises(gradwire.TruncatedError):
        decompressor.finish()


def test_threads_may_share_a_context() -> None:
    compressor, decompressor = gradwire.Compressor(), gradwire.Decompressor()

    def round_trip(seed: int) -> bool:
        x = gradient(seed, (100 + seed, 100))
        return decompressor.decompress(compressor.compress(x)).tobytes() == x.tobytes()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(round_trip, range(64)))


def test_other_threads_run_while_the_library_works() -> None:
    x = gradient(1, (2000, 2000))
    started = threading.Event()

    def work() -> None:
        started.set()
        gradwire.compress(x, level=3)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    turns = 0
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 5
