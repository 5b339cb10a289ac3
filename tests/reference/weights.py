"""Tables that a frame names instead of sending: sections 4.4 to 4.6 and 10 of format.md.

In: an id, or the parameters of a gennorm table, and the alphabet. Out: weights of the symbols, then
code lengths or frequencies, as in a dynamic table. Assumes: nothing about ids and bytes.
The two data files are part of the format; everything else of the C++ sources is not read.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from pathlib import Path

from .wire import corrupt, features_seen, unsupported

ANS_TOTAL = 4096
MAX_CODE_LENGTH = 11
DATA_FOLDER = Path(__file__).resolve().parents[2] / "src" / "stages" / "entropy"

# 4.4 Code lengths and frequencies

Package = tuple[int, list[int]]  # weight, symbols in it


def lengths_of_weights(weights: list[int], limit: int = MAX_CODE_LENGTH) -> dict[int, int]:
    """Package-merge; in merging an item goes before a package of the same weight."""
    items: list[Package] = [(v, [s]) for v, s in sorted((v, s) for s, v in enumerate(weights) if v)]
    if len(items) == 1:
        symbol = items[0][1][0]
        return {symbol: 1, 0 if symbol else 1: 1}
    merged = items
    for _ in range(limit - 1):
        packages = [join(merged[i], merged[i + 1]) for i in range(0, len(merged) - 1, 2)]
        merged = sorted(items + packages, key=lambda package: package[0])  # stable: items first
    lengths: dict[int, int] = {}
    for _, symbols in merged[: 2 * len(items) - 2]:
        for symbol in symbols:
            lengths[symbol] = lengths.get(symbol, 0) + 1
    return lengths


def join(first: Package, second: Package) -> Package:
    return first[0] + second[0], first[1] + second[1]


def frequencies_of_weights(weights: list[int]) -> dict[int, int]:
    total = sum(weights)
    frequencies = {s: max(1, ANS_TOTAL * v // total) for s, v in enumerate(weights) if v}

    def largest() -> int:
        return max(frequencies, key=lambda s: (frequencies[s], -s))

    while sum(frequencies.values()) > ANS_TOTAL:
        frequencies[largest()] -= 1
    frequencies[largest()] += ANS_TOTAL - sum(frequencies.values())
    return frequencies


def values_of_weights(weights: list[int], coder: str) -> dict[int, int]:
    return frequencies_of_weights(weights) if coder == "ans" else lengths_of_weights(weights)


# 4.5 Static tables


@functools.cache
def static_family() -> dict[int, tuple[int, bool, list[int]]]:
    """{id: (alphabet, pairs, frequencies)} of the lines `{id, alphabet, pairs, {f, f, ...}},`."""
    family = {}
    for table_id, alphabet, pairs, numbers in entries("static_family.inc", r"(\d+),(\d+),(\w+)"):
        with_pairs = pairs in ("1", "true")
        family[int(table_id)] = int(alphabet), with_pairs, list(map(int, numbers.split(",")))
    return family


def entries(file_name: str, keys: str) -> list[tuple[str, ...]]:
    """The keys and the numbers of each `{key, ..., {number, number, ...}}` of a data file."""
    lines = (DATA_FOLDER / file_name).read_text().splitlines()
    text = re.sub(r"\s+", "", "".join(line for line in lines if "//" not in line))
    return re.findall(r"\{" + keys + r",\{([\d,]*\d),?\}\}", text)


def static_weights(table_id: int, alphabet: int, pairs: bool) -> list[int]:
    if table_id not in static_family():
        raise unsupported(f"tables: static id {table_id} is unknown")
    known_alphabet, known_pairs, frequencies = static_family()[table_id]
    if (known_alphabet, known_pairs) != (alphabet, pairs):
        message = f"is for an alphabet of {known_alphabet}, pairs {known_pairs}"
        raise corrupt(f"tables: static table {table_id} {message}, not {alphabet}, {pairs}")
    return frequencies


# 4.6 and 10: GenNorm tables


@functools.cache
def gennorm_rows() -> list[list[int]]:
    """T(-64) to T(48) of each shape."""
    rows = [numbers.split(",") for _, numbers in entries("gennorm_table.inc", r"(\d+)")]
    return [list(map(int, row)) for row in rows]


def check_gennorm(shape: int, pairs: bool) -> None:
    if shape >> 5 & 3 == 3 or pairs:
        raise corrupt(f"tables: gennorm shape {shape:#x}, pairs {pairs}")


def bytes_of_more(shape: int) -> int:
    """Of the field behind the scale: none, a mixture's second part, or a mean."""
    return 0 if shape >> 7 == 0 else 1 if shape >> 4 & 1 else 2


