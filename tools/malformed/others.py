"""Broken kernels and archives (format.md 6 and 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reference import builder as b
from reference.builder import Chunk, TensorBody

from .common import SHORT, Case, plain


def kernel_cases() -> Iterator[Case]:
    taps = [(1, 120, []), (8, 118, [100])]
    good_taps = b.taps_section(taps, effort=-1, base=127)
    lengths = b.flat_lengths(48)
    table = b.huffman_table(lengths)

    def body(
        dtype: int = b.BF16,
        shape: tuple[int, ...] = (4, 2),
        kept: int = 7,
        count: int = 2,
        inner: int = 1,
        modes: int = 0,
        section: bytes = good_taps,
        scale: bytes = b.equal_integers(0),
        symbols: tuple[int, ...] = (33, 33, 33, 33, 33, 33, 33, 33),
        raw: bytes = bytes(7),
        escapes: tuple[bytes, ...] = (),
        second: int = 0,
    ) -> bytes:
        streams = [b.huffman_stream(part, lengths) for part in (symbols[:4], symbols[4:])]
        data = scale + b.parts(raw, streams, escapes)
        return TensorBody(
            b.kernels_tensor(dtype, shape, kept, count, inner, modes),
            [Chunk(b.CODED, data, second=second)],
            {b.TABLES: b.tables_section(table), b.TAPS: section},
        ).frame()

    yield Case("kernels_right", body(), "accepted", "", "kernels")
    fields: list[tuple[str, bytes, str, str]] = [
        ("kernels_of_f64", body(dtype=b.F64, kept=52), "dtype", "kernels are bf16, f16 or f32"),
        ("kernels_kept_low", body(kept=6), "kept", "kept is at least L"),
        ("kernels_kept_high", body(kept=8), "kept", "kept is at most W"),
        ("kernels_modes_reserved", body(modes=1), "modes", "modes has bit 3 only"),
        ("kernels_counted_of_nothing", body(modes=8), "counted", "counted needs kept > L"),
        ("kernels_taps_one", body(count=1), "taps", "there are at least 2 taps"),
        ("kernels_taps_65", body(count=65), "taps", "there are at most 64 taps"),
        ("kernels_inner_zero", body(inner=0), "inner", "inner is at least 1"),
        ("kernels_inner_large", body(inner=32769), "inner", "inner is at most 32768"),
        ("kernels_not_a_multiple", body(shape=(9,)), "taps", "n is a multiple of taps x inner"),
        ("kernels_effort_four", body(section=b"\4" + good_taps[1:]), "effort", "effort <= 3"),
        (
            "kernels_shift_zero",
            body(section=b.taps_section([(0, 120, []), taps[1]], -1, 127)),
            "h",
            "h is at least 1",
        ),
        (
            "kernels_shift_25",
            body(section=b.taps_section([(25, 120, []), taps[1]], -1, 127)),
            "h",
            "h is at most 24",
        ),
        (
            "kernels_base_high",
            body(section=b.taps_section(taps, -1, 65537)),
            "base",
            "base is -65536 to 65536",
        ),
        (
            "kernels_tau_low",
            body(section=b.taps_section([(1, -65537, []), taps[1]], -1, 127)),
            "tau",
            "tau is -65536 to 65536",
        ),
        ("kernels_taps_left_over", body(section=good_taps + b"\0"), "taps", "nothing is left"),
        ("kernels_scale_high", body(scale=b.equal_integers(1025)), "", "C is at most 1024"),
        ("kernels_scale_low", body(scale=b.equal_integers(-1025)), "", "C is at least -1024"),
        ("kernels_raw_goes_on", body(raw=bytes(8)), "raw", "raw_bytes is what it must be"),
        (
            "kernels_raw_padding",
            body(symbols=(18, *[33] * 7), raw=bytes(6) + b"\x80"),
            "raw",
            "unused bits are 0",
        ),
    ]
    for name, frame, word, rule in fields:
        yield Case(name, frame, "corrupt", word, rule)
    three = [(1, 120, []), (8, 118, [100]), (8, 118, [32767, -32768])]
    above = [*three[:2], (8, 118, [32767, 32767]), (8, 118, [32767, 32767, 2])]
    yield Case(
        "kernels_coefficients_high",
        body(shape=(2, 4), count=4, section=b.taps_section(above, -1, 127)),
        "corrupt",
        "coefficient",
        "the absolute values of a tap's coefficients sum to at most 65535",
    )
    yield Case("kernels_taps_cut", body(section=good_taps[:-1]), SHORT, "taps", "taps is complete")
    yield Case("kernels_raw_cut", body(raw=bytes(6)), SHORT, "raw", "raw_bytes is what it must be")
    yield Case(
        "kernels_second_out_of_range",
        body(second=1),
        "corrupt",
        "table",
        "a table index is below the count of tables",
    )
    low = b.taps_section([(1, -5000, []), (8, 118, [100])], -1, 127)
    yield Case(
        "kernels_value_negative",
        body(section=low, symbols=(45, *[33] * 7)),
        "corrupt",
        "range",
        "the bits of a value lie in 0 .. 2^(E + L) - 1",
    )
    escape = b.u16(0x3FC5)
    raw = b.bitstream([(0x45, 7)] + [(0, 7)] * 7)
    symbols = (47, *[33] * 7)
    yield Case(
        "kernels_escape_right",
        body(symbols=symbols, raw=raw, escapes=(escape,)),
        "accepted",
        "",
        "an escape's raw bits are the value's",
    )
    yield Case(
        "kernels_escape_contradicts",
        body(symbols=symbols, raw=bytes(7), escapes=(escape,)),
        "corrupt",
        "escape",
        "an escape's raw bits are the value's",
    )
    yield Case(
        "kernels_escapes_too_few",
        body(symbols=symbols, raw=raw),
        "corrupt",
        "escape",
        "escapes is the number of escape symbols",
    )


def archive_cases() -> Iterator[Case]:
    first, second = plain().body(), plain(b.CONSTANT, b"\7").body()
    tensors = [(b"a", first), (b"b", second)]
    sections = b.archive_sections(tensors)

    def changed(**payloads: bytes) -> bytes:
        by_id = {getattr(b, name.upper()): payload for name, payload in payloads.items()}
        return b.archive_frame(sections | by_id)

    def named(name: bytes) -> bytes:
        return b.archive([(name, first), (b"b", second)])

    source = b"\1" + b.varint(3) + b.byte_integers(b"abc")
    yield Case("archive_right", b.archive(tensors, source), "accepted", "", "an archive")
    yield Case("archive_name_empty", named(b""), "accepted", "", "an empty name is allowed")
    yield Case("archive_name_twice", named(b"b"), "corrupt", "name", "names are unique")
    yield Case("archive_name_not_utf8", named(b"\xff"), "corrupt", "UTF-8", "names are UTF-8")
    yield Case(
        "archive_name_overlong", named(b"\xc0\x80"), "corrupt", "UTF-8", "names are strict UTF-8"
    )
    yield Case("archive_name_surrogate", named(b"\xed\xa0\x80"), "corrupt", "UTF-8", "the same")
    yield Case(
        "archive_name_beyond_unicode", named(b"\xf4\x90\x80\x80"), "corrupt", "UTF-8", "the same"
    )
    directory = sections[b.DIRECTORY]
    yield Case(
        "archive_name_too_long",
        changed(directory=b"\2" + b.varint(65536) + directory[2:]),
        SHORT,
        "name",
        "a name has at most 65535 bytes",
    )
    yield Case(
        "archive_count_huge",
        changed(directory=b.varint(2**62) + directory[1:]),
        SHORT,
        "count",
        "a directory entry has at least two bytes",
    )
    yield Case(
        "archive_count_high", changed(directory=b"\3" + directory[1:]), SHORT, "", "the count"
    )
    yield Case(
        "archive_count_low",
        changed(directory=b"\1" + directory[1:]),
        "corrupt",
        "directory",
        "nothing is left over",
    )
    one_more = b"\2\1a" + b.varint(len(first) + 1) + b"\1b" + b.varint(len(second))
    yield Case(
        "archive_lengths_too_large",
        changed(directory=one_more),
        SHORT,
        "length",
        "body lengths sum to the length of tensors",
    )
    yield Case(
        "archive_lengths_too_small",
        changed(tensors=first + second + b"\0"),
        "corrupt",
        "length",
        "body lengths sum to the length of tensors",
    )
    shifted = b"\2\1a" + b.varint(len(first) + 1) + b"\1b" + b.varint(len(second) - 1)
    yield Case(
        "archive_lengths_shifted", changed(directory=shifted), SHORT, "", "a body is complete"
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
    checked = [(b"a", replace(plain(), checksums=True).body())]
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

    def from_source(payload: bytes) -> bytes:
        return b.archive(tensors, payload)

    yield Case(
        "archive_source_kind",
        from_source(b"\4" + source[1:]),
        "unsupported",
        "kind",
        "the kind is registered",
    )
    yield Case(
        "archive_source_mode",
        from_source(source[:2] + b.classed_integers([97, 98, 99])),
        "corrupt",
        "mode",
        "source has integer array mode 0, 3 or 4",
    )
    yield Case(
        "archive_source_raw_bytes",
        from_source(b"\1" + b.varint(2**30) + b.equal_integers(0)),
        "corrupt limit",
        "raw_bytes",
        "raw_bytes is below 2^30",
    )
    yield Case(
        "archive_source_over_budget",
        from_source(b"\1" + b.varint(2**30 - 1) + b.equal_integers(0)),
        "limit",
        "",
        "raw_bytes counts towards the budget",
    )
    yield Case("archive_source_cut", from_source(source[:-1]), SHORT, "", "source is complete")
    yield Case(
        "archive_source_left_over", from_source(source + b"\0"), "corrupt", "source", "the end"
    )
    quarter = TensorBody(
        b.planes_tensor(b.F64, (65536, 512), bytes(8)), [Chunk(b.CONSTANT)] * 512
    ).body()
    yield Case(
        "archive_over_budget",
        b.archive([(b"a", quarter), (b"b", quarter)]),
        "limit",
        "",
        "the budget is that of all tensors together",
    )
