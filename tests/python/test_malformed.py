"""Frames that break one rule of docs/format.md each (tests/malformed, tools/make_malformed.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gradwire
import pytest
from reference import decoder, wire

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "malformed"
CASES = json.loads((FOLDER / "cases.json").read_text())
MAX_OUTPUT = 1 << 28
CLASSES = {
    "corrupt": gradwire.CorruptError,
    "limit": gradwire.LimitError,
    "truncated": gradwire.TruncatedError,
    "unsupported": gradwire.UnsupportedError,
}

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])


def is_archive(frame: bytes) -> bool:
    return len(frame) > 6 and bool(frame[6] & 2)


@each_case
def test_reference_decoder_gives_the_kind(case: dict) -> None:
    frame = (FOLDER / case["file"]).read_bytes()
    decode = decoder.decode_archive if is_archive(frame) else decoder.decode
    if case["kinds"] == ["accepted"]:
        decode(frame, MAX_OUTPUT)
        return
    with pytest.raises(wire.FormatError) as caught:
        decode(frame, MAX_OUTPUT)
    assert caught.value.kind in case["kinds"]


@each_case
def test_real_decoder_gives_kind_and_field(case: dict) -> None:
    frame = (FOLDER / case["file"]).read_bytes()
    decompress = gradwire.decompress_batch if is_archive(frame) else gradwire.decompress
    if case["kinds"] == ["accepted"]:
        decompress(frame, max_output=MAX_OUTPUT)
        return
    with pytest.raises(tuple(CLASSES[kind] for kind in case["kinds"])) as caught:
        decompress(frame, max_output=MAX_OUTPUT)
    assert case["word"] in str(caught.value)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["kinds"] == ["accepted"]], ids=lambda case: case["file"]
)
def test_accepted_frames_decode_to_the_same_bytes(case: dict) -> None:
    frame = (FOLDER / case["file"]).read_bytes()
    if is_archive(frame):
        _, _, tensors = decoder.decode_archive(frame, MAX_OUTPUT)
        restored = gradwire.decompress_batch(frame)
        assert list(restored) == [name for name, *_ in tensors]
        assert [restored[name].tobytes() for name, *_ in tensors] == [t[3] for t in tensors]
    else:
        assert gradwire.decompress(frame).tobytes() == decoder.decode(frame, MAX_OUTPUT)[2]


def test_files_are_those_that_the_tool_writes() -> None:
    tool = ROOT / "tools" / "make_malformed.py"
    ran = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {path.name for path in FOLDER.glob("*.gw")} == {case["file"] for case in CASES}
