"""bench/training/report.py and its goals, on small made-up runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="the report draws a plot with matplotlib")

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / folder) for folder in ("bench/training", "bench", "tools")]
ABOUT = {
    "command": "bench/training/run.py",
    "revision": "0123456789ab",
    "machine": {"cpu": "CPU", "cores": 2, "avx": [], "system": "Linux x86_64", "python": "3.11"},
    "load_average": [0.0, 0.0, 0.0],
}
GRADIENT_BYTES = 1_000_000


@pytest.fixture(scope="module")
def report() -> Any:
    sys.path[:0] = FOLDERS
    try:
        import report

        return report
    finally:
        sys.path = [folder for folder in sys.path if folder not in FOLDERS]


def way(original: int, payload: int) -> dict[str, int]:
    """Bytes of ten steps, with ten messages of 48 bytes and as much padding where it is used."""
    extra = 480 if original else 0
    return {
        "original_bytes": original,
        "payload_bytes": payload,
        "header_bytes": extra,
        "padding_bytes": extra,
    }


def entry(name: str, ms: float, fraction: float, **changes: Any) -> dict[str, Any]:
    made = {
        "name": name,
        "gradient_bytes": GRADIENT_BYTES,
        "step_ms": {"p10": ms - 1, "median": ms, "p90": ms + 1},
        "cpu_ms": 5.0,
        "wire_bytes": fraction * GRADIENT_BYTES,
        "losses": [2.0, 1.0, 0.5],
        "largest_bucket_bytes": 100,
    }
    return made | changes


def ours(name: str, ms: float, there: float, back: float | None = None, **changes: Any) -> Any:
    ten_steps = 10 * GRADIENT_BYTES
    stats = {
        "steps": 10,
        "buckets": 20,
        "to_owners": way(ten_steps, int(there * ten_steps)),
        "from_owners": way(0, 0) if back is None else way(ten_steps, int(back * ten_steps)),
        "plain_bytes": 0,
    }
    return entry(name, ms, there, stats=stats, **changes)


def run(name: str, contenders: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    made = {
        "name": name,
        "rate": "100mbit",
        "ranks": 2,
        "model": "gpt",
        "numbers": "f32",
        "batch": 2,
        "compute_ms": None,
        "groups": 8,
        "warmup": 1,
        "steps": 2,
        "contenders": contenders,
    }
    return made | changes


@pytest.fixture
def runs() -> list[dict[str, Any]]:
    other = [2.0, 1.0, 0.5 + 2.0**-50]
    stored = "lossless(coder=stored) two_shot"
    # Without a hook: 80 ms on the wire at 100 Mbit/s and 20 ms of compute.
    return [
        run(
            "trained",
            [
                entry("no hook", 100.0, 1.0),
                entry("fp16_compress_hook", 60.0, 0.5, losses=other),
                ours("lossless", 71.0, 0.6),
                ours("lossless(level=1)", 90.0, 0.7),
            ],
        ),
        run("slow", [entry("no hook", 100.0, 1.0), ours("lossless", 73.0, 0.6)]),
        run("transport", [entry("none", 100.0, 1.0), ours(stored, 104.0, 1.0, 1.0)]),
        run("amp", [ours("lossless two_shot", 50.0, 0.34, 0.44)], numbers="amp"),
        run("amp", [ours("lossless gather_merge", 50.0, 0.33)], numbers="amp"),
        run("amp", [ours("lossless two_shot", 50.0, 0.5, 0.5)], numbers="amp", ranks=3),
        run(
            "quick",
            [entry("no hook", 50.0, 1.0), ours("lossless", 45.0, 0.6), ours("none", 50.0, 1.0)],
            rate="1gbit",
            numbers="bf16",
            compute_ms=20.0,
        ),
        run(
            "choosing",
            [
                entry("no hook", 100.0, 1.0),
                ours("lossless", 80.0, 0.6),
                chosen("lossless", 83.0, predicted_ms=97.0),
            ],
        ),
        run(
            "idle",
            [
                entry("no hook", 100.0, 1.0),
                ours("none", 103.5, 1.0),
                chosen("none", 102.0, predicted_ms=100.0),
            ],
            rate=None,
        ),
        run(
            "idle replayed",
            [entry("no hook", 10.0, 1.0), ours("none", 10.9, 1.0)],
            rate=None,
            compute_ms=0.0,
        ),
        *(
            run(f"memory, {name}", [entry(name, 1.0, 1.0, peak_bytes=peak)], rate="any")
            for name, peak in [("no hook", 500), ("lossless", 706), ("lossless two_shot", 708)]
        ),
    ]


def chosen(spec: str, ms: float, predicted_ms: float) -> Any:
    return ours("auto", ms, 0.6, chosen={"spec": spec, "predicted_step_ms": predicted_ms})


def verdicts(sections: list[Any]) -> dict[str, list[bool | None]]:
    return {section.title: [check.met for check in section.checks] for section in sections}


def test_goals_are_met_or_missed_by_their_numbers(report: Any, runs: list[Any]) -> None:
    assert verdicts(report.goals.sections(runs)) == {
        "Transport, step time": [True],
        "Size fractions under bfloat16 autocast": [True, False, True, None, None],
        "Step time at 100 Mbit/s": [True, None, False, False],
        "Accelerator at 1 Gbit/s, times as quick": [False],
        "What auto chooses": [True, True, False, True, True, True, None],
        "What plain all-reduces cost": [False, True, True],
        "Memory": [True, False],
    }


def test_a_limit_of_a_step_is_its_formula(report: Any, runs: list[Any]) -> None:
    steps = next(s for s in report.goals.sections(runs) if s.title == "Step time at 100 Mbit/s")
    assert report.goals.split_step(runs[0]["contenders"][0], "100mbit") == (80.0, 20.0)
    assert steps.checks[0].wanted == "<= 72.0"  # (0.6001 + 0.05) x 80 + 20
    assert report.goals.bits_per_s("1gbit") == 1e9
    with pytest.raises(ValueError, match="no number"):
        report.goals.bits_per_s("fast")


def test_goals_without_their_runs_are_left_out(report: Any, runs: list[Any]) -> None:
    assert report.goals.sections([]) == []
    loopback = [run | {"rate": None} for run in runs if run["name"] in ("slow", "transport")]
    assert report.goals.sections(loopback) == []


@pytest.mark.parametrize(
    ("name", "ranks", "is_default"),
    [
        ("lossless", 2, True),
        ("lossless gather_merge", 2, True),
        ("lossless two_shot", 2, False),
        ("lossless two_shot", 4, False),
        ("lossless gather_merge", 4, False),
        ("lossless(level=1)", 2, False),
        ("none", 2, False),
    ],
)
def test_the_step_goal_is_for_the_default_on_two_ranks(
    report: Any, name: str, ranks: int, is_default: bool
) -> None:
    assert report.goals.is_default(name, ranks) == is_default


def test_the_report_holds_runs_ways_and_verdicts(
    report: Any, runs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "training.json"
    source.write_text(json.dumps(ABOUT | {"runs": runs}))
    report.main(source)
    text = (tmp_path / "training.md").read_text()
    assert text in capsys.readouterr().out
    assert (tmp_path / "training.png").stat().st_size > 0
    assert "12 met, 7 missed." in text
    for line in [
        "| no hook | 100.0 | 99.0 | 101.0 | 5.0 | 1.0000 | 0.500000 |  |",
        "| lossless | 71.0 | 70.0 | 72.0 | 5.0 | 0.6000 | 0.500000 | equal |",
        "| lossless | there | 1,000,000 | 600,000 | 48 | 48 | 0.6001 | 0 |",
        "| lossless two_shot | back | 1,000,000 | 440,000 | 48 | 48 | 0.4401 |  |",
    ]:
        assert line in text
    assert "| 0.500000 | differ from step 3 on |" in text
    assert "| 45.0 | 44.0 | 46.0 | 5.0 | 0.6000 | replayed |  |" in text
