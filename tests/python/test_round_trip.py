"""Every bit comes back: dtype x level x coder x shape x content, compared as bits only."""

from __future__ import annotations

import itertools

import gradwire
import hypothesis.strategies as st
import numpy as np
import pytest
from gradwire.dtypes import numpy_dtype
from hypothesis import HealthCheck, given, settings

# name: (bits, fraction bits), no fraction bits for what is no float
DTYPES = {
    "f32": (32, 23),
    "bf16": (16, 7),
    "f16": (16, 10),
    "f64": (64, 52),
    "f8_e4m3": (8, 3),
    "f8_e5m2": (8, 2),
    "i8": (8, 0),
    "u8": (8, 0),
    "i16": (16, 0),
    "u16": (16, 0),
    "i32": (32, 0),
    "u32": (32, 0),
    "i64": (64, 0),
    "u64": (64, 0),
    "bool": (8, 0),
}
LEVELS = (1, 2, 3)
CODERS = ("auto", "huffman", "ans", "stored")
TABLES = ("hybrid", "dynamic", "static", "gennorm")

ODD_SHAPES = [
    (),
    (0,),
    (0, 3),
    (4, 0, 2),
    (1,),
    (2,),
    (31,),
    (32,),
    (33,),
    (1, 1000),
    (1000, 1),
    (100, 3),
    (7, 31),
    (40, 70),
    (2, 3, 2, 1, 3, 2, 1, 1, 2),
    (1,) * 32,
    (6, 5, 3, 3),
    (16, 4, 1, 1),
    (4, 3, 7, 7),
    (9, 4, 3),
    (2049,),
]

quick = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def raw_uint(name: str) -> np.dtype:
    return np.dtype(f"u{DTYPES[name][0] // 8}")


