"""The goals of training over slow links, met or missed, from what run.py measured.

In: its runs. Out: sections of checks. Assumes: bench/ and tools/ on the path. A goal whose run is
not there gives no section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from checking import Check, Section, at_least, at_most, report

TRANSPORT = 1.05
GATHER, TO_OWNERS, BACK = 0.345, 0.35, 0.43
STEP_MARGIN = 0.05
ACCELERATOR = 1.25
SLOW, QUICK = "100mbit", "1gbit"
STORED = "lossless(coder=stored) two_shot"
OVERHEAD, OVERHEAD_MS = 1.03, 0.5  #: of a step with compute; else of a bucket
AUTO, AUTO_FIXED, PREDICTION = 1.03, 1.05, 0.15
CODED_BOUND = 1.07  #: most bytes that a bucket is coded to, by its own
MEMORY = "memory"  #: in the names of runs of one contender, of which the peak is wanted

Run = dict[str, Any]
Entry = dict[str, Any]  #: what one contender took


def title(run: Run) -> str:
    return f"{run['name']} at {run['rate'] or 'loopback'}"


def entries(run: Run) -> dict[str, Entry]:
    return {entry["name"]: entry for entry in run["contenders"]}


def is_coded(name: str) -> bool:
    """Does this contender send exact gradients through a coder of ours?"""
    return name.startswith("lossless") and "stored" not in name


def sent_bytes(way: dict[str, int]) -> int:
    return way["payload_bytes"] + way["header_bytes"] + way["padding_bytes"]


def size_fraction(*ways: dict[str, int]) -> float:
    """All bytes of exchanges by what the codec was given; 1.0 where it was given nothing."""
    original_bytes = sum(way["original_bytes"] for way in ways)
    return sum(map(sent_bytes, ways)) / original_bytes if original_bytes else 1.0


def sections(runs: list[Run]) -> list[Section]:
    made = [
        _transport(runs),
        _sizes(runs),
        _steps(runs),
        _accelerator(runs),
        _auto(runs),
        _overhead(runs),
        _memory(runs),
    ]
    return [section for section in made if section.checks]


def _transport(runs: list[Run]) -> Section:
    checks = []
    for run in runs:
        known = entries(run)
        if run["rate"] == SLOW and {"none", STORED} <= known.keys():
            ratio = _median(known[STORED]) / _median(known["none"])
            checks.append(at_most(f"{title(run)}: stored two_shot / none", TRANSPORT, ratio, 3))
    note = "The same bytes through our exchange, without coding, and through Gloo's all-reduce."
    return Section("Transport, step time", checks, note)


def _sizes(runs: list[Run]) -> Section:
    autocast = [run for run in runs if run["numbers"] == "amp"]
    checks = [check for run in autocast for check in _sizes_of(run)]
    note = (
        "Payload, headers and padding by the bytes that were to be sent. The goals are for 2 ranks:"
        " a sum of more has more significant bits. Runs of more ranks are reported only."
    )
    return Section("Size fractions under bfloat16 autocast", checks, note)


def _sizes_of(run: Run) -> Iterator[Check]:
    compare: Callable[[str, float, float], Check] = at_most if run["ranks"] == 2 else _beside
    for name, entry in entries(run).items():
        if name.partition(" ")[0] != "lossless":
            continue
        there, back = entry["stats"]["to_owners"], entry["stats"]["from_owners"]
        what = f"{title(run)}: {name}"
        if back["original_bytes"]:
            yield compare(f"{what}, two_shot to owners", TO_OWNERS, size_fraction(there))
            yield compare(f"{what}, two_shot back", BACK, size_fraction(back))
        else:
            yield compare(f"{what}, gather_merge", GATHER, size_fraction(there))


def _beside(what: str, limit: float, measured: float) -> Check:
    return report(what, f"{measured:.4f}", f"({limit:.4f} at 2 ranks)")


def _steps(runs: list[Run]) -> Section:
    slow = [run for run in runs if run["rate"] == SLOW and "no hook" in entries(run)]
    checks = [check for run in slow for check in _steps_of(run)]
    note = (
        "Milliseconds. Wanted: at most (size fraction + 0.05) x communication + compute. "
        "Communication is what no hook's bytes on the wire need at the link's rate; compute is the "
        "rest of no hook's step, the part that communication does not hide. The size fraction is "
        "that of stats(), both ways together. The goal is for `lossless` on 2 ranks by the "
        "exchange that is taken by default; others are reported only."
    )
    return Section("Step time at 100 Mbit/s", checks, note)


def _steps_of(run: Run) -> Iterator[Check]:
    known = entries(run)
    communication_ms, compute_ms = split_step(known["no hook"], run["rate"])
    for name, entry in known.items():
        if not is_coded(name):
            continue
        stats = entry["stats"]
        fraction = size_fraction(stats["to_owners"], stats["from_owners"])
        limit = (fraction + STEP_MARGIN) * communication_ms + compute_ms
        what = (
            f"{title(run)}: {name}; ({fraction:.3f} + {STEP_MARGIN}) x {communication_ms:.0f} + "
            f"{compute_ms:.0f}"
        )
        if is_default(name, run["ranks"]):
            yield at_most(what, limit, _median(entry), 1)
        else:
            yield report(what, f"{_median(entry):.1f}", f"({limit:.1f})")


def split_step(no_hook: Entry, rate: str) -> tuple[float, float]:
    """Communication and compute of a step without a hook, in ms; communication by its bytes."""
    communication_ms = 1e3 * 8 * no_hook["wire_bytes"] / bits_per_s(rate)
    communication_ms = min(communication_ms, _median(no_hook))
    return communication_ms, _median(no_hook) - communication_ms


def bits_per_s(rate: str) -> float:
    """Turn "100mbit" or "1gbit" into a number."""
    for unit, factor in (("mbit", 1e6), ("gbit", 1e9)):
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * factor
    raise ValueError(f"rate {rate!r} is no number of mbit or gbit")


def is_default(name: str, ranks: int) -> bool:
    """Is it `lossless` by the exchange that is taken by default, on the 2 ranks of the goal?"""
    spec, _, exchange = name.partition(" ")
    return ranks == 2 and spec == "lossless" and exchange in ("", "gather_merge")


def _accelerator(runs: list[Run]) -> Section:
    checks = []
    for run in runs:
        if run["rate"] == QUICK and run["compute_ms"] is not None and "no hook" in entries(run):
            checks += _accelerated(run)
    note = (
        "Step time of no hook by ours; gradients are replayed, so that compute costs no CPU time. "
        "The goal is for the quickest exact contender in bf16; others are reported only."
    )
    return Section("Accelerator at 1 Gbit/s, times as quick", checks, note)


def _accelerated(run: Run) -> list[Check]:
    known = entries(run)
    gains = {
        name: _median(known["no hook"]) / _median(entry)
        for name, entry in known.items()
        if is_coded(name)
    }
    if not gains:
        return []
    best = max(gains, key=lambda name: gains[name])
    others = [
        report(f"{title(run)}: {name}", f"{gain:.3f}")
        for name, gain in gains.items()
        if name != best
    ]
    what = f"{title(run)}: {best}"
    if run["numbers"] == "bf16":
        return [at_least(what, ACCELERATOR, gains[best], 3), *others]
    return [report(what, f"{gains[best]:.3f}"), *others]


def _auto(runs: list[Run]) -> Section:
    checks = [check for run in runs if "auto" in entries(run) for check in _auto_of(run)]
    note = (
        "Step times of `auto`, which has chosen before, by those of no hook and of the quickest "
        "fixed lossless contender; its predicted step by its own measured one."
    )
    return Section("What auto chooses", checks, note)


def _auto_of(run: Run) -> Iterator[Check]:
    known = entries(run)
    auto = known["auto"]
    what, step_ms, chosen = f"{title(run)}: auto", _median(auto), auto["chosen"]
    fixed = [_median(entry) for name, entry in known.items() if is_coded(name)]
    yield at_most(f"{what} / no hook", AUTO, step_ms / _median(known["no hook"]), 3)
    if fixed:
        yield at_most(f"{what} / best fixed lossless", AUTO_FIXED, step_ms / min(fixed), 3)
    if chosen["predicted_step_ms"]:
        off = abs(chosen["predicted_step_ms"] / step_ms - 1)
        yield at_most(f"{what}, prediction off by", PREDICTION, off, 3)
    is_met = chosen["spec"].startswith("lossless") if run["rate"] == SLOW and fixed else None
    wanted = "a lossless level" if is_met is not None else ""
    yield Check(f"{what} chose", wanted, chosen["spec"], is_met)


def _overhead(runs: list[Run]) -> Section:
    checks = []
    for run in runs:
        known = entries(run)
        if run["rate"] is None and {"no hook", "none"} <= known.keys():
            checks += [_overhead_of(run, name) for name in ("none", "auto") if _is_plain(run, name)]
    note = (
        "Over no hook, on loopback: a share of steps with compute, milliseconds a bucket of "
        "replayed ones."
    )
    return Section("What plain all-reduces cost", checks, note)


def _is_plain(run: Run, name: str) -> bool:
    """Did a contender send all its gradients, in the end, by plain all-reduces?"""
    entry = entries(run).get(name)
    return entry is not None and entry.get("chosen", {"spec": "none"})["spec"] == "none"


def _overhead_of(run: Run, name: str) -> Check:
    known = entries(run)
    entry, plain_ms = known[name], _median(known["no hook"])
    if run["compute_ms"] is None:
        return at_most(f"{title(run)}: {name} / no hook", OVERHEAD, _median(entry) / plain_ms, 3)
    buckets = entry["stats"]["buckets"] / entry["stats"]["steps"]
    more_ms = (_median(entry) - plain_ms) / buckets
    return at_most(f"{title(run)}: {name}, ms a bucket of {buckets:.0f}", OVERHEAD_MS, more_ms, 3)


def _memory(runs: list[Run]) -> Section:
    """Peaks of runs of one contender each, by that of no hook."""
    alone = {run["contenders"][0]["name"]: run for run in runs if run["name"].startswith(MEMORY)}
    plain = alone.pop("no hook", None)
    checks = []
    for run in alone.values() if plain else ():
        entry = run["contenders"][0]
        limit = (1 + CODED_BOUND) * entry["largest_bucket_bytes"]
        more = entry["peak_bytes"] - plain["contenders"][0]["peak_bytes"]
        checks.append(at_most(f"{title(run)}, MiB", limit / 2**20, more / 2**20, 1))
    note = (
        "Peak resident memory of rank 0 over that of plain DDP. Wanted: at most the largest bucket "
        "and what it is coded to at most."
    )
    return Section("Memory", checks, note)


def _median(entry: Entry) -> float:
    median: float = entry["step_ms"]["median"]
    return median
