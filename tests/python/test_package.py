"""What the package takes, gives back and refuses."""

from __future__ import annotations

import array
import mmap
import subprocess
import sys
import tracemalloc

import gradwire
import ml_dtypes
import numpy as np
import pytest
from gradwire.dtypes import numpy_dtype, parse_dtype

DTYPES = [
    np.float32,
    ml_dtypes.bfloat16,
    np.float16,
    np.float64,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    np.uint64,
    np.bool_,
]


def matrix(dtype: object = np.float32, shape: tuple[int, ...] = (6, 8)) -> np.ndarray:
    n = int(np.prod(shape))
    return (np.arange(n) % 7).reshape(shape).astype(dtype)


def assert_same(restored: np.ndarray, x: np.ndarray) -> None:
    assert (restored.dtype, restored.shape) == (x.dtype, x.shape)
    assert restored.tobytes() == x.tobytes()


# --- input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_as_itself(dtype: object) -> None:
    x = matrix(dtype)
    assert_same(gradwire.decompress(gradwire.compress(x)), x)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::2, 1:],
        lambda x: x[::-1],
        lambda x: np.asfortranarray(x),
        lambda x: np.broadcast_to(x[0], (4, 8)),
        lambda x: x[2:3, 4:5],
        lambda x: x[0, 0],
        lambda x: x[3:3],
        lambda x: x.view(np.recarray)[1:],
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_any_view_is_taken_in_row_major_order(view, dtype: object) -> None:
    x = np.asarray(view(matrix(dtype)))
    assert_same(gradwire.decompress(gradwire.compress(x)), x)


def test_read_only_input_is_taken_and_input_is_never_changed() -> None:
    x = matrix()
    before = x.tobytes()
    x.flags.writeable = False
    gradwire.compress(x, level=3)
    gradwire.compress(x.T)
    assert x.tobytes() == before


def test_contiguous_input_is_not_copied() -> None:
    x = np.zeros((1 << 20,), np.float32)
    tracemalloc.start()
    frame = gradwire.compress(x)
    gradwire.decompress(frame, out=x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(frame) + (1 << 17)


@pytest.mark.parametrize("x", [1.5, 3, True, np.float16(2), ml_dtypes.bfloat16(1)])
def test_scalars_come_back_without_dimensions(x: object) -> None:
    restored = gradwire.decompress(gradwire.compress(x))
    assert_same(restored, np.asarray(x))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3, 2)])
def test_empty_tensors_keep_their_shape(shape: tuple[int, ...]) -> None:
    frame = gradwire.compress(np.empty(shape, np.float32))
    assert gradwire.decompress(frame).shape == shape
    assert len(frame) <= 32


def test_bytes_take_their_meaning_from_dtype() -> None:
    x = np.arange(10, dtype=np.float32)
    mapped = mmap.mmap(-1, x.nbytes)
    mapped[:] = x.tobytes()
    for data in (x.tobytes(), bytearray(x.tobytes()), memoryview(x.tobytes()), mapped):
        assert_same(gradwire.decompress(gradwire.compress(data, dtype="float32")), x)
    assert_same(gradwire.decompress(gradwire.compress(b"abc")), np.frombuffer(b"abc", np.uint8))
    assert gradwire.decompress(gradwire.compress(b"", dtype=np.int64)).shape == (0,)
    rows = np.zeros((3, 8), np.uint8)
    assert gradwire.decompress(gradwire.compress(rows, dtype="f32")).shape == (3, 2)


@pytest.mark.parametrize("dtype", ["bfloat16", "bf16", "BF16", ml_dtypes.bfloat16])
def test_integers_and_void_hold_the_bits_of_dtype(dtype: object) -> None:
    x = matrix(ml_dtypes.bfloat16)
    for bits in (x.view(np.uint16), x.view(np.int16), x.view("V2")):
        assert_same(gradwire.decompress(gradwire.compress(bits, dtype=dtype)), x)


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (np.zeros(4, np.float32), "bf16"),
        (np.zeros(4, np.float32), np.int32),
        (np.zeros(4, np.uint16), np.float32),
        (np.zeros(3, np.uint8), np.float32),
        (np.uint8(1), np.float32),
        (np.zeros(4, np.uint32), "float3"),
        (np.zeros(4, np.uint32), complex),
    ],
)
def test_dtype_that_does_not_fit_the_bits_is_refused(x: object, dtype: object) -> None:
    with pytest.raises(gradwire.ArgumentError):
        gradwire.compress(x, dtype=dtype)


