"""bench/methods: results of an earlier study are kept while a method's means are the same."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the study trains with PyTorch")
pytest.importorskip("sklearn", reason="the study trains on scikit-learn's digits")
pytest.importorskip("matplotlib", reason="the study draws with matplotlib")

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / "bench"), str(ROOT / "tools")]
sys.path[:0] = FOLDERS
import machine  # noqa: E402
from methods import cache, imprint, plan, ranks, report, study, train  # noqa: E402

sys.path = [folder for folder in sys.path if folder not in FOLDERS]

TOPK = next(entry for entry in plan.ENTRIES if entry.label == "topk")
BASE = plan.base_job(TOPK, "digits", plan.FULL)
imprint_of = functools.cache(imprint.imprint_of)
pytestmark = pytest.mark.usefixtures("one_thread")
Outcome = dict[str, Any]


def outcome(job: train.Job) -> Outcome:
    """What a run of the job is made up to give; the best rate is 0.05."""
    sent = dict.fromkeys(asdict(ranks.Sent()), 0.0)
    loss = abs(job.rate - 0.05) + 0.1 + 0.01 * job.seed
    return {
        "test": {"loss": loss, "accuracy": 0.98},
        "diverged": False,
        "curve": [1.0, loss],
        "steps": 10,
        "elements": 1000,
        "warmup": {**sent, "steps": 0},
        "after": {**sent, "steps": 10, "up_bytes": 5000.0},
        "reduce_ms": 2.0,
        "seconds": 3.0,
    }


def former_group(revision: str, count: int, rate: float = 0.05) -> dict[str, Any]:
    """The first runs of topk, as a results file has them."""
    jobs = plan.counted_jobs(BASE, rate, plan.FULL)[:count]
    runs = [
        {"key": f"old {i}", "revision": revision, "job": asdict(job), **outcome(job)}
        for i, job in enumerate(jobs)
    ]
    named = {"label": TOPK.label, "model": "digits", "method": TOPK.method}
    tried = {f"{factor * rate:g}": loss for factor, loss in ((0.5, 0.2), (1, 0.1), (2, 0.3))}
    compared = ["digits", "sgd", 0.0, 30]
    group = {"compared": compared, "rate": rate, "tried": tried, "wanted": 25, "runs": runs}
    return dict(json.loads(json.dumps(named | group | {"imprint": imprint_of(BASE)})))


def write_results(path: Path, *groups: dict[str, Any], **more: Any) -> Path:
    path.write_text(json.dumps({"machine": machine.machine(), "groups": groups, **more}))
    return path


class Workers(ThreadPoolExecutor):
    """In the place of the study's processes, which cannot see made up runs."""

    def __init__(self, *_: Any) -> None:
        super().__init__(1)


class Made:
    """A study's results and the jobs that were run for them."""

    def __init__(self, results: dict[str, Any], jobs: list[train.Job]) -> None:
        self.results = results
        self.group = next(g for g in results["groups"] if g["label"] == TOPK.label)
        self.jobs = [job for job in jobs if job.method == TOPK.method]

    def counts(self) -> dict[str, int]:
        """Runs in the results by revision."""
        revisions = [run["revision"] for run in self.group["runs"]]
        return {revision: revisions.count(revision) for revision in sorted(set(revisions))}


Studied = Callable[..., Made]


@pytest.fixture
def studied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studied:
    """Make a study of topk with made up runs, at the revision "now"."""

    def make(*files: Path, run: Callable[[train.Job], Outcome] = outcome, **more: Any) -> Made:
        jobs = []

        def noted(job: train.Job) -> Outcome:
            jobs.append(job)
            return run(job)

        monkeypatch.setattr(study, "ProcessPoolExecutor", Workers)
        monkeypatch.setattr(study, "_run", noted)
        monkeypatch.setattr(study, "_imprint", imprint_of)
        arguments = {
            **{"short": False, "minutes": None, "workers": 1, "only": [TOPK.label], "seeds": 1},
            **{"output": tmp_path, "cache": tmp_path / "runs.jsonl"},
            "former": [str(file) for file in files] or ["none"],
        }
        made = study.Study(argparse.Namespace(**(arguments | more)))
        made.about["revision"] = "now"
        made.run()
        return Made(made.results(), jobs)

    return make


def places(jobs: list[train.Job]) -> list[tuple[float, int, int]]:
    return [(job.rate, job.seed, job.fold) for job in jobs]


def test_a_group_is_kept_while_its_means_are_the_same(
    tmp_path: Path, studied: Studied, capsys: pytest.CaptureFixture[str]
) -> None:
    group = former_group("old", 7)
    made = studied(write_results(tmp_path / "a.json", group))
    assert made.jobs == []
    assert (made.group["rate"], made.group["tried"]) == (0.05, group["tried"])
    assert made.group["runs"] == group["runs"]
    assert (made.group["imprint"], made.group["kept"]) == (imprint_of(BASE), 7)
    assert made.results["versions"] == cache.versions()
    assert "topk on digits: kept, runs: 7" in capsys.readouterr().out


def test_missing_seeds_are_made_at_the_rate_that_is_kept(tmp_path: Path, studied: Studied) -> None:
    made = studied(write_results(tmp_path / "a.json", former_group("old", 7)), seeds=2)
    assert places(made.jobs) == [(0.05, 1, 2), (0.05, 1, 3), (0.05, 1, 4)]
    assert made.counts() == {"now": 3, "old": 7}


