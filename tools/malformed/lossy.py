"""Broken lossy bodies: fields, sections, selections, checks (format.md 11 to 11.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from reference import build_lossy as lb
from reference import builder as b
from reference.build_lossy import LossyBody
from reference.builder import TensorBody

from .common import SHORT, Case, plain

BF16_RULE = lb.float_rule(b.BF16)
NUMBERS = b"".join(b.u16(v) for v in (0x3F80, 0xBF80, 0x4049))  # 1, -1 and about pi


def tensor(
    selection: int = lb.GAPS, k: int | None = 3, n: int = 10, seed: int | None = None
) -> bytes:
    return lb.lossy_tensor(b.BF16, (n,), selection, lb.FLOAT, BF16_RULE, k, seed)


def sparse() -> LossyBody:
    """Elements 1, 2 and 7 of ten."""
    return LossyBody(
        tensor(), {lb.SELECTED: b.byte_integers([1, 0, 4]), lb.VALUES: lb.plain(NUMBERS)}
    )


def none_selected(selection: int = lb.GAPS, selected: bytes = b"") -> LossyBody:
    return LossyBody(
        lb.lossy_tensor(b.BF16, (10,), selection, lb.FLOAT, b"", 0), {lb.SELECTED: selected}
    )


def gaps_frame(array: bytes, k: int, n: int) -> bytes:
    values = lb.plain(b.u16(0x3F80) * k)
    return LossyBody(tensor(k=k, n=n), {lb.SELECTED: array, lb.VALUES: values}).frame()


def body_cases() -> Iterator[Case]:
    good = sparse()

    def with_tensor(payload: bytes) -> bytes:
        return replace(good, tensor=payload).frame()

    yield Case("lossy_right", good.frame(), "accepted", "", "section 11")
    yield Case(
        "lossy_without_the_flag",
        good.frame(flags=0),
        "corrupt unsupported",
        "",
        "without lossy they are refused",
    )
    for dtype, name, kinds in ((b.F64, "f64", "corrupt"), (b.U8, "u8", "corrupt unsupported")):
        frame = with_tensor(lb.lossy_tensor(dtype, (10,), lb.GAPS, 0, BF16_RULE, 3))
        yield Case(f"lossy_of_{name}", frame, kinds, "", "dtype is f32, bf16 or f16")
    empty = TensorBody(b.tensor_head(b.BF16, (0,)))
    yield Case(
        "lossy_of_no_elements",
        b.frame(empty.body(), lb.LOSSY),
        "accepted",
        "",
        "n = 0 has the sections of section 2",
    )
    yield Case(
        "lossy_check_of_no_elements",
        b.frame(empty.with_sections({lb.CHECK: bytes(16)}).body(), lb.LOSSY),
        "unsupported",
        "section",
        "n = 0 has the sections of section 2",
    )
    for form in (4, 7, lb.GAPS | 4 << 3, lb.GAPS | 7 << 3, lb.GAPS | 1 << 6, lb.GAPS | 1 << 7):
        payload = tensor()[:4] + bytes([form]) + tensor()[5:]
        yield Case(f"lossy_form_{form:02x}", with_tensor(payload), "corrupt", "form", "form")
    yield Case("lossy_tensor_cut", with_tensor(tensor()[:-1]), SHORT, "", "tensor is complete")
    yield Case(
        "lossy_tensor_left_over", with_tensor(tensor() + b"\0"), "corrupt", "tensor", "it ends"
    )
    yield Case("lossy_k_too_large", with_tensor(tensor(k=11)), "corrupt", "k", "k is at most n")
    yield Case("lossy_k_huge", with_tensor(tensor(k=2**62)), "corrupt", "k", "k is at most n")
    huge = with_tensor(tensor(n=2**31))
    yield Case("lossy_of_2_31_elements", huge, "corrupt limit", "", "selections are of fewer")
    yield Case("lossy_over_budget", with_tensor(tensor(n=2**30)), "limit", "", "the output budget")
    yield Case("lossy_none_selected", none_selected().frame(), "accepted", "", "k may be 0")
    nothing = none_selected()
    yield Case(
        "lossy_none_selected_but_values",
        replace(nothing, tensor=nothing.tensor[:4] + b"\x0a\0").frame(),
        "corrupt",
        "form",
        "for k = 0 values is 0",
    )
    yield Case(
        "lossy_none_selected_but_parameters",
        replace(nothing, tensor=nothing.tensor + BF16_RULE).frame(),
        "corrupt",
        "tensor",
        "for k = 0 nothing follows",
    )
    yield from section_cases(good, nothing)


def section_cases(good: LossyBody, nothing: LossyBody) -> Iterator[Case]:
    whole = LossyBody(tensor(lb.ALL, None, 3), {lb.VALUES: lb.plain(NUMBERS)})
    yield Case("lossy_all_right", whole.frame(), "accepted", "", "selection 0")
    missing = {lb.SELECTED: "selected", lb.VALUES: "values"}
    for section_id, name in missing.items():
        frame = good.without(section_id).frame()
        yield Case(f"lossy_without_{name}", frame, SHORT, name, f"{name} is there")
    yield Case(
        "lossy_without_tensor",
        b.frame(good.body()[2 + len(good.tensor) :], lb.LOSSY),
        SHORT + " unsupported",
        "",
        "tensor is there",
    )
    extra = (
        ("selected_of_all", whole, lb.SELECTED, "selected"),
        ("scales_of_floats", good, lb.BUCKET_SCALES, "bucket_scales"),
        ("values_of_none", nothing, lb.VALUES, "values"),
        ("scales_of_none", nothing, lb.BUCKET_SCALES, "bucket_scales"),
    )
    for name, body, section_id, word in extra:
        frame = body.with_sections({section_id: b""}).frame()
        yield Case(f"lossy_{name}", frame, "corrupt", word, "it has no place there")
    for section_id in (b.TABLES, b.CHUNKS, b.TENSORS, 60):
        yield Case(
            f"lossy_section_{section_id}",
            good.with_sections({section_id: b""}).frame(),
            "unsupported",
            "section",
            "each body knows only its own ids",
        )
    yield Case(
        "lossy_optional_section",
        good.with_sections({200: b"any bytes"}).frame(),
        "accepted",
        "",
        "an unknown id of 128 or more is skipped",
    )
    exact = plain().with_sections({lb.CHECK: bytes(16)})
    yield Case(
        "lossy_check_of_exact_body",
        b.frame(exact.body(), lb.LOSSY),
        "unsupported",
        "section",
        "each body knows only its own ids",
    )


def selection_cases() -> Iterator[Case]:
    def gaps(values: Sequence[int]) -> bytes:
        return gaps_frame(b.classed_integers(values), len(values), 10)

    yield Case("lossy_gaps_to_the_last", gaps([1, 2, 4]), "accepted", "", "element n - 1")
    yield Case("lossy_gaps_beyond", gaps([1, 2, 5]), "corrupt", "selected", "element n is none")
    yield Case("lossy_gap_too_large", gaps([0, 0, 8]), "corrupt", "selected", "at most n - k")
    yield Case("lossy_gap_negative", gaps([4, -1, 2]), "corrupt", "selected", "at least 0")
    array = b.byte_integers([1, 0, 4])
    yield Case("lossy_gaps_cut", gaps_frame(array[:-1], 3, 10), SHORT, "selected", "k gaps")
    yield Case(
        "lossy_gaps_left_over", gaps_frame(array + b"\0", 3, 10), "corrupt", "selected", "k gaps"
    )
    yield Case(
        "lossy_gaps_of_none",
        none_selected(selected=b"\0\0").frame(),
        "corrupt",
        "selected",
        "an array of no integers is empty",
    )

    def flags(selected: bytes) -> bytes:
        sections = {lb.SELECTED: selected, lb.VALUES: lb.plain(NUMBERS)}
        return LossyBody(tensor(lb.FLAGS), sections).frame()

    bits = [0, 1, 1, 0, 0, 0, 0, 1, 0, 0]
    yield Case("lossy_flags_right", flags(b.bitmap(bits)), "accepted", "", "selection 1")
    yield Case("lossy_flags_as_runs", flags(b.runs([1, 4], [2, 1])), "accepted", "", "selection 1")
    for name, wrong in (("few", [0, 1, 1] + [0] * 7), ("many", [1, *bits[1:]])):
        yield Case(f"lossy_flags_too_{name}", flags(b.bitmap(wrong)), "corrupt", "selected", "k")
    yield Case(
        "lossy_flags_left_over", flags(b.bitmap(bits) + b"\0"), "corrupt", "selected", "n flags"
    )
    yield Case("lossy_flags_cut", flags(b.bitmap(bits)[:-1]), SHORT, "selected", "n flags")
    none = none_selected(lb.FLAGS, b"\1" + b.equal_integers(0))
    yield Case("lossy_flags_of_none", none.frame(), "accepted", "", "k may be 0")
    yield Case(
        "lossy_flags_of_none_empty", none_selected(lb.FLAGS).frame(), SHORT, "selected", "n flags"
    )

    def drawn(k: int, **sections: bytes) -> bytes:
        by_id = {getattr(lb, name.upper()): payload for name, payload in sections.items()}
        return LossyBody(tensor(lb.DRAWN, k, seed=2**64 - 1), by_id).frame()

    values = lb.plain(NUMBERS)
    yield Case("lossy_drawn_right", drawn(3, values=values), "accepted", "", "selection 3")
    yield Case("lossy_drawn_none", drawn(0), "corrupt", "k", "k is at least 1")
    yield Case("lossy_drawn_too_many", drawn(11, values=values), "corrupt", "k", "k is at most n")
    yield Case(
        "lossy_drawn_with_selected",
        drawn(3, values=values, selected=b""),
        "corrupt",
        "selected",
        "no section",
    )
    short = LossyBody(tensor(lb.DRAWN, 3, seed=1)[:10], {lb.VALUES: values})
    yield Case("lossy_seed_cut", short.frame(), SHORT, "", "seed has 8 bytes")


def check_cases() -> Iterator[Case]:
    good = sparse()
    checked = replace(good, checksums=True)

    def with_check(body: LossyBody, payload: bytes) -> bytes:
        return body.with_sections({lb.CHECK: payload}).frame()

    frame = checked.frame()
    digest = frame[-16:-8]
    yield Case("lossy_checked_right", frame, "accepted", "", "check")
    flipped = bytearray(frame)
    flipped[-20] ^= 1
    yield Case("lossy_check_wrong", bytes(flipped), "corrupt", "check", "it covers the values")
    swapped = frame.replace(b"\1\x0a\5", b"\1\x0b\5", 1)
    yield Case("lossy_check_of_head", swapped, "corrupt", "check", "it covers the fields")
    yield Case(
        "lossy_check_padding",
        with_check(checked, digest + b"\1" + bytes(7)),
        "corrupt",
        "check",
        "the padding is zero",
    )
    for size in (0, 8, 15, 17):
        kinds = "corrupt" if size > 16 else SHORT
        name = f"lossy_check_of_{size}_bytes"
        yield Case(name, with_check(good, bytes(size)), kinds, "check", "16 bytes in a frame")
    yield Case(
        "lossy_check_without_checksums",
        with_check(good, b"\1" + bytes(15)),
        "corrupt",
        "check",
        "it is 0 without checksums",
    )
    body = good.body(in_archive=True)
    yield Case("lossy_check_absent", b.frame(body, lb.LOSSY), SHORT, "check", "it is there")
    yield from archive_cases(good, checked)


def archive_cases(good: LossyBody, checked: LossyBody) -> Iterator[Case]:
    def archive(body: bytes, checksums: bool, flags: int = lb.LOSSY) -> bytes:
        exact = replace(plain(), checksums=checksums).archive_body()
        sections = b.archive_sections([(b"lossy", body), (b"exact", exact)])
        return b.archive_frame(sections, checksums, flags=flags)

    right = checked.body(in_archive=True)
    without = good.body(in_archive=True)
    wrong = bytearray(right)
    wrong[-1] ^= 1
    rule = "check in an archive"
    yield Case("lossy_archive_right", archive(right, True), "accepted", "", rule)
    yield Case("lossy_archive_no_checksums", archive(without, False), "accepted", "", rule)
    yield Case("lossy_archive_wrong", archive(bytes(wrong), True), "corrupt", "check", rule)
    yield Case("lossy_archive_absent", archive(without, True), SHORT, "check", rule)
    yield Case("lossy_archive_superfluous", archive(right, False), "corrupt", "check", rule)
    padded = checked.with_sections({lb.CHECK: right[-8:] + bytes(8)}).body(in_archive=True)
    yield Case("lossy_archive_padded", archive(padded, True), "corrupt", "check", rule)
    yield Case(
        "lossy_archive_without_the_flag",
        archive(without, False, flags=0),
        "corrupt unsupported",
        "",
        "without lossy they are refused",
    )
