"""The command line tool on good input: files come back byte for byte, under the right names."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import xxhash
from cli_testing import (
    SAMPLES,
    bf16_bytes,
    check_round_trip,
    entry,
    info,
    npy,
    run,
    safetensors,
)

# --- formats ---------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_safetensors_file_comes_back_byte_for_byte(
    tmp_path: Path, sample: Path, level: int
) -> None:
    copy = tmp_path / sample.name
    copy.write_bytes(sample.read_bytes())
    assert check_round_trip(copy, "--level", level) < 0.9 * copy.stat().st_size


@pytest.mark.parametrize("coder", ["huffman", "ans", "stored"])
@pytest.mark.parametrize("tables", ["dynamic", "static", "hybrid", "gennorm"])
def test_every_coder_and_kind_of_table_comes_back(tmp_path: Path, coder: str, tables: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(np.random.default_rng(2).standard_normal((40, 50)).astype("<f4")))
    check_round_trip(path, "--coder", coder, "--tables", tables)


def test_header_order_metadata_blanks_and_empty_tensors_are_kept(tmp_path: Path) -> None:
    entries = {
        "second": entry("F32", [2, 2], 8, 24),
        "__metadata__": {"format": "pt", "läuft": "ja\n"},
        "empty": entry("F32", [0, 3], 8, 8),
        "first": entry("I64", [], 0, 8),
        "last \u0000 one": entry("BOOL", [1, 1, 1], 24, 25),
    }
    path = tmp_path / "odd.safetensors"
    path.write_bytes(safetensors(entries, bytes(range(25)), b" \n\t  "))
    check_round_trip(path)
    names = [t["name"] for t in info(tmp_path / "odd.safetensors.gw")["tensors"]]
    assert names == ["first", "empty", "second", "last \u0000 one"]


def test_types_that_gradwire_has_no_id_for_are_stored_as_bytes(tmp_path: Path) -> None:
    entries = {
        "f4": entry("F4", [3, 2], 0, 3),
        "e8": entry("F8_E8M0", [5], 3, 8),
        "complex": entry("C64", [2], 8, 24),
        "f6": entry("F6_E2M3", [4], 24, 27),
        "future": entry("Q7", [9, 9], 27, 30),
        "deep": entry("F32", [1] * 40, 30, 34),
    }
    path = tmp_path / "new.safetensors"
    path.write_bytes(safetensors(entries, bytes(34)))
    check_round_trip(path)
    dtypes = [t["dtype"] for t in info(tmp_path / "new.safetensors.gw")["tensors"]]
    assert dtypes == ["u8"] * 5 + ["f32"]


def test_a_safetensors_file_without_tensors_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    path.write_bytes(safetensors({}, b""))
    check_round_trip(path)


NPY_TYPES = ["<f4", "<f2", "<f8", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "?"]
NPY_ODD_TYPES = ["<c8", "<U3", "S5", "<M8[ns]", "<V2", "V1", "V7"]


@pytest.mark.parametrize("dtype", NPY_TYPES + NPY_ODD_TYPES)
@pytest.mark.parametrize("shape", [(), (0, 2), (7,), (3, 4, 5)])
def test_an_npy_file_comes_back_byte_for_byte(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    path = tmp_path / "x.npy"
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    path.write_bytes(npy(np.frombuffer(bytes(i & 1 for i in range(size)), dtype).reshape(shape)))
    check_round_trip(path)
    if dtype in NPY_TYPES:
        assert info(tmp_path / "x.npy.gw")["tensors"][0]["shape"] == list(shape)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_npy_version_comes_back(tmp_path: Path, version: tuple[int, int]) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(np.arange(1000, dtype="<f4"), version))
    check_round_trip(path)


def test_raw_data_take_a_dtype_and_a_shape(tmp_path: Path) -> None:
    path = tmp_path / "grad.bin"
    path.write_bytes(bf16_bytes(200))
    check_round_trip(path, "--dtype", "bf16", "--shape", "10,20")
    tensor = info(tmp_path / "grad.bin.gw")["tensors"][0]
    assert (tensor["dtype"], tensor["shape"]) == ("bf16", [10, 20])
    check_round_trip(path, "--dtype", "bfloat16")
    assert info(tmp_path / "grad.bin.gw")["tensors"][0]["shape"] == [200]


def test_a_frame_of_one_tensor_is_written_raw_or_as_npy(tmp_path: Path) -> None:
    gradwire = pytest.importorskip("gradwire")
    array = np.arange(600, dtype="<f4").reshape(20, 30)
    frame = tmp_path / "x.gw"
    frame.write_bytes(gradwire.compress(array))
    run("verify", frame)
    run("decompress", frame)
    assert (tmp_path / "x").read_bytes() == array.tobytes()
    run("decompress", frame, "-o", tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), array)
    assert run("decompress", frame, "--range", "5:7", "-o", "-").stdout == array.tobytes()[20:28]


def test_an_archive_without_a_source_becomes_a_safetensors_file(tmp_path: Path) -> None:
    gradwire = pytest.importorskip("gradwire")
    tensors = {"": np.array([True]), 'quote"': np.arange(6, dtype="<f4").reshape(2, 3)}
    gradwire.save(tensors, tmp_path / "x.gw")
    run("decompress", tmp_path / "x.gw")
    content = (tmp_path / "x.safetensors").read_bytes()
    length = struct.unpack_from("<Q", content)[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    for name, array in tensors.items():
        begin, end = header[name]["data_offsets"]
        assert data[begin:end] == array.tobytes()
        assert header[name]["shape"] == list(array.shape)
        part = run("decompress", tmp_path / "x.gw", "--tensor", name, "-o", "-").stdout
        assert part == array.tobytes()
    check_round_trip(tmp_path / "x.safetensors")


# --- names and streams --------------------------------------------------------------


def test_pipes_take_all_formats_and_give_them_back() -> None:
    for source, options in [
        (SAMPLES[0].read_bytes(), []),
        (npy(np.arange(9.0)), []),
        (bf16_bytes(77), ["--dtype", "bf16"]),
        (b"", ["--dtype", "f32"]),
    ]:
        packed = run("compress", "-", *options, stdin=source).stdout
        assert run("decompress", "-", stdin=packed).stdout == source


def test_a_folder_is_searched_and_its_tree_is_kept(tmp_path: Path) -> None:
    tree = {"a.npy": npy(np.arange(5.0)), "deep/b.safetensors": SAMPLES[0].read_bytes()}
    for name, content in {**tree, "deep/c.txt": b"other"}.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    run("compress", tmp_path / "in", "-o", f"{tmp_path}/packed/")
    found = {str(p.relative_to(tmp_path / "packed")) for p in files(tmp_path / "packed")}
    assert found == {name + ".gw" for name in tree}
    run("decompress", tmp_path / "packed", "-o", f"{tmp_path}/out/")
    for name, content in tree.items():
        assert (tmp_path / "out" / name).read_bytes() == content


@pytest.mark.parametrize(
    ("name", "restored"),
    [
        ("m.npy.gw", "m.npy"),
        ("m.gw", "m.npy"),
        ("m.npy", "m.npy"),
        ("m.packed", "m.packed.npy"),
    ],
)
def test_a_file_gets_the_ending_of_its_source_back(
    tmp_path: Path, name: str, restored: str
) -> None:
    source = npy(np.arange(5.0))
    packed = run("compress", "-", stdin=source).stdout
    (tmp_path / name).write_bytes(packed)
    run("decompress", tmp_path / name, "-o", f"{tmp_path}/out/")
    assert (tmp_path / "out" / restored).read_bytes() == source


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(np.arange(5.0)))
    packed = tmp_path / "x.npy.gw"
    packed.write_bytes(b"precious")
    error = run("compress", path, code=2).stderr.decode()
    assert "x.npy.gw exists" in error
    assert "-f" in error
    assert packed.read_bytes() == b"precious"
    run("compress", path, "-f", "-k")
    assert packed.read_bytes()[:4] == b"GRDW"
    assert (
        "replace its own input" in run("compress", path, "-f", "-o", path, code=1).stderr.decode()
    )
    assert path.exists()


def test_inputs_are_removed_only_when_asked_and_after_success(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(np.arange(5.0)))
    run("compress", path, "--rm", "-o", tmp_path / "missing" / "x.gw", code=2)
    run("compress", path, "--rm", "-o", "-", code=1)
    assert path.exists()
    run("compress", path, "--rm")
    assert [p.name for p in files(tmp_path)] == ["x.npy.gw"]
    run("decompress", tmp_path / "x.npy.gw", "--rm")
    assert [p.name for p in files(tmp_path)] == ["x.npy"]


def test_an_output_has_the_permissions_of_its_input_and_a_link_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(np.arange(5.0)))
    path.chmod(0o640)
    run("compress", path)
    assert (tmp_path / "x.npy.gw").stat().st_mode & 0o777 == 0o640
    (tmp_path / "link.gw").symlink_to("x.npy.gw")
    run("compress", path, "-f", "-o", tmp_path / "link.gw", "--level", 1)
    assert (tmp_path / "link.gw").is_symlink()


def test_two_inputs_never_go_to_one_output(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.npy").write_bytes(npy(np.arange(5.0)))
    inputs = [tmp_path / "a" / "x.npy", tmp_path / "b" / "x.npy"]
    assert b"another input" in run("compress", *inputs, "-fo", f"{tmp_path}/out/", code=1).stderr
    assert b"folder" in run("compress", *inputs, "-o", tmp_path / "one.gw", code=1).stderr


# --- parts, reports, speed --------------------------------------------------------------


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def packed_sample(tmp_path: Path, *options: object) -> Path:
    path = tmp_path / "sample.gw"
    run("compress", SAMPLES[0], "-fo", path, *options)
    return path


def test_a_tensor_and_a_range_of_it_come_out_raw_or_as_npy(tmp_path: Path) -> None:
    array = np.random.default_rng(3).standard_normal((300, 500)).astype("<f4")
    source = safetensors(
        {
            "w": entry("F32", array.shape, 0, array.nbytes),
            "b": entry("U8", [1], array.nbytes, array.nbytes + 1),
        },
        array.tobytes() + b"!",
    )
    path = tmp_path / "m.gw"
    run("compress", "-", "-o", path, stdin=source)
    out = tmp_path / "w.npy"
    run("decompress", path, "--tensor", "w", "-o", out)
    np.testing.assert_array_equal(np.load(out), array)
    run("decompress", path, "--tensor", "w", "--range", "65530:65540", "-fo", out)
    np.testing.assert_array_equal(np.load(out), array.ravel()[65530:65540])
    for text, part in [(":3", slice(0, 3)), ("149999:", slice(149999, None)), ("7:7", slice(7, 7))]:
        raw = run("decompress", path, "--tensor", "w", "--range", text, "-o", "-").stdout
        assert raw == array.ravel()[part].tobytes()
    assert run("decompress", "-", "--tensor", "b", stdin=path.read_bytes()).stdout == b"!"
    for arguments in (
        ["--tensor", "v", "-o", "-"],
        ["--range", "0:1", "-o", "-"],
        ["--tensor", "w", "--range", "5:4", "-o", "-"],
        ["--tensor", "w", "--range", "0:150001", "-o", "-"],
        ["--tensor", "w", "--range", "x", "-o", "-"],
        ["--tensor", "w"],
    ):
        run("decompress", path, *arguments, code=1)


def test_info_tells_sizes_shares_and_stages(tmp_path: Path) -> None:
    path = packed_sample(tmp_path)
    report = info(path)
    assert report["file_bytes"] == path.stat().st_size
    assert report["original_bytes"] == SAMPLES[0].stat().st_size
    assert report["source"] == "safetensors"
    assert 0 < report["order0_bound"] < 1
    for tensor in report["tensors"]:
        assert 0 <= tensor["zero_share"] <= 1
        assert tensor["pipeline"]
        assert tensor["checksums"]
    assert info(path, "--headers")["tensors"][0]["zero_share"] is None
    source = info(SAMPLES[0])
    assert source["order0_bound"] == pytest.approx(report["order0_bound"])
    lines = run("info", path).stdout.decode().splitlines()
    assert len(lines) == len(report["tensors"]) + 3
    assert lines[1].split()[:3] == ["tensor", "dtype", "shape"]


def test_threads_do_not_change_the_bytes(tmp_path: Path) -> None:
    frames = {packed_sample(tmp_path, "--threads", n).read_bytes() for n in (0, 1, 2, 3, 7)}
    assert len(frames) == 1


def test_checksums_can_be_left_out(tmp_path: Path) -> None:
    path = packed_sample(tmp_path, "--no-checksum")
    assert b"no checksums" in run("verify", path).stdout


def test_bench_measures_both_ways_beside_memcpy() -> None:
    options = ["--runs", 1, "--json", "--repeat-to", "1M", "--level", 1]
    report = json.loads(run("bench", SAMPLES[0], *options).stdout)
    (file,) = report["files"]
    assert file["original_bytes"] >= 1 << 20
    assert 0 < file["size_fraction"] < 1
    assert file["compress_bytes_per_s"] > 0
    assert 0 < file["decompress_of_memcpy"] < 2
    assert b"of memcpy" in run("bench", SAMPLES[0], "--runs", 1).stdout


def test_methods_and_help_and_version_are_printed() -> None:
    listed = run("methods").stdout
    assert b"lossless" in listed
    assert b"topk" in listed
    assert b"keep=" in listed
    assert b"gradwire 0" in run("--version").stdout
    commands = ["compress", "decompress", "verify", "info", "bench", "train-tables", "methods"]
    for command in commands:
        assert b"Exit codes" in run(command, "--help").stdout


def test_train_tables_writes_a_family_with_its_provenance(tmp_path: Path) -> None:
    out = tmp_path / "family.inc"
    run("train-tables", SAMPLES[0], "--tables", 2, "-o", out)
    digest = xxhash.xxh3_64_hexdigest(SAMPLES[0].read_bytes())
    line = next(line for line in out.read_text().splitlines() if SAMPLES[0].name in line)
    assert line.startswith("//")
    assert line.endswith(f" XXH3-64 {digest})")
