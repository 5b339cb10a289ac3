"""The command line tool with lossy methods."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from cli_testing import SAMPLES, TOOL, check_round_trip, entry, info, npy, run, safetensors


def sample_of_three(tmp_path: Path) -> Path:
    """A matrix, a vector and integers in one file."""
    matrix = np.random.default_rng(3).standard_normal(200).astype("<f4").tobytes()
    vector, whole = matrix[:40], b"\1" * 8
    path = tmp_path / "grads.safetensors"
    entries = {
        "w": entry("F32", [10, 20], 0, 800),
        "b": entry("F32", [10], 800, 840),
        "ids": entry("I8", [8], 840, 848),
    }
    path.write_bytes(safetensors(entries, matrix + vector + whole))
    return path


def decompress_lossy(*arguments: object) -> bytes:
    """Restore a lossy file; returns what stderr says."""
    done = subprocess.run(
        [TOOL, "decompress", *map(str, arguments)], capture_output=True, timeout=120, check=True
    )
    return done.stderr


def test_a_lossy_file_comes_back_with_the_values_of_its_method(tmp_path: Path) -> None:
    path, back = sample_of_three(tmp_path), tmp_path / "back.safetensors"
    packed = path.with_name("grads.safetensors.gw")
    told = run("compress", path, "--method", " topk( keep=0.10 )").stdout.decode()
    # 20 of 200 elements, and the 18 that go exactly.
    assert "topk(keep=0.1): share of elements sent 0.1743, relative L2 error 0." in told
    assert "share of signs kept" in told
    run("verify", packed)
    assert [t["pipeline"] == "lossy" for t in info(packed)["tensors"]] == [True, False, False]
    assert info(packed)["tensors"][0]["zeros"] == "gaps, 10 % kept"
    said = decompress_lossy(packed, "-o", back)
    assert said.startswith(b"gradwire: ")
    assert said.count(b"lossy method") == 1
    was, restored = path.read_bytes(), back.read_bytes()
    assert len(restored) == len(was)
    assert restored[: len(was) - 848] == was[: len(was) - 848]  # the header
    assert restored[-48:] == was[-48:]  # the vector and the integers
    values = np.frombuffer(restored[-848:-48], "<f4")
    source = np.frombuffer(was[-848:-48], "<f4")
    kept = np.argsort(-np.abs(source))[:20]
    np.testing.assert_array_equal(np.flatnonzero(values), np.sort(kept))
    np.testing.assert_array_equal(values[kept], source[kept])


def test_loss_is_noted_only_where_there_is_some(tmp_path: Path) -> None:
    path = sample_of_three(tmp_path)
    packed = path.with_name("grads.safetensors.gw")
    told = run("compress", path, "--method", "topk(dense_below=1000)").stdout
    assert b"no value has changed" in told
    check_round_trip(path, "--method", "topk(dense_below=1000)")
    check_round_trip(path, "--method", "lossless(level=3,coder=ans)")
    check_round_trip(path, "--method", "none")
    assert run("compress", path, "-f", "-q", "--method", "qsgd").stdout == b""
    run("decompress", packed, "-q", "-o", tmp_path / "quiet.safetensors")  # nothing on stderr
    run("decompress", packed, "--tensor", "b", "-o", tmp_path / "b.npy")
    assert b"lossy method" in decompress_lossy(packed, "--tensor", "w", "-o", tmp_path / "w.npy")
    assert np.load(tmp_path / "w.npy").shape == (10, 20)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("topkk(keep=0.01)", b"did you mean 'topk'"),
        ("topk(kep=0.01)", b"did you mean 'keep'"),
        ("topk(keep=7)", b"keep: 7 given"),
        ("lossless(level=9)", b"level"),
    ],
)
def test_a_wrong_method_is_one_error(tmp_path: Path, spec: str, message: bytes) -> None:
    path = sample_of_three(tmp_path)
    said = run("compress", path, path, "--method", spec, code=1).stderr
    assert message in said
    assert said.count(b"\n") == 1
    assert list(tmp_path.glob("*.gw")) == []


def test_a_value_that_is_not_finite_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(np.array([[1, np.inf]], "<f4")))
    said = run("compress", path, "--method", "topk", code=1).stderr
    assert b"element 1 of the gradient is inf" in said
    assert b"nan=pass" in said


def test_bench_takes_exact_methods_only() -> None:
    run("bench", SAMPLES[0], "--method", "topk", code=1)