def gennorm_weights(shape: int, scale: int, more: int, alphabet: int) -> list[int]:
    signs, step_log2 = 1 + (shape >> 4 & 1), shape >> 5 & 3
    window, rest = divmod(alphabet - 2, signs)
    if rest or window < 1 or alphabet > 126:
        raise corrupt(f"tables: gennorm with an alphabet of {alphabet}, S = {signs}")
    step = 4 >> step_log2
    origin = max(0, step * window - 64)
    edges = [step * v - origin for v in range(window + 1)]
    if shape >> 7:
        features_seen.add("gennorm/mean" if signs == 2 else "gennorm/mixture")
    if shape >> 7 and signs == 2:
        masses, escape = masses_about_mean(shape & 15, scale & 63, more, edges)
    else:
        masses, escape = masses_about_zero(shape, scale, more, edges)
    zero = (0, 2**14, 2**17, 2**19)[scale >> 6]
    return [mass + 256 for mass in (*masses, zero, escape)]


def below(row: int, i: int) -> int:
    return gennorm_rows()[row][min(max(i, -64), 48) + 64]


def masses_about_zero(shape: int, scale: int, more: int, edges: list[int]) -> tuple[list[int], int]:
    """Of each symbol of a residual, and of the escape."""
    signs = 1 + (shape >> 4 & 1)
    row, median, share = more & 15, more >> 4 & 63, more >> 10  # of the second part

    def at(edge: int) -> int:
        first = below(shape & 15, edge - (scale & 63))
        return ((64 - share) * first + share * below(row, edge - median)) // 64

    masses = [
        (at(high) - at(low)) // signs
        for low, high in itertools.pairwise(edges)
        for _ in range(signs)
    ]
    return masses, at(edges[0]) + 2**20 - at(edges[-1])


def fourth_root(power: int) -> int:
    return math.isqrt(math.isqrt(power))


def quarter_octave(j: int) -> int:
    """Q(j), a magnitude in units of 2^-16 of that at the origin."""
    return fourth_root(2 ** (64 + j))


def masses_about_mean(row: int, median: int, mean: int, edges: list[int]) -> tuple[list[int], int]:
    centre = fourth_root(fourth_root(2 ** (256 + mean)))

    def near(distance: int) -> int:
        """G: 2^20 times the probability of a smaller distance from the mean."""
        if distance == 0:
            return 0
        j = 4 * (distance.bit_length() - 17)
        while quarter_octave(j + 1) <= distance:
            j += 1
        low, high = below(row, j - median), below(row, j + 1 - median)
        start, end = quarter_octave(j), quarter_octave(j + 1)
        return low + (high - low) * (distance - start) // (end - start)

    magnitudes = [quarter_octave(max(edge, -64)) for edge in edges]
    same = [near(e - centre) if e >= centre else -near(centre - e) for e in magnitudes]
    other = [near(e + centre) for e in magnitudes]
    masses = []
    for v in range(len(edges) - 1):
        masses += [(same[v + 1] - same[v]) // 2, (other[v + 1] - other[v]) // 2]
    inside = (same[-1] - same[0] + other[-1] - other[0]) // 2
    return masses, 2**20 - inside
