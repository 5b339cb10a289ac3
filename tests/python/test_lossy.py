"""Lossy methods on tensors, batches and files; each method's numbers are tested in C++."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradwire
import ml_dtypes
import numpy as np
import pytest

SPEC = "topk(keep=0.1)"


def gradient(dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(5).normal(0, 1e-3, (40, 50)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("method", gradwire.lossy_methods())
def test_every_method_restores_what_its_report_says(method: str, dtype: Any) -> None:
    x = gradient(dtype)
    try:
        frame, report = gradwire.compress_lossy(x, method)
    except gradwire.ArgumentError as refusal:
        assert "between ranks only" in str(refusal)  # noqa: PT017
        pytest.skip(str(refusal))
    restored = gradwire.decompress(frame)
    assert (restored.dtype, restored.shape) == (x.dtype, x.shape)
    was, found = x.astype(np.float64), restored.astype(np.float64)
    error = np.linalg.norm(found - was) / np.linalg.norm(was)
    assert report.relative_l2 == pytest.approx(error, rel=1e-9)
    assert report.largest_error == np.abs(found - was).max()
    assert report.sign_agreement == pytest.approx(float(np.mean(was * found > 0)), abs=1e-3)
    assert report.elements == x.size
    assert gradwire.compress(x, method=method) == frame
    assert gradwire.info(frame).pipeline == "lossy"


def test_the_largest_values_are_kept_as_they_are() -> None:
    x = gradient()
    frame, report = gradwire.compress_lossy(x, SPEC)
    restored = gradwire.decompress(frame)
    kept = restored != 0
    assert report.selected == kept.sum() == x.size // 10
    np.testing.assert_array_equal(restored[kept], x[kept])
    assert np.abs(x[~kept]).max() <= np.abs(x[kept]).min()
    assert len(frame) < x.nbytes // 5


def test_draws_depend_on_the_name() -> None:
    x = gradient()
    first, second = (gradwire.compress_lossy(x, "randomk", name=name)[0] for name in ("a", "b"))
    assert not np.array_equal(gradwire.decompress(first), gradwire.decompress(second))


def test_vectors_go_exactly_unless_asked_otherwise() -> None:
    x = gradient().reshape(-1)
    assert gradwire.compress(x, method=SPEC) == gradwire.compress(x)
    frame, report = gradwire.compress_lossy(x, "topk(keep=0.1,dense_vectors=false)")
    assert report.selected == x.size // 10
    assert gradwire.info(frame).zeros == "gaps, 10 % kept"


def test_batches_and_files_hold_lossy_and_exact_tensors(tmp_path: Path) -> None:
    tensors = {
        "w": gradient(),
        "half": gradient(ml_dtypes.bfloat16),
        "b": gradient()[0],
        "ids": np.arange(12).reshape(3, 4),
    }
    path = tmp_path / "gradients.gw"
    gradwire.save(tensors, path, method=SPEC, level=1)
    frame = gradwire.compress_batch(tensors, method=SPEC, level=1)
    assert path.read_bytes() == frame
    for restored in (gradwire.load(path), gradwire.decompress_batch(frame)):
        assert list(restored) == list(tensors)
        for name in ("b", "ids"):
            assert restored[name].tobytes() == tensors[name].tobytes()
        for name in ("w", "half"):
            alone = gradwire.compress_lossy(tensors[name], SPEC, name=name)[0]
            assert restored[name].tobytes() == gradwire.decompress(alone).tobytes()
    archive = gradwire.open(path)
    np.testing.assert_array_equal(archive["w"][3:5], gradwire.load(path)["w"][3:5])
    assert archive.info("w").fractions == "f32"


def test_a_frame_comes_in_pieces_and_into_memory_of_the_caller() -> None:
    x = gradient()
    frame = gradwire.compress(x, method=SPEC)
    decompressor = gradwire.Decompressor()
    fed = [decompressor.feed(frame[i : i + 100]) for i in range(0, len(frame), 100)]
    assert fed[-1]
    assert not any(fed[:-1])
    restored = decompressor.finish()
    out = np.ones_like(x)
    assert gradwire.decompress(frame, out=out) is out
    np.testing.assert_array_equal(restored, out)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("topkk", "did you mean 'topk'"),
        ("lossless", "'lossless' is unknown"),
        ("topk(keep=0)", "keep: 0 given"),
        ("topk(kep=1)", "did you mean 'keep'"),
        (3, "method must be a string"),
    ],
)
def test_a_wrong_spec_is_one_clear_error(method: object, message: str) -> None:
    with pytest.raises(gradwire.ArgumentError, match=message):
        gradwire.compress_lossy(gradient(), method)  # type: ignore[arg-type]


def test_what_lossy_methods_cannot_hold_is_refused() -> None:
    with pytest.raises(gradwire.ArgumentError, match="f64 given"):
        gradwire.compress(gradient(np.float64), method=SPEC)
    x = gradient()
    x[1, 2] = np.nan
    with pytest.raises(gradwire.ArgumentError, match="element 52"):
        gradwire.compress(x, method=SPEC)
    with pytest.raises(gradwire.ArgumentError, match=r"w.*: element 52"):
        gradwire.compress_batch({"w": x}, method=SPEC)
    frame = gradwire.compress(x, method="topk(nan=pass)")
    assert gradwire.decompress(frame).tobytes() == x.tobytes()
    with pytest.raises(gradwire.ArgumentError, match="level"):
        gradwire.compress(gradient(), method=SPEC, level=9)
    with pytest.raises(gradwire.ArgumentError, match="'topk' is lossy"):
        gradwire.Compressor(method=SPEC)
