"""Batches, .gw files, and reading parts of them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import gradwire
import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(1)
TENSORS = {
    "weight": RNG.normal(0, 1e-3, (40, 50)).astype(np.float32),
    "kernel": RNG.normal(0, 1e-3, (12, 5, 3, 3)).astype(ml_dtypes.bfloat16),
    "größe/ütf-8": np.arange(7, dtype=np.int64),
    "scalar": np.array(2.5),
    "empty": np.empty((0, 3), np.float16),
    "": np.array([True, False]),
    "long": RNG.normal(0, 1e-3, (3000, 100)).astype(ml_dtypes.bfloat16),
}


def assert_same(restored: dict[str, np.ndarray], tensors: dict[str, np.ndarray]) -> None:
    assert list(restored) == list(tensors)
    for name, x in tensors.items():
        assert (restored[name].dtype, restored[name].shape) == (x.dtype, x.shape)
        assert restored[name].tobytes() == x.tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tensors.gw"
    gradwire.save(TENSORS, path)
    return path


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_batch_keeps_names_order_and_bits(level: int) -> None:
    frame = gradwire.compress_batch(TENSORS, level=level, threads=2)
    assert frame == gradwire.compress_batch(TENSORS, level=level)
    assert_same(gradwire.decompress_batch(frame, threads=2), TENSORS)
    backwards = dict(reversed(TENSORS.items()))
    assert_same(gradwire.decompress_batch(gradwire.compress_batch(backwards)), backwards)


def test_an_empty_batch_comes_back_empty() -> None:
    assert gradwire.decompress_batch(gradwire.compress_batch({})) == {}


def test_info_batch_tells_of_each_tensor() -> None:
    infos = gradwire.info_batch(gradwire.compress_batch(TENSORS))
    assert list(infos) == list(TENSORS)
    for name, info in infos.items():
        x = TENSORS[name]
        assert (info.name, info.dtype, info.shape) == (name, x.dtype, x.shape)
        assert info.original_bytes == x.nbytes


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"good": np.zeros(3), "bad": np.zeros(3, complex)}, "tensor 'bad': .*complex128"),
        ({3: np.zeros(3)}, "names must be strings, got 3"),
        ({"\ud800": np.zeros(3)}, "UTF-8"),
    ],
)
def test_errors_of_a_batch_name_the_tensor(tensors: dict, message: str) -> None:
    with pytest.raises(gradwire.ArgumentError, match=message):
        gradwire.compress_batch(tensors)


def test_max_output_of_a_batch_counts_all_tensors() -> None:
    frame = gradwire.compress_batch({name: np.zeros(100, np.uint8) for name in "abc"})
    gradwire.decompress_batch(frame, max_output=300)
    with pytest.raises(gradwire.LimitError, match="300 bytes"):
        gradwire.decompress_batch(frame, max_output=299)


# --- files ---------------------------------------------------------------------------------------


def test_a_file_keeps_names_order_and_bits(path: Path) -> None:
    assert_same(gradwire.load(path), TENSORS)
    assert_same(gradwire.load(str(path), threads=2), TENSORS)
    assert path.read_bytes() == gradwire.compress_batch(TENSORS)


def test_a_single_tensor_is_saved_under_the_name_data(tmp_path: Path) -> None:
    gradwire.save(TENSORS["weight"], tmp_path / "x.gw", level=1)
    assert_same(gradwire.load(tmp_path / "x.gw"), {"data": TENSORS["weight"]})


def test_a_file_is_replaced_whole_or_not_at_all(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(gradwire.ArgumentError):
        gradwire.save({"a": np.zeros(3), "b": np.zeros(3, object)}, path)
    assert path.read_bytes() == before
    gradwire.save({"a": np.zeros(3)}, path)
    assert list(gradwire.load(path)) == ["a"]
    assert os.listdir(path.parent) == [path.name], "nothing else is left behind"


def test_the_system_refusing_is_a_file_error(tmp_path: Path) -> None:
    for call in (gradwire.load, gradwire.open):
        with pytest.raises(gradwire.FileError, match="nowhere") as caught:
            call(tmp_path / "nowhere.gw")
        assert caught.value.errno == errno.ENOENT
    with pytest.raises(gradwire.FileError):
        gradwire.load(tmp_path)
    with pytest.raises(gradwire.FileError, match="missing"):
        gradwire.save({}, tmp_path / "missing" / "x.gw")
    with pytest.raises(gradwire.FileError):
        gradwire.save({}, tmp_path)
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(gradwire.FileError) as caught:
        gradwire.save(TENSORS, tmp_path / "x.gw")
    assert caught.value.errno == errno.ENOSPC
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (lambda data: b"", gradwire.TruncatedError),
        (lambda data: data[:-1], gradwire.TruncatedError),
        (lambda data: data[:5], gradwire.TruncatedError),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), gradwire.CorruptError),
        (lambda data: b"no gradwire file", gradwire.CorruptError),
        (lambda data: gradwire.compress(np.zeros(3)), gradwire.ArgumentError),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, path: Path, content, error: type) -> None:
    bad = tmp_path / "bad.gw"
    bad.write_bytes(content(path.read_bytes()))
    for call in (gradwire.load, gradwire.open):
        with pytest.raises(error, match=r"bad\.gw"):
            call(bad)


# --- lazy access ---------------------------------------------------------------------------------


def test_an_open_file_is_a_mapping_of_lazy_tensors(path: Path) -> None:
    with gradwire.open(path) as f:
        assert list(f) == list(f.keys()) == list(TENSORS)
        assert len(f) == len(TENSORS)
        assert "weight" in f
        assert "nothing" not in f
        assert f.get("nothing") is None
        for name, tensor in f.items():
            x = TENSORS[name]
            assert (tensor.name, tensor.dtype, tensor.shape) == (name, x.dtype, x.shape)
            assert (tensor.ndim, tensor.size, tensor.nbytes) == (x.ndim, x.size, x.nbytes)
            assert f.info(name).original_bytes == x.nbytes
            assert np.asarray(tensor).tobytes() == tensor.read().tobytes() == x.tobytes()
        assert len(f["weight"]) == 40
        with pytest.raises(TypeError):
            len(f["scalar"])


KEYS = [
    np.s_[:],
    np.s_[3:7],
    np.s_[-5:],
    np.s_[7:3],
    np.s_[::3],
    np.s_[10:2:-2],
    np.s_[::-1],
    np.s_[100000:],
    np.s_[4],
    np.s_[-1],
    np.s_[np.int64(2)],
    np.s_[...],
    np.s_[()],
    np.s_[2:9, 1],
    np.s_[3, 2:4],
    np.s_[3, ..., 0],
    np.s_[1:3, ..., None],
    np.s_[..., 1],
    np.s_[None, 2],
    np.s_[[0, 3, 3]],
    np.s_[2:5, [1, 0]],
    np.s_[2, :, [1, 0]],
]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("name", ["weight", "kernel", "long"])
def test_indexing_gives_what_numpy_gives(path: Path, name: str, key: object) -> None:
    x = TENSORS[name]
    with gradwire.open(path) as f:
        try:
            wanted = x[key]
        except IndexError:
            with pytest.raises(IndexError):
                f[name][key]
            return
        found = f[name][key]
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes()


def test_vectors_scalars_and_empty_tensors_can_be_indexed(path: Path) -> None:
    with gradwire.open(path) as f:
        vector = f["größe/ütf-8"]
        assert vector[3] == 3
        assert list(vector[2:4]) == [2, 3]
        assert list(vector) == list(range(7))
        assert f["scalar"][()] == 2.5
        assert f["empty"][:].shape == (0, 3)
        assert f["empty"][0:0, 1].shape == (0,)
        for index in (7, -8):
            with pytest.raises(IndexError):
                vector[index]
        with pytest.raises(IndexError):
            f["scalar"][0]


def test_a_slice_decodes_only_the_chunks_it_needs(tmp_path: Path) -> None:
    x = TENSORS["long"]  # 300,000 elements: five chunks
    data = bytearray(gradwire.compress_batch({"long": x}))
    data[len(data) * 3 // 4] ^= 0xFF
    path = tmp_path / "damaged.gw"
    path.write_bytes(data)
    with gradwire.open(path) as f:
        assert f["long"][:600].tobytes() == x[:600].tobytes()
        with pytest.raises(gradwire.CorruptError, match=r"damaged\.gw: tensor 'long': "):
            f["long"][...]
        with pytest.raises(gradwire.CorruptError):
            f["long"][2000:2500]


def test_read_writes_into_out(path: Path) -> None:
    with gradwire.open(path) as f:
        out = np.empty((40, 50), np.float32)
        assert f["weight"].read(out=out) is out
        assert out.tobytes() == TENSORS["weight"].tobytes()
        with pytest.raises(gradwire.ArgumentError, match="dtype float64"):
            f["weight"].read(out=np.empty((40, 50)))


def test_a_name_that_is_not_there_is_a_key_error_with_near_names(path: Path) -> None:
    with gradwire.open(path) as f:
        for error in (KeyError, gradwire.ArgumentError):
            with pytest.raises(error, match="weigth"):
                f["weigth"]
        with pytest.raises(gradwire.ArgumentError, match="'weight'"):
            f.info("weigth")


def test_a_closed_file_cannot_be_read(path: Path) -> None:
    with gradwire.open(path) as f:
        tensor = f["weight"]
        rows = tensor[:2]
    for call in (lambda: f["weight"], lambda: tensor[:2], lambda: f.info("weight")):
        with pytest.raises(gradwire.ArgumentError, match="closed"):
            call()
    assert rows.tobytes() == TENSORS["weight"][:2].tobytes()


def test_a_lazy_tensor_can_be_compressed_again(path: Path) -> None:
    with gradwire.open(path) as f:
        frame = gradwire.compress(f["kernel"])
    assert gradwire.decompress(frame).tobytes() == TENSORS["kernel"].tobytes()


def test_max_output_of_an_open_file_limits_each_read(path: Path) -> None:
    with gradwire.open(path, max_output=1000) as f:
        assert f["scalar"][()] == 2.5
        with pytest.raises(gradwire.LimitError):
            f["weight"][...]
