"""bench/methods: folds, statistics, the reference of DGC, bytes, what is run again."""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the study trains with PyTorch")
pytest.importorskip("sklearn", reason="the study trains on scikit-learn's digits")
pytest.importorskip("matplotlib", reason="the study draws with matplotlib")

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT / "bench"), str(ROOT / "tools")]
sys.path[:0] = FOLDERS
from methods import cache, models, pairs, plan, ranks, report, train  # noqa: E402
from methods.reference_dgc import ReferenceDgc  # noqa: E402

sys.path = [folder for folder in sys.path if folder not in FOLDERS]

pytestmark = pytest.mark.usefixtures("one_thread")

JOB = train.Job("digits", "dense", 0.05, seed=0, epochs=1, rank_batch=8)
TENSORS = [("weight", (30, 40)), ("bias", (7,))]


def random_gradients(step: int, count: int = 4) -> Any:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(count, 1207, generator=generator)


# --- data -----------------------------------------------------------------------------------------


def test_every_picture_is_tested_in_one_fold_and_trained_on_in_the_others() -> None:
    tested = []
    for fold in range(models.FOLDS):
        train_part, test_part = models.fold_parts(1797, fold)
        assert sorted([*train_part.tolist(), *test_part.tolist()]) == list(range(1797))
        assert len(test_part) in (359, 360)
        tested += test_part.tolist()
    assert sorted(tested) == list(range(1797))
    with pytest.raises(ValueError, match="fold: 5 given"):
        models.fold_parts(1797, 5)


def test_ranks_share_out_a_batch_that_only_seed_and_epoch_decide() -> None:
    task, again = (models.make("digits", seed=3, fold=1, ranks=4, rank_batch=8) for _ in range(2))
    batches, same = list(task.batches(2)), list(again.batches(2))
    assert (len(batches), task.epoch_steps) == (44, 44)
    for step, other in zip(batches, same, strict=True):
        assert [batch.inputs.shape for batch in step] == [(8, 1, 8, 8)] * 4
        assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(step, other, strict=True))
    assert not torch.equal(batches[0][0].inputs, next(task.batches(3))[0].inputs)
    pictures = {batch.inputs[i].numpy().tobytes() for s in batches for batch in s for i in range(8)}
    assert len(pictures) > 0.98 * 44 * 32  # a few pictures are equal


def test_the_mean_of_the_ranks_is_the_gradient_of_the_whole_batch() -> None:
    task = models.make("digits", seed=0, fold=0, ranks=4, rank_batch=8)
    flat = ranks.FlatModel(task.model)
    batches = next(iter(task.batches(0)))
    gradients = torch.empty(4, flat.weights.numel())
    loss = ranks.rank_gradients(flat, task.loss, batches, gradients)
    joined = models.Batch(*(torch.cat(parts) for parts in zip(*batches, strict=True)))
    whole = task.loss(joined)
    expected = torch.autograd.grad(whole, flat.parameters)
    assert loss == pytest.approx(whole.item(), rel=1e-5)
    for found, wanted in zip(flat.split(gradients.mean(0)), expected, strict=True):
        assert (found - wanted).norm() <= 1e-5 * wanted.norm()


# --- ways to the mean -----------------------------------------------------------------------------


def test_a_lossless_exchange_gives_the_dense_mean_for_fewer_bytes() -> None:
    gradients = random_gradients(0).mul_(1e-3)
    dense = ranks.Dense(4)
    expected = dense.mean(gradients.clone(), 0, None, 1.0)
    lossless = ranks.Gradwire("lossless", TENSORS, 4)
    found = lossless.mean(gradients, 0, None, 1.0)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-10)
    plain, sent = dense.take_sent(), lossless.take_sent()
    assert plain.up_bytes == plain.down_bytes == 4 * 1207 * 3 / 4
    assert sent.up_original_bytes == plain.up_bytes
    stored = ranks.Gradwire("none", TENSORS, 4)
    stored.mean(random_gradients(0), 0, None, 1.0)
    assert stored.take_sent().up_bytes > plain.up_bytes  # headers
    assert lossless.take_sent() == ranks.Sent()


def plain_dgc(steps: int, keep_count: int, mask: bool) -> Any:
    """DGC of the weight, written with loops over elements from the paper's equations."""
    u, v, outputs = np.zeros((4, 1200)), np.zeros((4, 1200)), []
    for step in range(steps):
        gradients, mean = random_gradients(step).numpy()[:, :1200], np.zeros(1200)
        for rank in range(4):
            u[rank] = 0.9 * u[rank] + gradients[rank]
            v[rank] = v[rank] + u[rank]
            for i in np.argsort(-np.abs(v[rank]))[:keep_count]:
                mean[i] += v[rank, i] / 4
                v[rank, i] = 0
                if mask:
                    u[rank, i] = 0
        outputs.append(mean)
    return np.array(outputs)


