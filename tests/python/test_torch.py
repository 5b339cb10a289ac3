"""torch tensors in and out; skipped where torch is not installed."""

from __future__ import annotations

import gradwire
import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

DTYPES = [
    "float32",
    "bfloat16",
    "float16",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "bool",
]


def tensor(dtype: str, shape: tuple[int, ...] = (5, 6)) -> torch.Tensor:
    values = torch.arange(float(np.prod(shape))).reshape(shape) % 5
    return values.to(getattr(torch, dtype))


def bits(x: torch.Tensor) -> bytes:
    return x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 6), (), (0, 2), (3, 2, 2, 2)])
def test_every_torch_dtype_comes_back(dtype: str, shape: tuple[int, ...]) -> None:
    x = tensor(dtype, shape)
    frame = gradwire.compress(x)
    restored = gradwire.decompress(frame, framework="torch")
    assert (restored.dtype, restored.shape) == (x.dtype, x.shape)
    assert bits(restored) == bits(x) == gradwire.decompress(frame).tobytes()

    out = torch.ones_like(x)
    assert gradwire.decompress(frame, out=out) is out
    assert bits(out) == bits(x)


def test_torch_and_numpy_give_the_same_frame() -> None:
    x = np.random.default_rng(1).normal(0, 1e-3, (50, 60)).astype(np.float32)
    frame = gradwire.compress(torch.from_numpy(x).bfloat16())
    assert frame == gradwire.compress(x.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::2, 1:],
        lambda x: torch.nn.Parameter(x),
        lambda x: x.requires_grad_() * 1,
        lambda x: torch.complex(x, x).conj().imag,
    ],
)
def test_views_and_parameters_are_taken(view) -> None:
    x = view(tensor("float32"))
    assert gradwire.decompress(gradwire.compress(x)).tobytes() == bits(x.detach().resolve_neg())


def test_channels_last_is_taken_in_logical_order() -> None:
    x = tensor("bfloat16", (2, 3, 4, 5))
    y = x.to(memory_format=torch.channels_last)
    assert gradwire.compress(y) == gradwire.compress(x)


def test_the_input_is_not_changed() -> None:
    x = tensor("float32")
    before = bits(x)
    gradwire.compress(x, level=3)
    assert bits(x) == before


@pytest.mark.parametrize(
    ("x", "word"),
    [
        (torch.zeros(3, dtype=torch.complex64), "complex64"),
        (torch.zeros(3, device="meta"), "meta"),
        (torch.zeros(3, 3).to_sparse(), "sparse"),
    ],
)
def test_tensors_without_bytes_of_ours_are_refused(x: torch.Tensor, word: str) -> None:
    with pytest.raises(gradwire.ArgumentError, match=word):
        gradwire.compress(x)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (torch.zeros(5, 6), "dtype"),
        (torch.zeros(6, 5, dtype=torch.bfloat16), "shape"),
        (torch.zeros(6, 5, dtype=torch.bfloat16).T, "contiguous"),
    ],
)
def test_out_that_does_not_fit_is_refused(out: torch.Tensor, message: str) -> None:
    frame = gradwire.compress(tensor("bfloat16"))
    with pytest.raises(gradwire.ArgumentError, match=message):
        gradwire.decompress(frame, out=out)


def test_dlpack_exporters_of_bfloat16_are_taken() -> None:
    class Exporter:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

        def __dlpack__(self, **options: object) -> object:
            return self.x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.x.__dlpack_device__()

    x = tensor("bfloat16")
    assert gradwire.compress(Exporter(x)) == gradwire.compress(x)
    assert gradwire.compress(Exporter(x[:0])) == gradwire.compress(x[:0])
    with pytest.raises(gradwire.ArgumentError, match="DLPack"):
        gradwire.compress(Exporter(x.T))


def test_frames_and_dtypes_may_be_torch_objects() -> None:
    x = tensor("bfloat16")
    frame = gradwire.compress(x.view(torch.int16), dtype=torch.bfloat16)
    assert frame == gradwire.compress(x)
    as_tensor = torch.frombuffer(bytearray(frame), dtype=torch.uint8)
    assert gradwire.decompress(as_tensor).tobytes() == bits(x)
    assert gradwire.compress_bound(torch.bfloat16, 3) == gradwire.compress_bound("bf16", 3)


def test_batches_may_mix_torch_and_numpy() -> None:
    frame = gradwire.compress_batch({"a": tensor("bfloat16"), "b": np.zeros(3)})
    restored = gradwire.decompress_batch(frame)
    assert torch.from_numpy(restored["b"]).dtype == torch.float64
    assert restored["a"].dtype == ml_dtypes.bfloat16


def test_an_unknown_framework_is_refused() -> None:
    with pytest.raises(gradwire.ArgumentError, match="framework"):
        gradwire.decompress(gradwire.compress(b"x"), framework="jax")
