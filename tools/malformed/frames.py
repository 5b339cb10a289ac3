"""Broken frames and sections (format.md 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator

from reference import builder as b
from reference.builder import TensorBody

from .common import SHORT, Case, plain, scaled, with_section, without_section


def frame_cases() -> Iterator[Case]:
    body = plain().body()
    good = b.frame(body)
    length = b.varint(len(body))
    yield Case("empty", b"", "truncated", "frame", "a frame has a header")
    yield Case("magic_cut", good[:3], "truncated", "frame", "magic is complete")
    yield Case("magic_wrong", b.frame(body, magic=b"GRDX"), "corrupt", "magic", "magic is GRDW")
    yield Case("magic_cut_wrong", b"GX", "corrupt", "magic", "what is there of the magic is right")
    yield Case("major_newer", b.frame(body, version=(1, 1)), "unsupported", "version", "major is 0")
    yield Case("minor_newer", b.frame(body, version=(0, 2)), "unsupported", "version", "minor is 1")
    yield Case("minor_older", b.frame(body, version=(0, 0)), "unsupported", "version", "minor is 1")
    yield Case(
        "flags_streamed", b.frame(body, flags=4), "unsupported", "flags", "streamed is reserved"
    )
    yield Case(
        "flags_lossy_of_exact_body",
        b.frame(body, flags=8),
        "accepted",
        "",
        "with lossy a body may be a lossy one",
    )
    yield Case(
        "flags_reserved_low", b.frame(body, flags=16), "corrupt", "flags", "flags bit 4 is 0"
    )
    yield Case(
        "flags_reserved_high", b.frame(body, flags=1 << 15), "corrupt", "flags", "bit 15 is 0"
    )
    yield Case("flags_cut", good[:7], "truncated", "frame", "flags is complete")
    yield Case("body_bytes_cut", good[:8], "truncated", "frame", "body_bytes is complete")
    yield Case(
        "body_bytes_too_large",
        good.replace(length, b.varint(len(body) + 1), 1),
        "truncated",
        "body",
        "the body is complete",
    )
    yield Case(
        "body_bytes_too_small",
        good[:8] + b.varint(len(body) - 1) + body,
        SHORT,
        "",
        "the last section ends with the body",
    )
    yield Case(
        "body_bytes_huge",
        good[:8] + b.varint(2**63 - 1) + body,
        "truncated limit",
        "body",
        "the body is complete",
    )
    yield Case(
        "varint_not_shortest",
        good[:8] + bytes([length[0] | 128, 0]) + body,
        "corrupt",
        "body_bytes",
        "a varint has the shortest form",
    )
    yield Case(
        "varint_too_large",
        good[:8] + b"\x80" * 9 + b"\1" + body,
        "corrupt",
        "body_bytes",
        "a varint is below 2^63",
    )
    yield Case("bytes_behind_frame", good + b"\0", "corrupt", "", "nothing follows the frame")


def section_cases() -> Iterator[Case]:
    body = scaled()
    sections = body.all_sections()
    written = {i: b.section(i, payload) for i, payload in sections.items()}

    def put(order: list[int]) -> bytes:
        return b.frame(b"".join(written[i] for i in order))

    yield Case(
        "section_out_of_order", put([2, 1, 7, 8, 9]), "corrupt", "section", "section ids ascend"
    )
    yield Case(
        "section_repeated", put([1, 2, 2, 7, 8, 9]), "corrupt", "section", "ids ascend strictly"
    )
    yield Case(
        "section_unknown_required",
        with_section(body, 60, b"\1"),
        "unsupported",
        "section",
        "an unknown id below 128 is unsupported",
    )
    yield Case(
        "section_private_required",
        with_section(body, 120, b"\1"),
        "unsupported",
        "section",
        "a private required id is unsupported",
    )
    yield Case(
        "section_unknown_optional",
        with_section(body, 200, b"any bytes"),
        "accepted",
        "",
        "an unknown id of 128 or more is skipped",
    )
    yield Case(
        "section_of_archive",
        with_section(body, b.TENSORS, b""),
        "unsupported",
        "section",
        "each body knows only its own ids",
    )
    yield Case(
        "section_id_zero",
        b.frame(b.section(0, b"") + body.body()),
        "corrupt unsupported",
        "section",
        "section ids start at 1",
    )
    yield Case(
        "section_length_lies",
        b.frame(b"".join(written.values())[:-17] + b"\x7f" + bytes(16)),
        SHORT,
        "",
        "a section ends inside the body",
    )
    for section_id, name in ((b.TENSOR, "tensor"), (b.INDEX, "index"), (b.TRAILER, "trailer")):
        yield Case(
            f"section_{name}_absent",
            without_section(body, section_id),
            SHORT,
            name,
            f"{name} is present when there are elements",
        )
    yield Case(
        "section_chunks_absent",
        without_section(plain(b.CONSTANT, b""), b.CHUNKS),
        SHORT,
        "chunks",
        "chunks is present even if empty",
    )
    places = {"dead": b.DEAD, "scales": b.SCALES, "signs": b.SIGNS, "taps": b.TAPS}
    for name, section_id in places.items():
        target = plain() if name == "dead" else body
        yield Case(
            f"section_{name}_has_no_place",
            with_section(target, section_id, b"\1\1\4\0"),
            "corrupt",
            name,
            f"{name} is absent when its condition does not hold",
        )
    empty = TensorBody(b.tensor_head(b.BF16, (0,)))
    yield Case(
        "section_chunks_of_no_elements",
        with_section(empty, b.CHUNKS, b""),
        "corrupt",
        "",
        "a tensor without elements has no chunks",
    )
