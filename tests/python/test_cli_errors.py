"""The command line tool on bad input and bad luck: one error, nothing half written."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("GRADWIRE_CLI", ROOT / "build" / "release" / "gradwire"))
SAMPLE = ROOT / "tests" / "data" / "gpt-bf16-mid-r0.safetensors"


def failed(
    *arguments: object,
    code: int,
    stdin: bytes = b"",
    limit: Callable[[], None] | None = None,
) -> str:
    """Run the tool; it must fail with this code. Returns what it says, one line."""
    done = subprocess.run(
        [TOOL, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        preexec_fn=limit,
    )
    error = done.stderr.decode(errors="replace")
    assert done.returncode == code, error
    assert error.startswith("gradwire: ")
    assert error.count("\n") == 1, error
    assert not done.stdout
    return error


def compressed(source: bytes, *options: object) -> bytes:
    done = subprocess.run(
        [TOOL, "compress", "-", *map(str, options)], input=source, capture_output=True, check=True
    )
    return done.stdout


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- the call ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "subcommand"),
        (["squash"], "--help"),
        (["compress"], "FILES"),
        (["compress", "x", "--level", "4"], "--level"),
        (["compress", "x", "--coder", "zip"], "zip"),
        (["compress", "x", "--tables", "round"], "round"),
        (["compress", "x", "--dtype", "f33"], "f33"),
        (["compress", "x", "--shape", "3"], "--dtype"),
        (["compress", "x", "--dtype", "f32", "--shape", "3,,4"], "--shape"),
        (["compress", "x", "--dtype", "f32", "--shape", "-1"], "--shape"),
        (["compress", "x", "--keep", "--rm"], "--rm"),
        (["compress", "x", "--threads", "-1"], "--threads"),
        (["decompress", "x", "--max-output", "12Q"], "12Q"),
        (["decompress", "x", "--max-output", "nan"], "nan"),
        (["decompress", "x", "--max-output", "0"], "--max-output"),
        (["bench", "x", "--runs", "0"], "--runs"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_exit_code_1(arguments: Sequence[str], word: str) -> None:
    assert word in failed(*arguments, code=1)


@pytest.mark.parametrize("command", ["compress", "decompress", "verify", "info", "bench"])
def test_a_missing_path_is_named(tmp_path: Path, command: str) -> None:
    error = failed(command, tmp_path / "x.npy", code=2)
    assert "x.npy: " in error
    assert "No such file or directory" in error


def test_a_folder_without_tensors_and_a_file_of_no_known_kind_are_told(tmp_path: Path) -> None:
    assert ".safetensors or .npy" in failed("compress", tmp_path, code=1)
    (tmp_path / "notes.txt").write_text("hello, this is text")
    assert "--dtype" in failed("compress", tmp_path / "notes.txt", code=1)
    frame = compressed(b"1234", "--dtype", "u8")
    assert "already" in failed("compress", "-", stdin=frame, code=1)


def test_raw_data_that_do_not_fit_their_shape_are_told(tmp_path: Path) -> None:
    options = ["--dtype", "f32"]
    assert "5 bytes" in failed("compress", "-", *options, stdin=b"12345", code=1)
    error = failed("compress", "-", *options, "--shape", "2,2", stdin=b"12345678", code=1)
    assert "16 bytes" in error
    assert "has 8" in error
    huge = ",".join(["4294967296"] * 3)
    assert "too many" in failed("compress", "-", *options, "--shape", huge, stdin=b"", code=1)


def test_work_goes_on_after_an_error_and_the_first_code_stands(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.npy", tmp_path / "bad.npy"
    np.save(good, np.arange(4.0))
    bad.write_bytes(b"junk that is no array")
    paths = [bad, tmp_path / "missing.npy", good]
    done = subprocess.run([TOOL, "compress", *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
        str(bad),
        str(tmp_path / "missing.npy"),
    ]
    assert names_in(tmp_path) == ["bad.npy", "good.npy", "good.npy.gw"]


# --- headers that lie ----------------------------------------------------------------


def header(text: str, data: bytes = b"", length: int | None = None) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded) if length is None else length) + encoded + data


def one_tensor(**changes: object) -> str:
    fields = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    fields.update(changes)
    return json.dumps({"w": {key: value for key, value in fields.items() if value is not None}})


EIGHT = b"8 bytes."
LYING = {
    "empty file": (b"", "0 bytes"),
    "seven bytes": (b"\x02" + bytes(6), "7 bytes"),
    "header past the end": (header("{}", length=100), "100"),
    "header over 100 MB": (header("{}", length=100_000_001), "100000000"),
    "header of 2^63": (header("{}", length=1 << 63), "header length"),
    "no JSON": (header("hello"), "byte 8"),
    "JSON that ends early": (header('{"w":'), "JSON"),
    "JSON and then more": (header("{} x"), "JSON"),
    "bytes that are no UTF-8": (struct.pack("<Q", 7) + b'{"\xff":1}', "UTF-8"),
    "deep nesting": (header('{"w":' * 5000), "w"),
    "a list": (header("[]"), "object"),
    "a tensor that is a number": (header('{"w":1}'), "'w'"),
    "a tensor that is a list": (header('{"w":[]}'), "'w'"),
    "metadata of numbers": (header('{"__metadata__":{"a":1}}'), "__metadata__"),
    "metadata that is a string": (header('{"__metadata__":"a"}'), "__metadata__"),
    "a name twice": (header('{"w":%s,"w":%s}' % ((one_tensor()[6:-1],) * 2), EIGHT), "'w'"),
    "a field twice": (header('{"w":{"dtype":"F32","dtype":"F32"}}'), "dtype stands twice"),
    "metadata twice": (header('{"__metadata__":{},"__metadata__":{}}'), "twice"),
    "no dtype": (header(one_tensor(dtype=None), EIGHT), "dtype is missing"),
    "no shape": (header(one_tensor(shape=None), EIGHT), "shape is missing"),
    "no offsets": (header(one_tensor(data_offsets=None), EIGHT), "data_offsets is missing"),
    "a dtype that is a number": (header(one_tensor(dtype=4), EIGHT), "dtype"),
    "a negative dimension": (header(one_tensor(shape=[-2]), EIGHT), "-2"),
    "a dimension of 2.0": (header(one_tensor(shape=[2.0]), EIGHT), "2.0"),
    "a dimension of NaN": (header(one_tensor(shape=[float("nan")]), EIGHT), "JSON"),
    "a dimension of null": (header('{"w":{"shape":[null]}}'), "null"),
    "a dimension of 2^70": (header(one_tensor(shape=[1 << 70]), EIGHT), "shape"),
    "a shape in a shape": (header(one_tensor(shape=[[2]]), EIGHT), "array"),
    "a shape that overflows": (header(one_tensor(shape=[1 << 40] * 3), EIGHT), "too large"),
    "a shape of 2^64 bits": (header(one_tensor(shape=[1 << 59]), EIGHT), "too large"),
    "a shape of another size": (header(one_tensor(shape=[3]), EIGHT), "12 bytes"),
    "half a byte": (header(one_tensor(dtype="F4", shape=[15]), EIGHT), "within a byte"),
    "three offsets": (header(one_tensor(data_offsets=[0, 8, 8]), EIGHT), "3 numbers"),
    "offsets backwards": (header(one_tensor(data_offsets=[8, 0]), EIGHT), "before they begin"),
    "offsets past the end": (header(one_tensor(data_offsets=[0, 9]), EIGHT), "past the end"),
    "offsets of 2^64": (header(one_tensor(data_offsets=[0, 2**64 - 1]), EIGHT), "past the end"),
    "a hole in front": (header(one_tensor(data_offsets=[1, 9]), EIGHT + b"!"), "hole of 1 bytes"),
    "bytes behind": (header(one_tensor(), EIGHT + b"!"), "1 bytes at byte"),
    "an overlap": (
        header(
            '{"v":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},'
            '"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
            EIGHT,
        ),
        "overlap",
    ),
}


@pytest.mark.parametrize("case", LYING)
def test_a_lying_safetensors_header_is_refused(tmp_path: Path, case: str) -> None:
    content, word = LYING[case]
    path = tmp_path / "lie.safetensors"
    path.write_bytes(content)
    error = failed("compress", path, code=3)
    assert "lie.safetensors: " in error
    assert word in error
    assert len(error) < 1000
    assert names_in(tmp_path) == ["lie.safetensors"]


def npy(descr: str, shape: str = "(2,)", order: str = "False", data: bytes = bytes(8)) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


LYING_NPY = {
    "no magic": (b"not an array at all", 3, "NUMPY"),
    "only magic": (b"\x93NUMPY", 3, "version"),
    "version 9": (b"\x93NUMPY\x09\x00" + bytes(90), 4, "version 9"),
    "header past the end": (b"\x93NUMPY\x01\x00\xff\xff{", 3, "65535"),
    "header of 4 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", 3, "header length"),
    "no dict": (npy("'<f4'")[:10] + b"x" * 100, 3, "byte 10"),
    "code instead of a dict": (npy("exec('x')"), 3, "a string"),
    "big-endian": (npy("'>f4'"), 4, "big-endian"),
    "Fortran order": (npy("'<f4'", order="True"), 4, "Fortran"),
    "objects": (npy("'|O'"), 4, "objects"),
    "a structure": (npy("[('a', '<f4')]"), 4, "structured"),
    "an unknown type": (npy("'<f4x'"), 4, "not known"),
    "no type": (npy("''"), 3, "type"),
    "a negative dimension": (npy("'<f4'", "(-2,)"), 3, "dimension"),
    "a dimension of 2^70": (npy("'<f4'", f"({1 << 70},)"), 3, "2^64"),
    "a shape that overflows": (npy("'<f4'", "(4294967296, 4294967296, 2)"), 3, "too many"),
    "too few bytes": (npy("'<f4'", "(3,)"), 3, "12 bytes"),
    "too many bytes": (npy("'<f4'", "(1,)"), 3, "4 bytes"),
    "a field twice": (npy("'<f4', 'descr': '<f4'"), 3, "one each"),
}


@pytest.mark.parametrize("case", LYING_NPY)
def test_an_npy_file_that_lies_or_is_not_supported_is_refused(tmp_path: Path, case: str) -> None:
    content, code, word = LYING_NPY[case]
    path = tmp_path / "lie.npy"
    path.write_bytes(content)
    assert word in failed("compress", path, code=code)
    assert names_in(tmp_path) == ["lie.npy"]


def test_an_npy_file_of_two_arrays_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    np.save(out, np.arange(3.0))
    np.save(out, np.arange(3.0))
    assert "npy array" in failed("compress", "-", stdin=out.getvalue(), code=3)


# --- frames that are damaged ----------------------------------------------------------


def small_frame() -> bytes:
    values = np.random.default_rng(5).standard_normal(300).astype("<f4").tobytes()
    return compressed(values, "--dtype", "f32", "--shape", "10,30")


def test_every_prefix_and_left_over_bytes_are_refused(tmp_path: Path) -> None:
    frame = small_frame()
    path = tmp_path / "cut.gw"
    for size in [*range(0, 64), *range(64, len(frame), 29), len(frame) - 1]:
        path.write_bytes(frame[:size])
        failed("decompress", path, code=3)
    path.write_bytes(frame + b"x")
    failed("decompress", path, code=3)
    assert names_in(tmp_path) == ["cut.gw"]


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    frame = small_frame()
    path = tmp_path / "flipped.gw"
    for position in range(0, len(frame), 7):
        damaged = bytearray(frame)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        done = subprocess.run([TOOL, "decompress", path], capture_output=True, check=False)
        assert done.returncode in (3, 4, 5), position
    assert names_in(tmp_path) == ["flipped.gw"]


def test_a_damaged_tensor_is_named_and_stdout_stays_empty() -> None:
    frame = bytearray(compressed(SAMPLE.read_bytes()))
    frame[len(frame) // 2] ^= 1
    error = failed("decompress", "-", stdin=bytes(frame), code=3)
    assert "tensor '" in error
    assert "checksum" in error


def test_what_is_no_frame_is_told(tmp_path: Path) -> None:
    assert "GRDW" in failed("decompress", SAMPLE, "-o", tmp_path / "x", code=3)
    assert "empty" in failed("verify", "-", code=3)


def test_a_newer_version_is_not_supported() -> None:
    frame = bytearray(small_frame())
    frame[4] += 1
    assert "version" in failed("verify", "-", stdin=bytes(frame), code=4)


def test_output_over_the_limit_is_refused_before_it_is_made(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gw"
    path.write_bytes(compressed(bytes(1 << 20), "--dtype", "u8"))
    for command in ["decompress", "verify", "info"]:
        assert "1,048,57" in failed(command, path, "--max-output", "1048575", code=5)
    subprocess.run([TOOL, "verify", path, "--max-output", "1M"], check=True, capture_output=True)
    assert names_in(tmp_path) == ["zeros.gw"]


# --- bad luck -------------------------------------------------------------------------


def test_unwritable_places_are_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for place, reason in [
        ("missing/x.gw", "No such file or directory"),
        ("file/x.gw", "Not a directory"),
        ("y" * 300, "File name too long"),
    ]:
        error = failed("compress", SAMPLE, "-o", tmp_path / place, code=2)
        assert reason in error
        assert str(tmp_path / place) in error


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    target = tmp_path / "x.gw"
    error = failed("compress", SAMPLE, "-o", target, code=2, limit=limit)
    assert "x.gw" in error
    frame = tmp_path / "y.gw"
    frame.write_bytes(compressed(SAMPLE.read_bytes()))
    failed("decompress", frame, code=2, limit=limit)
    assert names_in(tmp_path) == ["y.gw"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_behind_stdout_is_an_error() -> None:
    for arguments in (["compress", SAMPLE, "-o", "-"], ["info", SAMPLE], ["methods"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [TOOL, *arguments], stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 2
        assert b"No space left on device" in done.stderr


def test_a_reader_that_goes_away_is_an_error_not_a_crash() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [TOOL, "compress", SAMPLE, "-o", "-"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert done.returncode == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_process_and_removes_the_temporary_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "big.bin"
    path.write_bytes(np.random.default_rng(6).bytes(1 << 22) * 16)
    process = subprocess.Popen(
        [TOOL, "compress", path, "--dtype", "f32", "--level", "3"],
        # nohup and background jobs of shells ignore signals, and children inherit that.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    end = time.monotonic() + 60
    while len(names_in(tmp_path)) == 1 and time.monotonic() < end:
        time.sleep(0.001)
    assert any(name.startswith(".gradwire-") for name in names_in(tmp_path))
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    assert names_in(tmp_path) == ["big.bin"]