@pytest.mark.parametrize("before", ["other", None, "absent"])
def test_a_group_is_made_anew_when_its_means_were_others(
    before: str | None, tmp_path: Path, studied: Studied, capsys: pytest.CaptureFixture[str]
) -> None:
    group = {**former_group("old", 7), "imprint": before}
    if before == "absent":
        del group["imprint"]
    made = studied(write_results(tmp_path / "a.json", group))
    imprints = f"its imprint was {group.get('imprint')}, it is {imprint_of(BASE)}"
    assert f"topk on digits: made anew: {imprints}\n" in capsys.readouterr().out
    assert made.counts() == {"now": 5}
    assert {job.rate for job in made.jobs if job.seed == plan.TUNING_SEED} == {0.025, 0.05, 0.1}
    assert (made.group["imprint"], made.group["kept"]) == (imprint_of(BASE), 0)


def test_an_imprint_is_of_the_means_alone() -> None:
    def of(method: str, **changes: Any) -> str | None:
        return imprint.imprint_of(train.Job("digits", method, 0.05, seed=0, **changes))

    dense = of("dense")
    assert dense == of("lossless") == of("dense", rank_batch=8)
    assert of("topk(keep=0.01)") == of("lhc(keep=0.01,cells=0)") == imprint_of(BASE)
    late = of("topk(keep=0.01,start=100)")
    assert late not in (dense, imprint_of(BASE))
    assert late == of("topk(keep=0.01,start=500)")
    assert of("dgc(keep=0.01)") != of("dgc(keep=0.01)", warmup=(0.1, 0.05))
    assert of("lgc(start=100,learn=150)") is None


def test_runs_of_two_files_are_joined(tmp_path: Path, studied: Studied) -> None:
    few = write_results(tmp_path / "a.json", former_group("few", 3))
    many = former_group("many", 6)
    del many["runs"][1]
    made = studied(few, write_results(tmp_path / "b.json", many))
    assert made.counts() == {"few": 1, "many": 5}
    assert made.group["runs"][1]["revision"] == "few"
    assert made.jobs == []


def test_runs_at_another_rate_are_not_joined(tmp_path: Path, studied: Studied) -> None:
    many = write_results(tmp_path / "a.json", former_group("many", 6))
    few = write_results(tmp_path / "b.json", former_group("few", 3, rate=0.1))
    made = studied(few, many)
    assert (made.group["rate"], made.counts()) == (0.05, {"many": 6})


def test_a_file_of_other_versions_is_left(
    tmp_path: Path, studied: Studied, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**cache.versions(), "torch": "1.0"}
    made = studied(write_results(tmp_path / "a.json", former_group("old", 7), versions=other))
    assert made.counts() == {"now": 5}
    assert "a.json: nothing is kept: made with" in capsys.readouterr().out


def test_groups_that_were_not_asked_for_wait(tmp_path: Path, studied: Studied) -> None:
    group = former_group("old", 7)
    other = {**former_group("old", 2), "label": "sidco", "method": "sidco(keep=0.001)"}
    for run in other["runs"]:
        run["job"] = run["job"] | {"method": other["method"]}
    results = write_results(tmp_path / "a.json", group, other)
    for _ in range(2):
        made = studied(results)
        assert made.counts() == {"old": 7}
        assert [waiting["runs"] for waiting in made.results["waiting"]] == [other["runs"]]
        results.write_text(json.dumps(made.results))
    assert "not asked for: sidco (digits)." in report.text_of(made.results, "methods")


def test_the_full_form_reads_the_results_it_will_write_over(tmp_path: Path) -> None:
    def paths(former: list[str] | None, short: bool = False) -> list[Path]:
        given = argparse.Namespace(former=former, output=tmp_path, short=short)
        return study.former_paths(given)

    assert paths(None) == []
    present = write_results(tmp_path / "methods.json")
    assert (paths(None), paths(None, short=True)) == ([present], [])
    assert (paths(["none"]), paths(["x.json"])) == ([], [Path("x.json")])


def test_a_rate_at_which_a_counted_run_diverges_gives_way(studied: Studied) -> None:
    def run(job: train.Job) -> Outcome:
        return {**outcome(job), "diverged": job.rate == 0.05 and job.fold == 3}

    made = studied(run=run)
    assert made.group["tried"] == {"0.025": 1.125, "0.05": 1.1, "0.1": 1.15}
    assert made.group["rate"] == 0.025
    assert {record["job"]["rate"] for record in made.group["runs"]} == {0.025}
    assert (made.counts(), made.group["wanted"]) == ({"now": 5}, 25)


def test_the_report_says_what_was_kept(tmp_path: Path, studied: Studied) -> None:
    elsewhere = {**machine.machine(), "cpu": "Old CPU", "cores": 1, "system": "Linux"}
    source = write_results(tmp_path / "a.json", former_group("old", 7), machine=elsewhere)
    text = report.text_of(studied(source, seeds=2).results, "methods")
    kept = (
        "those of earlier ones stand while their methods' means of made-up gradients are the same"
    )
    assert f"; runs of revisions now, old; {kept}, bit for bit." in text
    assert "Runs of earlier revisions may be from: Old CPU, 1 cores, Linux." in text
    anew = studied(seeds=1, cache=tmp_path / "empty.jsonl")
    assert "those of earlier ones" not in report.text_of(anew.results, "methods")