def test_other_buffers_and_exporters_are_taken() -> None:
    class Exporter:
        def __dlpack__(self, **options: object) -> object:
            return x.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    class Convertible:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return x

    x = matrix()
    assert_same(gradwire.decompress(gradwire.compress(Exporter())), x)
    assert_same(gradwire.decompress(gradwire.compress(Convertible())), x)
    restored = gradwire.decompress(gradwire.compress(array.array("d", [1.0, 2.0])))
    assert_same(restored, np.array([1.0, 2.0]))
    sliced = memoryview(np.arange(10, dtype=np.int16))[::3]
    assert_same(gradwire.decompress(gradwire.compress(sliced)), np.arange(0, 10, 3, dtype=np.int16))


@pytest.mark.parametrize(
    ("x", "word"),
    [
        (np.array([{}]), "object"),
        (np.zeros(3, np.complex64), "complex64"),
        (1j, "complex128"),
        (np.array(["abc"]), "<U3"),
        (np.zeros(3, "datetime64[s]"), "datetime64"),
        (np.zeros(3, [("a", np.float32)]), "'a', '<f4'"),
        (np.zeros(3, ">f4"), "byte order"),
        (np.zeros(3, ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz"),
        (np.zeros(3, "V2"), "V2"),
        (2**70, "object"),
        ("text", "str"),
        ([1.0, 2.0], "list"),
        (None, "NoneType"),
        (object(), "object"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "mask"),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(x: object, word: str) -> None:
    with pytest.raises(gradwire.ArgumentError, match=word):
        gradwire.compress(x)


def test_more_dimensions_than_the_format_allows_are_refused() -> None:
    with pytest.raises(ValueError, match="32"):  # NumPy's own limit, or ours
        gradwire.compress(np.zeros((1,) * 33))


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "losless"}, "did you mean 'lossless'"),
        ({"method": "topkk(keep=0.1)"}, "did you mean 'topk'"),
        ({"method": "lossless(levl=1)"}, "did you mean 'level'"),
        ({"method": "lossless(level=1"}, "does not end"),
        ({"method": "lossless+lossless"}, "stands alone"),
        ({"method": "none(level=1)"}, "no parameters"),
        ({"method": 3}, "method must be a string"),
        ({"level": 0}, "level"),
        ({"level": 4}, "level"),
        ({"level": "2"}, "level must be a whole number"),
        ({"coder": "zip"}, "zip"),
        ({"tables": "many"}, "many"),
        ({"threads": 0}, "threads"),
        ({"threads": 10**20}, "threads"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    for call in (
        lambda: gradwire.compress(matrix(), **options),
        lambda: gradwire.compress_batch({"x": matrix()}, **options),
        lambda: gradwire.Compressor(**options),
    ):
        with pytest.raises(gradwire.ArgumentError, match=message):
            call()


def test_a_spec_says_the_same_as_keywords() -> None:
    x = matrix(shape=(100, 100))
    with_keywords = gradwire.compress(x, level=3, coder="ans", checksum=False)
    assert gradwire.compress(x, method="lossless(level=3, coder=ans, checksum=false)") == (
        with_keywords
    )
    assert gradwire.compress(x, method="lossless(level=3)", level=1) == gradwire.compress(
        x, level=3
    ), "the spec goes first"
    assert gradwire.compress(x, method="lossless()") == gradwire.compress(x)
    assert gradwire.compress(x, method="none") == gradwire.compress(x, coder="stored")


def test_compress_bound_takes_any_name_of_a_dtype() -> None:
    bound = gradwire.compress_bound("bf16", 1000)
    assert bound >= 2000
    assert gradwire.compress_bound(ml_dtypes.bfloat16, 1000) == bound
    for dtype, n in (("float3", 1), ("f32", -1), ("f32", 2**63)):
        with pytest.raises(gradwire.ArgumentError):
            gradwire.compress_bound(dtype, n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_names_are_understood_both_ways(dtype: object) -> None:
    name = parse_dtype(dtype)
    assert numpy_dtype(name) == np.dtype(dtype)
    assert parse_dtype(name) == parse_dtype(name.upper()) == parse_dtype(np.dtype(dtype)) == name


# --- output --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_])
@pytest.mark.parametrize("shape", [(6, 8), (), (0, 3)])
def test_out_receives_the_values(dtype: object, shape: tuple[int, ...]) -> None:
    x = matrix(dtype, shape)
    frame = gradwire.compress(x)
    out = np.ones(shape, dtype)
    assert gradwire.decompress(frame, out=out) is out
    assert_same(out, x)
    assert gradwire.decompress(frame, out=out, max_output=1) is out, "its own size is the limit"


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((6, 8), np.float64), "dtype float64"),
        (np.empty((8, 6), np.float32), "shape"),
        (np.empty(48, np.float32), "shape"),
        (np.empty((8, 6), np.float32).T, "contiguous"),
        (np.broadcast_to(np.float32(0), (6, 8)), "contiguous"),
        (np.frombuffer(bytes(192), np.float32).reshape(6, 8), "read-only"),
        (bytearray(192), "numpy array"),
        ([0.0], "numpy array"),
    ],
)
def test_out_that_does_not_fit_is_refused(out: object, message: str) -> None:
    frame = gradwire.compress(matrix())
    with pytest.raises(gradwire.ArgumentError, match=message):
        gradwire.decompress(frame, out=out)
    with pytest.raises(gradwire.ArgumentError, match=message):
        gradwire.Decompressor().decompress(frame, out=out)


def test_restored_arrays_are_writable_and_own_their_memory() -> None:
    frame = gradwire.compress(matrix())
    first, second = gradwire.decompress(frame), gradwire.decompress(frame)
    first[:] = 5
    assert_same(second, matrix())
    assert first.flags.c_contiguous


def test_max_output_is_kept() -> None:
    frame = gradwire.compress(np.zeros(1000, np.float32))
    gradwire.decompress(frame, max_output=4000)
    with pytest.raises(gradwire.LimitError):
        gradwire.decompress(frame, max_output=3999)
    for bad in (0, -1, 1.5, "1 GiB"):
        with pytest.raises(gradwire.ArgumentError, match="max_output"):
            gradwire.decompress(frame, max_output=bad)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, "u1")])
