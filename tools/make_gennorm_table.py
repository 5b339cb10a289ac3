#!/usr/bin/env python3
"""Write src/stages/entropy/gennorm_table.inc, the frozen integers of docs/format.md section 10.

For each shape beta: 2^20 P(log2(|x| / median) < i / 4), i = -64 .. 48, of a generalised normal
variable x, whose density is proportional to exp(-|x|^beta). |x|^beta follows a gamma distribution
of shape 1 / beta. The first and the last entry are 0 and 2^20: what lies beyond them is escaped.

    python3 tools/make_gennorm_table.py            # rewrites the file
    python3 tools/make_gennorm_table.py --check    # exit status 1 if the file differs

Needs mpmath; 40 digits, so that every machine rounds alike.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mpmath import findroot, floor, gammainc, mp, mpf

SHAPES = (30, 35, 40, 46, 53, 61, 70, 80, 90, 100, 115, 132, 152, 174, 200, 250)  # hundredths
FIRST, LAST = -64, 48  # quarter octaves from the median
SCALE = 1 << 20
TABLE = Path(__file__).resolve().parent.parent / "src/stages/entropy/gennorm_table.inc"
COLUMNS = 100


def cumulative(beta: mpf) -> list[int]:
    """Integers at the edges FIRST .. LAST."""

    def below(power: mpf) -> mpf:  # P(|x|^beta < power)
        return gammainc(1 / beta, 0, power, regularized=True)

    median_power = findroot(lambda power: below(power) - mpf(1) / 2, (mpf("0.1"), 4), "anderson")
    edges = [median_power * mpf(2) ** (beta * i / 4) for i in range(FIRST, LAST + 1)]
    values = [int(floor(SCALE * below(edge) + mpf(1) / 2)) for edge in edges]
    return [0, *values[1:-1], SCALE]


def wrapped(numbers: list[int]) -> list[str]:
    """Lines of numbers with commas, indented, within the column limit."""
    lines, line = [], "   "
    for number in numbers:
        if len(line) + len(f" {number},") > COLUMNS:
            lines.append(line)
            line = "   "
        line += f" {number},"
    return [*lines, line]


def render() -> str:
    lines = [
        "// Written by tools/make_gennorm_table.py; frozen. A row a shape: hundredths of beta,",
        "// then 2^20 P(log2(|x| / median) < i / 4) for i = -64 to 48.",
    ]
    for hundredths in SHAPES:
        lines += [f"{{{hundredths}, {{", *wrapped(cumulative(mpf(hundredths) / 100)), "}},"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    mp.dps = 40
    text = render() + "\n"
    if arguments.check:
        return int(TABLE.read_text() != text)
    TABLE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