@pytest.mark.parametrize("mask", [True, False])
def test_the_reference_of_dgc_follows_the_equations(mask: bool) -> None:
    dgc = ReferenceDgc(TENSORS, 4, keep=0.01, mask=mask)
    found = np.array([dgc.mean(random_gradients(s), s, None, 1.0).numpy() for s in range(20)])
    np.testing.assert_allclose(found[:, :1200], plain_dgc(20, 12, mask), rtol=1e-4, atol=1e-6)
    momentum = np.zeros(7)  # of what is dense, after the mean
    for step in range(20):
        momentum = 0.9 * momentum + random_gradients(step)[:, 1200:].numpy().mean(0)
        np.testing.assert_allclose(found[step, 1200:], momentum, rtol=1e-4, atol=1e-6)
    sent = dgc.take_sent()
    assert (sent.selected, sent.selectable) == (20 * 12, 20 * 1200)
    assert sent.selected_bytes == 20 * 12 * 6
    assert sent.up_bytes == 3 * 20 * (12 * 6 + 7 * 4)
    assert sent.up_original_bytes == 3 * 20 * 4 * 1207


def test_without_correction_nothing_gets_lost() -> None:
    dgc = ReferenceDgc(TENSORS, 4, keep=0.01, correction=False)
    total, given = torch.zeros(1207), torch.zeros(1207)
    for step in range(10):
        given += random_gradients(step).mean(0)
        total += dgc.mean(random_gradients(step), step, None, 1.0)
    assert not torch.allclose(total, given, atol=1e-2)
    total += dgc.mean(torch.zeros(4, 1207), 10, 1.0, 1.0)
    torch.testing.assert_close(total, given, rtol=1e-4, atol=1e-4)


def test_clipping_bounds_each_rank() -> None:
    dgc = ReferenceDgc(TENSORS, 4, keep=1.0, clip_norm=0.5)
    gradients = random_gradients(0)
    gradients[0] *= 1e-3
    expected = gradients.clone()
    expected[1:] *= 0.25 / expected[1:].norm(dim=1, keepdim=True)
    torch.testing.assert_close(dgc.mean(gradients, 0, None, 1.0), expected.mean(0))


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_is_the_same_again_and_learns() -> None:
    job = replace(JOB, rank_batch=16)
    first, second = train.run(job), train.run(job)
    assert first["curve"] == second["curve"]
    assert first["test"] == second["test"]
    assert (first["steps"], first["diverged"]) == (22, False)
    assert first["test"]["accuracy"] > 0.5
    assert first["after"]["up_bytes"] == pytest.approx(22 * 3 * first["elements"], rel=1e-6)


def test_what_a_learned_method_sends_is_counted_once_it_has_learned() -> None:
    job = replace(JOB, method="lgc(keep=0.001,start=2,learn=3)", rank_batch=16, epochs=2)
    result = train.run(job)
    warmup, after = result["warmup"], result["after"]
    assert (warmup["steps"], after["steps"]) == (22, 22)
    coded = 22 - 2 - 3  # steps of the first epoch
    learning = warmup["selected_bytes"] - coded * after["selected_bytes"] / 22
    assert after["selected_bytes"] / 22 < 0.6 * learning / 3
    assert 0 < after["up_bytes"] < 0.1 * after["up_original_bytes"]


def test_a_run_that_diverges_says_so() -> None:
    result = train.run(train.Job("digits", "dense", 1e9, seed=0, epochs=1, rank_batch=8))
    assert result["diverged"]
    assert result["steps"] < 44
    assert result["curve"][-1] is None


def test_jobs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="needs plain sgd"):
        train.run(train.Job("gpt", "dgc(keep=0.01)", 0.1, seed=0, optimizer="adamw"))
    with pytest.raises(ValueError, match="positive"):
        train.run(train.Job("digits", "dense", 0.0, seed=0))


def test_momentum_is_inside_dgc_alone() -> None:
    inside = {"dgc", "dgc(keep=0.01)", "reference-dgc(keep=0.01)"}
    outside = {"dense", "topk(keep=0.01)", "reference-dgc(keep=0.01,correction=0)"}
    assert all(map(train.has_own_momentum, inside))
    assert not any(map(train.has_own_momentum, outside))


def test_schedules() -> None:
    warmup = train.exponential_warmup(0.001, 5)
    assert warmup == pytest.approx([0.3162, 0.1, 0.03162, 0.01, 0.003162], rel=1e-3)
    rates = [train.learning_rate(0.1, step, 100) for step in range(100)]
    assert rates[:5] == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1])
    assert all(a > b > 0 for a, b in itertools.pairwise(rates[5:]))


# --- study ----------------------------------------------------------------------------------------


def test_the_interval_is_student_s() -> None:
    interval = pairs.t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval.mean == 3.0
    assert interval.half_width == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-6)
    assert pairs.t_interval([]) is None
    assert math.isinf(pairs.t_interval([1.0]).half_width)


