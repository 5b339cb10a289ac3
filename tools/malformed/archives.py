"""Broken archives (format.md 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reference import builder as b
from reference.builder import Chunk, TensorBody

from .common import SHORT, Case, plain


def directory_cases() -> Iterator[Case]:
    first, second = plain().archive_body(), plain(b.CONSTANT, b"\7").archive_body()
    sections = b.archive_sections([(b"a", first), (b"b", second)])
    lengths = len(first), len(second)

    def changed(octets: bytes, count: int = 2) -> bytes:
        return b.archive_frame(sections | {b.DIRECTORY: b.raw_directory(octets, count)})

    def named(one: bytes, two: bytes = b"b") -> bytes:
        return b.archive([(one, first), (two, second)])

    yield Case("name_empty", named(b""), "accepted", "", "an empty name is allowed")
    yield Case("name_shares_start", named(b"aa", b"aab"), "accepted", "", "names share a start")
    split = named("\u00e4".encode(), "\u00e5".encode())
    yield Case("name_shares_half_a_letter", split, "accepted", "", "whole names are UTF-8")
    yield Case("name_twice", named(b"b"), "corrupt", "name", "names are unique")
    for what, name in (
        ("no_utf8", b"\xff"),
        ("overlong", b"\xc0\x80"),
        ("surrogate", b"\xed\xa0\x80"),
        ("beyond_unicode", b"\xf4\x90\x80\x80"),
        ("cut", b"a\xc3"),
    ):
        yield Case(f"name_{what}", named(name), "corrupt", "UTF-8", "names are strict UTF-8")
    entry_a = b.directory_entry(0, b"a", lengths[0])
    entry_b = b.directory_entry(0, b"b", lengths[1])
    yield Case(
        "name_shares_too_much",
        changed(entry_a + b.directory_entry(2, b"b", lengths[1])),
        "corrupt",
        "shared",
        "a name shares at most the name before",
    )
    yield Case(
        "name_first_shares",
        changed(b.directory_entry(1, b"a", lengths[0]) + entry_b),
        "corrupt",
        "shared",
        "the first name shares nothing",
    )
    yield Case(
        "name_too_long",
        changed(entry_a + b"\0" + b.varint(65536) + b"b" + b.varint(lengths[1])),
        SHORT,
        "name",
        "a name has at most 65535 bytes",
    )
    count = b.varint(2**62) + sections[b.DIRECTORY][1:]
    yield Case(
        "directory_count_huge",
        b.archive_frame(sections | {b.DIRECTORY: count}),
        SHORT,
        "entries",
        "an entry has bytes",
    )
    yield Case("directory_count_high", changed(entry_a + entry_b, 3), SHORT, "", "the count")
    yield Case(
        "directory_count_low", changed(entry_a + entry_b, 1), "corrupt", "directory", "the count"
    )
    yield Case(
        "directory_raw_bytes_huge",
        b.archive_frame(sections | {b.DIRECTORY: b"\2" + b.varint(2**40) + b.equal_integers(0)}),
        "corrupt",
        "entries",
        "raw_bytes is at most 8 x the bytes that follow",
    )
    left_over = sections[b.DIRECTORY] + b"\0"
    yield Case(
        "directory_left_over",
        b.archive_frame(sections | {b.DIRECTORY: left_over}),
        "corrupt",
        "directory",
        "nothing is left over",
    )
    classed = b"\2" + b.varint(8) + b.classed_integers(list(entry_a + entry_b))
    yield Case(
        "directory_mode",
        b.archive_frame(sections | {b.DIRECTORY: classed}),
        "corrupt",
        "mode",
        "a directory has integer array mode 0, 3 or 4",
    )
    longer = b.directory_entry(0, b"a", lengths[0] + 1)
    yield Case(
        "directory_lengths_high", changed(longer + entry_b), SHORT, "length", "lengths sum up"
    )
    shorter = b.directory_entry(0, b"b", lengths[1] - 1)
    yield Case("directory_lengths_shifted", changed(longer + shorter), SHORT, "", "a body is whole")
    behind = sections | {b.TENSORS: first + second + b"\0"}
    yield Case(
        "directory_lengths_low", b.archive_frame(behind), "corrupt", "length", "lengths sum up"
    )


def archive_cases() -> Iterator[Case]:
    first, second = plain().archive_body(), plain(b.CONSTANT, b"\7").archive_body()
    tensors = [(b"a", first), (b"b", second)]
    sections = b.archive_sections(tensors)
    source = b"\1\0" + b.varint(3) + b.byte_integers(b"abc")
    yield Case("archive_right", b.archive(tensors, source), "accepted", "", "an archive")
    padded = [(b"a", first), (b"b", plain().body())]
    yield Case(
        "archive_trailer_padded", b.archive(padded), "corrupt", "trailer", "bodies have no padding"
    )
    yield Case(
        "archive_footer_offset",
        b.archive_frame(sections, offset_error=1),
        "corrupt",
        "footer",
        "the footer points to the directory",
    )
    yield Case(
        "archive_footer_hash",
        b.archive_frame(sections, checksums=False, hash_error=1),
        "corrupt",
        "footer",
        "the hash is 0 without checksums",
    )
    checked = [(b"a", replace(plain(), checksums=True).archive_body())]
    yield Case(
        "archive_with_checksums",
        b.archive(checked, source, checksums=True),
        "accepted",
        "",
        "an archive",
    )
    yield Case(
        "archive_footer_checksum",
        b.archive_frame(b.archive_sections(checked), checksums=True, hash_error=1),
        "corrupt",
        "footer",
        "the hash is right",
    )
    yield Case(
        "archive_tensor_checksum",
        b.archive(tensors, checksums=True),
        "corrupt",
        "",
        "a tensor's trailer goes by the frame's flags",
    )
    yield Case(
        "archive_section_behind_footer",
        b.archive_frame(sections, behind=b.section(200, b"")),
        "corrupt",
        "footer",
        "nothing follows the footer",
    )
    yield Case(
        "archive_shared_tables",
        b.archive_frame(sections | {b.SHARED_TABLES: b"\0"}),
        "unsupported",
        "section",
        "shared_tables is reserved",
    )
    body = b"".join(b.section(i, payload) for i, payload in sections.items())
    yield Case("archive_footer_absent", b.frame(body, b.ARCHIVE), SHORT, "footer", "it is present")
    yield Case(
        "archive_footer_short",
        b.frame(body + b.section(b.FOOTER, bytes(15)), b.ARCHIVE),
        SHORT,
        "footer",
        "the footer has 16 bytes",
    )
    only = b.section(b.DIRECTORY, b"\0")
    yield Case(
        "archive_tensors_absent",
        b.frame(only + b.section(b.FOOTER, b.u64(9) + bytes(8)), b.ARCHIVE),
        SHORT,
        "tensors",
        "tensors is present even if empty",
    )
    yield Case(
        "archive_directory_absent",
        b.frame(b.section(b.TENSORS, b"") + b.section(b.FOOTER, b.u64(9) + bytes(8)), b.ARCHIVE),
        SHORT,
        "directory",
        "directory is present",
    )
    yield Case(
        "archive_of_nothing",
        b.archive([], checksums=True),
        "accepted",
        "",
        "an archive may hold no tensor",
    )

    quarter = TensorBody(
        b.planes_tensor(b.F64, (65536, 512), bytes(8)), [Chunk(b.CONSTANT)] * 512
    ).archive_body()
    yield Case(
        "archive_over_budget",
        b.archive([(b"a", quarter), (b"b", quarter)]),
        "limit",
        "",
        "the budget is that of all tensors together",
    )


def source_cases() -> Iterator[Case]:
    tensors = [(b"a", plain().archive_body())]

    def from_source(payload: bytes) -> bytes:
        return b.archive(tensors, payload)

    source = b"\1\0" + b.varint(3) + b.byte_integers(b"abc")
    yield Case("source_kind", from_source(b"\4" + source[1:]), "unsupported", "kind", "known kinds")
    yield Case("source_form", from_source(b"\1\2" + source[2:]), "corrupt", "form", "known forms")
    yield Case(
        "source_derived_npy", from_source(b"\2\1" + source[2:]), "corrupt", "form", "kind 1 only"
    )
    yield Case(
        "source_mode",
        from_source(source[:3] + b.classed_integers([97, 98, 99])),
        "corrupt",
        "mode",
        "source has integer array mode 0, 3 or 4",
    )
    equal = b.equal_integers(32)
    for name, head in (("raw_bytes", b"\1\0"), ("prefix_bytes", b"\1\1")):
        tail = b"\0" if head[1] else b""
        yield Case(
            f"source_{name}_high",
            from_source(head + b.varint(2**30) + equal + tail),
            "corrupt limit",
            "raw_bytes",
            f"{name} is below 2^30",
        )
        yield Case(
            f"source_{name}_over_budget",
            from_source(head + b.varint(2**30 - 1) + equal + tail),
            "limit",
            "",
            f"{name} counts towards the budget",
        )
    yield Case("source_cut", from_source(source[:-1]), SHORT, "", "source is complete")
    yield Case("source_left_over", from_source(source + b"\0"), "corrupt", "source", "the end")
    prefix = b'"__metadata__":{"format":"pt"},'
    derived = b"\1\1" + b.varint(len(prefix)) + b.byte_integers(prefix)
    right = from_source(derived + b.varint(5))
    yield Case("source_derived", right, "accepted", "", "a derived header")
    high = from_source(derived + b.varint(65536))
    yield Case("source_spaces_high", high, "corrupt", "spaces", "spaces is at most 65535")
    yield Case("source_spaces_absent", from_source(derived), SHORT, "spaces", "it is complete")
