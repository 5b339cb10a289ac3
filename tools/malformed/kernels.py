"""Broken kernels (format.md 6)."""

from __future__ import annotations

from collections.abc import Iterator

from reference import builder as b
from reference.builder import Chunk, TensorBody

from .common import SHORT, Case


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
        ("kernels_of_f64", body(dtype=b.F64, kept=52), "f64", "kernels are bf16, f16 or f32"),
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
    yield Case(
        "kernels_taps_cut", body(section=good_taps[:-1]), SHORT, "coefficients", "taps is complete"
    )
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
        "contradict",
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