def test_only_places_that_both_have_are_paired() -> None:
    dense = {(seed, fold): 0.98 for seed in range(3) for fold in range(2)}
    method = {place: value - 0.01 * (place[0] + 1) for place, value in dense.items()}
    del method[2, 1]
    found = pairs.differences(method, dense)
    assert len(found) == 5
    assert pairs.pooled(found).mean == pytest.approx(-0.01 * (1 + 1 + 2 + 2 + 3) / 5)
    seeds = pairs.by_seed(found)
    assert (seeds.size, seeds.mean) == (2, pytest.approx(-0.015))


def test_the_grid_goes_on_while_the_best_is_at_its_end() -> None:
    losses: dict[float, float] = {}
    curve = {0.05: 3.0, 0.1: 2.0, 0.2: 1.0, 0.4: 0.5, 0.8: math.inf}
    while rates := plan.next_rates(0.1, losses):
        losses |= {rate: curve[rate] for rate in rates}
    assert sorted(losses) == sorted(curve)
    assert plan.best_rate(losses) == 0.4
    assert plan.next_rates(1.0, {0.5: 2.0, 1.0: 1.0, 2.0: 3.0}) == []


def compared(job: train.Job) -> list[Any]:
    return [getattr(job, name) for name in plan.COMPARED]


def test_all_entries_of_the_plan_make_jobs_that_dense_runs_are_there_for() -> None:
    for form in (plan.FULL, plan.SHORT):
        entries = plan.entries(form)
        bases = [plan.base_job(entry, model, form) for entry in entries for model in entry.models]
        dense = [compared(base) for base in bases if base.method == "dense"]
        for base in bases:
            base.validate()
            assert dense.count(compared(base)) == 1
            assert len(base.warmup) < base.epochs
    jobs = plan.counted_jobs(bases[0], 0.05, plan.FULL)
    assert len({(job.seed, job.fold) for job in jobs}) == 25
    assert all(job.seed != plan.TUNING_SEED for job in jobs)
    with pytest.raises(ValueError, match="not in the plan"):
        plan.entries(plan.FULL, ["no such"])


def test_a_study_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    cache.Cache(path).add(JOB, {"test": {"loss": 1.0}}, "abc")
    with path.open("a") as file:
        file.write('{"key": "cut of')
    found = cache.Cache(path)
    assert found.get(JOB)["test"] == {"loss": 1.0}
    assert found.get(JOB)["job"]["rate"] == 0.05
    assert found.get(train.Job("digits", "dense", 0.05, seed=1, epochs=1, rank_batch=8)) is None


# --- report ---------------------------------------------------------------------------------------


def made_up_run(seed: int, fold: int, accuracy: float, up: float) -> dict[str, Any]:
    phase = dict.fromkeys(asdict(ranks.Sent()), 0.0)
    after = {**phase, "steps": 10, "up_bytes": 10 * up, "up_original_bytes": 10 * 3000.0}
    selection = {"selected": 30.0, "selectable": 30000.0, "selected_bytes": 105.0}
    return {
        "revision": "abc",
        "job": asdict(train.Job("digits", "dense", 0.05, seed, fold)),
        "test": {"loss": 0.1, "accuracy": accuracy},
        "diverged": False,
        "curve": [1.0, 0.5],
        "steps": 10,
        "elements": 1000,
        "warmup": {**phase, "steps": 0},
        "after": after | selection,
        "reduce_ms": 2.0,
    }


def made_up_group(label: str, loss: float, up: float) -> dict[str, Any]:
    runs = [
        made_up_run(seed, fold, 0.98 - loss * (1 + seed) - 0.001 * fold, up)
        for seed in range(2)
        for fold in range(2)
    ]
    return {
        "label": label,
        "method": label,
        "model": "digits",
        "compared": ["digits", "sgd", 0.0, 30],
        "rate": 0.05,
        "tried": {"0.05": 0.1, "0.1": 0.2},
        "wanted": 4,
        "runs": runs,
    }


def test_the_report_has_differences_bytes_and_plots(tmp_path: Path) -> None:
    dense, method = made_up_group("dense", 0.0, 3000.0), made_up_group("dgc", 0.001, 30.0)
    broken = {**made_up_group("broken", 0.0, 1.0), "runs": [{"error": "no such method"}]}
    about = {
        "command": "x",
        "revision": "y",
        "load_average": [],
        "machine": report.machine.machine(),
    }
    source = tmp_path / "methods.json"
    source.write_text(json.dumps({**about, "groups": [dense, method, broken]}))
    report.write(source)
    text = source.with_suffix(".md").read_text()
    # Differences of -0.1, -0.1, -0.2, -0.2 points; t of 3 and of 1 degrees of freedom.
    assert "| dgc | 0.05* | 4/4 | 97.800 | -0.150 | -0.242 to -0.058 | -0.785 to +0.485 |" in text
    # 30 bytes up; dense: 2 x 4000 x 3/4 both ways; 30 of 3,000; 28 bits an element.
    assert "| dgc | 30 | 0 | 0.00500 | 0.00500 | 0.01000 | 0.00100 | 28.00 | 2.0 |" in text
    assert "| broken | no such method |" in text
    for what in ("bytes", "loss"):
        assert source.with_name(f"methods-{what}.png").stat().st_size > 5000
