"""The reference decoder and the real one agree, on the golden files and on frames made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradwire
import ml_dtypes
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import decoder, wire

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "golden"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
MALFORMED = ROOT / "tests" / "malformed"
BF16 = np.dtype(ml_dtypes.bfloat16)

# What the golden files must make use of, as tests/reference names it.
DTYPES = {name for name, _ in decoder.DTYPES.values()}
FEATURES = {
    *(f"dtype/{name}" for name in DTYPES),
    *(f"rank/{rank}" for rank in range(6)),  # 5 stands for 5 and more
    *("checksums/on", "checksums/off", "chunks/several"),
    *("pipeline/planes", "pipeline/scaled", "pipeline/kernels"),
    *("chunk/none", "chunk/coded", "chunk/zero map", "chunk/constant", "chunk/stored"),
    *("constant/zero", "constant/element"),
    *("plane/raw", "plane/constant", "plane/coded"),
    *("table/dynamic", "table/static", "table/gennorm"),
    *("gennorm/mean", "gennorm/mixture"),
    *("coder/huffman", "coder/ans", "ans/alias", "ans/contiguous", "pairs/huffman"),
    *("sign/raw", "sign/rank_one", "sign/tap"),
    *("scales/none", "scales/whole", "scales/halved", "step_log2/0", "step_log2/2"),
    *("zeros/in_band", "flags/bitmap", "flags/runs", "dead/rows", "dead/columns"),
    *("kept/scaled", "counted/scaled", "counted/joint", "low_count/some", "escape/low_bits"),
    *("counted/kernels", "low records/kernels", "escape/kernels"),
    *("integers/0", "integers/1", "integers/2", "integers/3", "integers/4", "integers/5"),
    *("source/none", "source/safetensors", "source/npy", "source/raw"),
    *("source/derived", "source/verbatim"),
    *("selection/all", "selection/flags", "selection/gaps", "selection/drawn"),
    *("drawn/selected", "drawn/others", "buckets/one", "buckets/several"),
    *("values/none", "values/float", "values/levels", "values/octets", "values/table"),
    *("values/f32", "values/bf16", "values/f16", "values/f8_e4m3", "values/f8_e5m2"),
    *("levels/step 1", "levels/step 2", "levels/width 1", "levels/width 2"),
    *("packed/plain", "packed/coded", "check/frame"),
}

each_file = pytest.mark.parametrize("name", sorted(MANIFEST))


def reference_decode(frame: bytes) -> list[tuple[str, tuple[int, ...], bytes]]:
    if frame[6] & 2:
        return [tensor[1:] for tensor in decoder.decode_archive(frame)[2]]
    return [decoder.decode(frame)]


def real_decode(frame: bytes) -> list[np.ndarray]:
    if frame[6] & 2:
        return list(gradwire.decompress_batch(frame).values())
    return [gradwire.decompress(frame)]


def assert_decoders_agree(frame: bytes) -> list[bytes]:
    """The bytes that both restore."""
    expected, restored = reference_decode(frame), real_decode(frame)
    assert [shape for _, shape, _ in expected] == [array.shape for array in restored]
    octets = [octets for _, _, octets in expected]
    assert octets == [array.tobytes() for array in restored]
    return octets


@each_file
def test_golden_files_decode_to_what_they_were_made_of(name: str) -> None:
    frame, row = (FOLDER / name).read_bytes(), MANIFEST[name]
    assert xxhash.xxh3_64_hexdigest(frame) == row["frame_xxh3"]
    decoded = b"".join(assert_decoders_agree(frame))
    assert xxhash.xxh3_64_hexdigest(decoded) == row["decoded_xxh3"]


def test_golden_files_are_those_of_the_manifest() -> None:
    assert {path.name for path in FOLDER.glob("*.gw")} == set(MANIFEST)
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gw")) < 600_000


def test_golden_files_use_every_feature_of_the_format() -> None:
    wire.features_seen.clear()
    for name in MANIFEST:
        reference_decode((FOLDER / name).read_bytes())
    assert wire.features_seen >= FEATURES, FEATURES - wire.features_seen


def test_every_prefix_of_a_golden_file_is_truncated() -> None:
    for name in MANIFEST:
        frame = (FOLDER / name).read_bytes()
        decompress = gradwire.decompress_batch if frame[6] & 2 else gradwire.decompress
        for length in {*range(40), *range(40, len(frame), 97), len(frame) - 1} - {len(frame)}:
            if length >= len(frame):
                continue
            with pytest.raises(gradwire.TruncatedError):
                decompress(frame[:length])
            with pytest.raises(wire.FormatError, match="truncated"):
                decoder.read_frame_header(frame[:length])


# Frames made here


def compress_and_compare(array: np.ndarray, **options: Any) -> None:
    frame = gradwire.compress(array, **options)
    assert assert_decoders_agree(frame) == [np.ascontiguousarray(array).tobytes()]


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("coder", ["huffman", "ans"])
@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "data").glob("*.safetensors")))
def test_decoders_agree_on_pieces_of_real_gradients(path: Path, coder: str, level: int) -> None:
    octets = path.read_bytes()
    start = 8 + int.from_bytes(octets[:8], "little")
    header = json.loads(octets[8:start])
    numpy_dtypes = {"BF16": BF16, "F32": np.dtype(np.float32), "F16": np.dtype(np.float16)}
    names = sorted(name for name in header if name != "__metadata__")
    for name in names[:: max(1, len(names) // 4)]:
        begin, end = header[name]["data_offsets"]
        dtype = numpy_dtypes[header[name]["dtype"]]
        array = np.frombuffer(octets[start + begin : start + end], dtype)
        array = array.reshape(header[name]["shape"])
        if array.size > 6000 and array.ndim > 1:
            array = array[: max(1, 6000 // (array.size // array.shape[0]))]
        compress_and_compare(array[:6000] if array.ndim == 1 else array, level=level, coder=coder)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_decoders_agree_on_any_bits(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.uint16, np.uint32, np.uint64]))
    views = {np.uint16: [BF16, np.float16], np.uint32: [np.float32], np.uint64: [np.float64]}
    view = data.draw(st.sampled_from(views[dtype]))
    shape = data.draw(hnp.array_shapes(max_dims=4, max_side=9))
    top = 8 * np.dtype(dtype).itemsize
    elements = st.one_of(
        st.just(0),
        st.integers(0, 2**top - 1),
        st.integers(0, 7).map(lambda v: (0x3F << (top - 8)) + (v << (top - 9))),
    )
    bits = data.draw(hnp.arrays(dtype, shape, elements=elements))
    options = {
        "level": data.draw(st.sampled_from([1, 2, 3])),
        "coder": data.draw(st.sampled_from(["auto", "huffman", "ans"])),
        "tables": data.draw(st.sampled_from(["dynamic", "static", "hybrid", "gennorm"])),
    }
    compress_and_compare(bits.view(view), **options)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_decoders_agree_on_a_flipped_bit(level: int) -> None:
    """Without checksums a flipped bit may decode; then both decoders see the same."""
    random = np.random.default_rng(level)
    array = (random.normal(size=(8, 3, 3)) * 0.01).astype(BF16)
    frame = gradwire.compress(array, level=level, checksum=False)
    for bit in range(0, 8 * len(frame), 3):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        compare_verdicts(bytes(flipped))


def compare_verdicts(frame: bytes) -> None:
    """Both refuse the frame or neither does. Of two broken rules either kind may come first."""
    try:
        expected: bytes | None = decoder.decode(frame)[2]
    except wire.FormatError:
        expected = None
    try:
        restored: bytes | None = gradwire.decompress(
            frame, max_output=decoder.DEFAULT_MAX_OUTPUT
        ).tobytes()
    except gradwire.GradwireError:
        restored = None
    assert restored == expected