def uniform(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Any bits at all: many NaN payloads, infinities, subnormals."""
    return np.frombuffer(rng.bytes(n * raw_uint(name).itemsize), raw_uint(name))


def gradient_like(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Crowded exponents, as training leaves them."""
    if not DTYPES[name][1]:
        return rng.integers(0, 5, n).astype(raw_uint(name))
    values = rng.normal(size=n) * np.exp2(rng.integers(-6, 2)) * 2.0 ** rng.normal(size=n)
    with np.errstate(over="ignore"):
        return values.astype(numpy_dtype(name)).view(raw_uint(name))


def mostly_zero(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Runs of zeros, and now and then a negative zero."""
    values = gradient_like(name, n, rng).copy()
    values[np.convolve(rng.random(n + 8) < 0.2, np.ones(9), "valid")[:n] > 0] = 0
    values[rng.random(n) < 0.01] = 1 << (DTYPES[name][0] - 1)
    return values


def constant(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    return np.full(n, uniform(name, 1, rng)[0])


def few_bits(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Low bits unused, as in float32 out of a bfloat16 computation, with some exceptions."""
    drop = DTYPES[name][0] // 2
    values = gradient_like(name, n, rng) >> drop << drop
    values[rng.random(n) < 0.01] |= 1
    return values


def special(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(special_patterns(name), n)


def special_patterns(name: str) -> np.ndarray:
    """Zeros, least and greatest subnormals, infinities, quiet and signalling NaN payloads."""
    bits, fraction_bits = DTYPES[name]
    sign = 1 << (bits - 1)
    top = (sign - 1) >> fraction_bits << fraction_bits  # all exponent bits
    fraction = (1 << fraction_bits) - 1
    patterns = [0, 1, fraction, fraction + 1, top - 1, top, top | 1, top | fraction, sign - 1]
    return np.array([p | s for p in patterns for s in (0, sign)], raw_uint(name))


CONTENTS = [uniform, gradient_like, mostly_zero, constant, few_bits, special]


def as_tensor(name: str, bits: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if name == "bool":
        bits = bits & 1
    return bits.view(numpy_dtype(name)).reshape(shape)


def assert_round_trip(x: np.ndarray, **options: object) -> None:
    before = x.tobytes()
    frame = gradwire.compress(x, **options)
    assert x.tobytes() == before, "the input was changed"
    assert len(frame) <= gradwire.compress_bound(x.dtype, x.size)
    restored = gradwire.decompress(frame)
    assert (restored.dtype, restored.shape) == (x.dtype, x.shape)
    assert restored.tobytes() == before


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("coder", CODERS)
def test_round_trip_restores_every_bit(name: str, level: int, coder: str) -> None:
    @settings(quick, max_examples=24)
    @given(
        shape=st.sampled_from(ODD_SHAPES),
        content=st.sampled_from(CONTENTS),
        tables=st.sampled_from(TABLES),
        checksum=st.booleans(),
        seed=st.integers(0, 2**32),
    )
    def restores(shape, content, tables, checksum, seed):
        bits = content(name, int(np.prod(shape, dtype=int)), np.random.default_rng(seed))
        x = as_tensor(name, bits, shape)
        assert_round_trip(x, level=level, coder=coder, tables=tables, checksum=checksum)

    restores()


@pytest.mark.parametrize("name", DTYPES)
def test_round_trip_restores_short_strings_of_any_bits(name: str) -> None:
    @settings(quick, max_examples=40)
    @given(
        data=st.binary(max_size=400),
        level=st.sampled_from(LEVELS),
        coder=st.sampled_from(CODERS),
    )
    def restores(data, level, coder):
        size = raw_uint(name).itemsize
        bits = np.frombuffer(data[: len(data) // size * size], raw_uint(name))
        assert_round_trip(as_tensor(name, bits, (-1,)), level=level, coder=coder)

    restores()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("content", CONTENTS)
def test_every_shape_restores_every_content(name: str, level: int, content) -> None:
    for seed, shape in enumerate(ODD_SHAPES):
        bits = content(name, int(np.prod(shape, dtype=int)), np.random.default_rng(seed))
        assert_round_trip(as_tensor(name, bits, shape), level=level)


@pytest.mark.parametrize("coder", CODERS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["bf16", "f16"])
@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_all_patterns_of_16_bits_come_back(name: str, level: int, coder: str, order: str) -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16)
    if order == "shuffled":
        np.random.default_rng(1).shuffle(patterns)
    for shape in [(256, 256), (1 << 16,), (64, 64, 4, 4)]:
        assert_round_trip(as_tensor(name, patterns, shape), level=level, coder=coder)


@pytest.mark.parametrize("coder", CODERS)
@pytest.mark.parametrize("level", LEVELS)
def test_every_exponent_of_f32_comes_back(level: int, coder: str) -> None:
    parts = itertools.product((0, 1), range(256), (0, 1, (1 << 23) - 1))
    patterns = np.array([s << 31 | e << 23 | f for s, e, f in parts], np.uint32)
    shuffled = np.random.default_rng(1).permutation(patterns)
    for bits, shape in itertools.product((patterns, shuffled), [(1536,), (48, 32), (32, 12, 2, 2)]):
        assert_round_trip(as_tensor("f32", bits, shape), level=level, coder=coder)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["f32", "bf16", "i32"])
@pytest.mark.parametrize("shape", [(500, 600), (300, 120, 3, 3), (196609,)])
def test_threads_change_neither_frames_nor_values(name: str, level: int, shape) -> None:
    n = int(np.prod(shape))
    x = as_tensor(name, mostly_zero(name, n, np.random.default_rng(3)), shape)
    frame = gradwire.compress(x, level=level)
    for threads in (2, 3, 8):
        assert gradwire.compress(x, level=level, threads=threads) == frame
        assert gradwire.decompress(frame, threads=threads).tobytes() == x.tobytes()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [65535, 65536, 65537, 131072, 131073])
def test_sizes_around_a_chunk_come_back(level: int, n: int) -> None:
    rng = np.random.default_rng(n)
    assert_round_trip(as_tensor("bf16", gradient_like("bf16", n, rng), (n,)), level=level)
    assert_round_trip(as_tensor("f32", gradient_like("f32", n, rng), (n, 1)), level=level)


@pytest.mark.parametrize(
    ("others", "taken"), [(0.002, "ans"), (0.05, "ans"), (0.2, "huffman"), (1.0, "huffman")]
)
def test_auto_takes_ans_where_it_saves_a_percent(others: float, taken: str) -> None:
    """Exponents of which a share is not the usual one: the rarer, the more whole bits cost."""
    random = np.random.default_rng(0)
    n = 200_000
    rare = random.random(n) < others
    exponents = np.where(rare, random.integers(100, 140, n), 127).astype(np.uint16)
    x = (exponents << 7 | random.integers(0, 128, n).astype(np.uint16)).view(numpy_dtype("bf16"))
    sizes = {c: len(gradwire.compress(x, level=1, coder=c)) for c in ("huffman", "ans", "auto")}
    assert (sizes["ans"] <= 0.99 * sizes["huffman"]) == (taken == "ans")
    assert sizes["auto"] == sizes[taken]
