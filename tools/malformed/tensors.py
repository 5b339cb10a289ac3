"""Broken tensor fields, indices, trailers (format.md 2 and 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reference import builder as b
from reference.builder import Chunk, ScaledFields, TensorBody

from .common import (
    FLAT16,
    RAW32,
    SHORT,
    STREAM32,
    SYMBOLS,
    Case,
    plain,
    raw_tensor,
    scaled,
    with_section,
)


def tensor_cases() -> Iterator[Case]:
    def planes(
        dtype: int = b.U8,
        shape: tuple[int, ...] = (4,),
        chunk_elements: int = 65536,
        streams_log2: int = 0,
    ) -> bytes:
        return b.planes_tensor(dtype, shape, b"\0", chunk_elements, streams_log2)

    yield Case(
        "dtype_unknown", raw_tensor(planes(16)), "unsupported", "dtype", "dtype is in section 9"
    )
    yield Case("dtype_private", raw_tensor(planes(240)), "unsupported", "dtype", "private ids")
    yield Case("dtype_zero", raw_tensor(planes(0)), "unsupported", "dtype", "dtype is in section 9")
    yield Case(
        "ndim_33", raw_tensor(planes(shape=(1,) * 32 + (4,))), "corrupt", "ndim", "ndim <= 32"
    )
    yield Case(
        "dims_overflow",
        raw_tensor(planes(shape=(2**40, 2**40))),
        "corrupt limit",
        "dims",
        "n x element size is at most 2^62",
    )
    yield Case(
        "dims_overflow_behind_zero",
        TensorBody(b.tensor_head(b.U8, (0, 2**62, 2**62))).frame(),
        "corrupt",
        "dims",
        "the product of the dims that are not 0 is bounded too",
    )
    huge = TensorBody(b.planes_tensor(b.F64, (65536, 1024), bytes(8)), [Chunk(b.CONSTANT)] * 1024)
    yield Case("budget_exceeded", huge.frame(), "limit", "", "the output budget comes first")
    yield Case(
        "tensor_of_no_elements_goes_on",
        TensorBody(b.tensor_head(b.U8, (0,)) + b"\0").frame(),
        "corrupt",
        "tensor",
        "nothing follows the dims when n = 0",
    )
    head = b.tensor_head(b.BF16, (4,))
    for number, name in ((3, "low_rank"), (4, "reference"), (9, "unknown"), (240, "private")):
        yield Case(
            f"pipeline_{name}",
            raw_tensor(head + bytes([number]) + b"\x10\0\0\0"),
            "unsupported",
            "pipeline",
            "pipeline is 0, 1 or 2",
        )
    integers = ScaledFields(dtype=b.U16)
    yield Case("scaled_of_integers", scaled(integers).frame(), "corrupt", "dtype", "floats only")
    yield Case(
        "chunk_elements_zero",
        raw_tensor(planes(chunk_elements=0)),
        "corrupt",
        "chunk_elements",
        "chunk_elements is at least 1",
    )
    yield Case(
        "chunk_elements_65537",
        raw_tensor(planes(chunk_elements=65537)),
        "corrupt",
        "chunk_elements",
        "chunk_elements is at most 65536",
    )
    yield Case(
        "streams_log2_six",
        raw_tensor(planes(streams_log2=6)),
        "corrupt",
        "streams_log2",
        "streams_log2 is at most 5",
    )
    yield Case(
        "tensor_left_over",
        raw_tensor(planes() + b"\0"),
        "corrupt",
        "tensor",
        "nothing is left over in tensor",
    )
    yield Case("tensor_cut", raw_tensor(planes()[:-1]), SHORT, "", "tensor is complete")
    yield Case(
        "plane_mode_three",
        raw_tensor(b.planes_tensor(b.U8, (4,), b"\3")),
        "corrupt",
        "mode",
        "a plane is raw, constant or coded",
    )


def index_cases() -> Iterator[Case]:
    def index(payload: bytes, body: TensorBody | None = None) -> bytes:
        return with_section(body or plain(), b.INDEX, payload)

    yield Case("index_reserved_bits", index(b"\x07\4"), "corrupt", "info", "info bits 2-3 are 0")
    yield Case(
        "index_table_of_stored",
        index(b"\x13\4"),
        "corrupt",
        "info",
        "the table index of a stored chunk is 0",
    )
    yield Case(
        "index_table_of_constant", index(b"\x12\1"), "corrupt", "info", "the same of constant"
    )
    yield Case(
        "index_zero_map_in_planes",
        index(b"\x01\4"),
        "corrupt",
        "",
        "kind 1 is refused in pipeline 0",
    )
    yield Case(
        "index_lengths_too_small", index(b"\3\3"), "corrupt", "length", "lengths sum to chunks"
    )
    yield Case("index_lengths_too_large", index(b"\3\5"), SHORT, "length", "lengths sum to chunks")
    yield Case("index_length_huge", index(b"\3" + b.varint(2**63 - 1)), SHORT, "length", "the same")
    yield Case("index_left_over", index(b"\3\4\0"), "corrupt", "index", "one entry a chunk")
    yield Case("index_cut", index(b"\3"), SHORT, "index", "one entry a chunk")
    many = replace(plain(), tensor=b.planes_tensor(b.U8, (1 << 20,), b"\0", 1))
    yield Case("index_too_few_entries", many.frame(), SHORT, "index", "one entry a chunk")
    entry = Chunk(b.CODED, b.parts(RAW32, [STREAM32]), table=1)
    yield Case(
        "index_table_out_of_range",
        scaled(entry=entry).frame(),
        "corrupt",
        "table",
        "a table index is below the count of tables",
    )
    yield Case(
        "plane_table_out_of_range",
        TensorBody(
            b.planes_tensor(b.U8, (4,), b"\2\1"),
            [Chunk(b.CODED, b.parts(b"", [b"\0"]))],
            {b.TABLES: b.tables_section(b.huffman_table({0: 1, 1: 1}))},
        ).frame(),
        "corrupt",
        "table",
        "a plane's table index is below the count of tables",
    )
    for length in (1, 3, 5):
        yield Case(
            f"constant_of_{length}_bytes",
            TensorBody(
                b.planes_tensor(b.F32, (4,), bytes(4)), [Chunk(b.CONSTANT, bytes(length))]
            ).frame(),
            "corrupt",
            "",
            "a constant chunk has no byte or one element",
        )
    yield Case(
        "stored_too_short", plain(data=bytes(3)).frame(), SHORT, "", "stored is all elements"
    )
    yield Case(
        "stored_too_long", plain(data=bytes(5)).frame(), "corrupt", "", "stored is all elements"
    )


def trailer_cases() -> Iterator[Case]:
    checked = replace(plain(), checksums=True)
    good = checked.frame()
    flipped = bytearray(good)
    flipped[good.index(bytes([1, 2, 3, 4]))] ^= 1
    yield Case("checksum_of_chunk", bytes(flipped), "corrupt", "checksum", "chunks have checksums")
    sections = checked.all_sections()
    lying = checked.with_sections(
        {b.TENSOR: b.tensor_head(b.U8, (2, 2)) + checked.tensor[3:], b.TRAILER: sections[b.TRAILER]}
    )
    yield Case("checksum_of_head", lying.frame(), "corrupt", "checksum", "the head has a checksum")
    flags = [1, 0, 0, 1, 0, 0, 0, 0] * 4
    kept = [s for s, f in zip(SYMBOLS, flags, strict=True) if not f]
    rest = b.parts(b.records(range(24), 8), [b.huffman_stream(kept, FLAT16)])
    as_bitmap = b.bitmap(flags)
    as_runs = b.runs([0, 2] + [4, 2] * 3, [1] * 8)
    chunk = Chunk(b.ZERO_MAP, as_bitmap + rest, side_bytes=as_runs)
    words = [0 if f else (112 + s) << 7 for s, f in zip(SYMBOLS, flags, strict=True)]
    record = iter(range(24))
    words = [
        w if f else w | (r := next(record)) >> 1 | (r & 1) << 15
        for w, f in zip(words, flags, strict=True)
    ]
    chunk.decoded = b"".join(map(b.u16, words))
    body = replace(scaled(entry=chunk), checksums=True)
    yield Case(
        "checksum_of_side_bytes",
        body.frame(),
        "corrupt",
        "checksum",
        "the bytes before raw_bytes are covered",
    )
    good_chunk = replace(chunk, side_bytes=as_bitmap)
    yield Case(
        "checksum_of_side_bytes_right",
        replace(scaled(entry=good_chunk), checksums=True).frame(),
        "accepted",
        "",
        "the bytes before raw_bytes are covered",
    )
    yield Case(
        "trailer_padding",
        with_section(plain(), b.TRAILER, bytes(15) + b"\1"),
        "corrupt",
        "trailer",
        "the padding is zero",
    )
    digest = sections[b.TRAILER][:8]
    yield Case(
        "trailer_padding_behind_checksum",
        with_section(checked, b.TRAILER, digest + bytes(7) + b"\1"),
        "corrupt",
        "trailer",
        "the padding is zero",
    )
    yield Case(
        "trailer_short",
        with_section(plain(), b.TRAILER, bytes(15)),
        SHORT,
        "trailer",
        "the trailer has max(16, 8 x chunks) bytes",
    )
    yield Case(
        "trailer_long",
        with_section(plain(), b.TRAILER, bytes(17)),
        "corrupt",
        "trailer",
        "the trailer has max(16, 8 x chunks) bytes",
    )
    empty = TensorBody(b.tensor_head(b.BF16, (3, 0)), checksums=True)
    wrong = bytearray(empty.frame())
    wrong[-1] ^= 1
    yield Case(
        "checksum_of_no_elements", bytes(wrong), "corrupt", "checksum", "n = 0 has a checksum"
    )
    yield Case(
        "checksum_of_no_elements_absent",
        b.frame(TensorBody(b.tensor_head(b.BF16, (0,))).body(), b.CHECKSUMS),
        SHORT,
        "",
        "n = 0 has a checksum",
    )
    without = replace(empty, checksums=False)
    yield Case(
        "trailer_of_no_elements_empty",
        with_section(without, b.TRAILER, b""),
        "corrupt",
        "trailer",
        "without checksums and elements there is no trailer",
    )
    yield Case(
        "trailer_of_no_elements_without_checksums",
        with_section(without, b.TRAILER, bytes(8)),
        "corrupt",
        "trailer",
        "without checksums and elements there is no trailer",
    )