def test_frames_may_be_any_bytes(kind) -> None:
    x = matrix()
    assert_same(gradwire.decompress(kind(gradwire.compress(x))), x)


@pytest.mark.parametrize("data", [None, "frame", 5, [1, 2]])
def test_what_is_no_buffer_is_refused(data: object) -> None:
    for call in (gradwire.decompress, gradwire.info, gradwire.decompress_batch):
        with pytest.raises(gradwire.ArgumentError, match="bytes-like"):
            call(data)


def test_archives_and_single_frames_are_told_apart() -> None:
    single, batch = gradwire.compress(matrix()), gradwire.compress_batch({"x": matrix()})
    with pytest.raises(gradwire.ArgumentError, match="decompress_batch"):
        gradwire.decompress(batch)
    with pytest.raises(gradwire.ArgumentError, match="info_batch"):
        gradwire.info(batch)
    with pytest.raises(gradwire.ArgumentError, match="single tensor"):
        gradwire.decompress_batch(single)


def test_info_reads_the_headers() -> None:
    x = matrix(ml_dtypes.bfloat16, (50, 60))
    frame = gradwire.compress(x, checksum=False)
    info = gradwire.info(frame)
    assert (info.dtype, info.shape, info.elements) == (x.dtype, x.shape, x.size)
    assert (info.original_bytes, info.compressed_bytes) == (x.nbytes, len(frame))
    assert info.size_fraction == len(frame) / x.nbytes
    assert info.bits_per_value == 8 * len(frame) / x.size
    assert not info.checksums
    assert gradwire.info(gradwire.compress(x)).checksums
    assert gradwire.info(gradwire.compress(np.empty(0))).size_fraction == 1.0


# --- the package ---------------------------------------------------------------------------------


def test_errors_are_of_one_family() -> None:
    assert issubclass(gradwire.ArgumentError, ValueError)
    assert issubclass(gradwire.FileError, OSError)
    for name in gradwire.__all__:
        if name.endswith("Error"):
            assert issubclass(getattr(gradwire, name), gradwire.GradwireError)


def test_import_of_gradwire_does_not_import_torch() -> None:
    code = "import sys, gradwire; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
