"""The demo's training part without its processes: tables, comparison, plot, models."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="the demo draws its charts with matplotlib")

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
try:
    import demo_training
finally:
    sys.path.remove(str(TOOLS))


def figures(step_bytes: list[int], losses: list[float]) -> dict[str, Any]:
    step_ms = [50.0, 50.0, 50.0, 10.0, 30.0, 20.0]
    return {"step_ms": step_ms, "step_bytes": step_bytes, "losses": losses, "weights": "abc"}


@pytest.fixture
def report() -> demo_training.Report:
    losses = [2.5, 2.0, 1.5, 1.0, 0.75, 0.5]
    return {
        "gpt": {
            "plain DDP": figures([4000] * 6, losses),
            "lossless": figures([1000, 1000, 1000, 2000, 2000, 2000], list(losses)),
        }
    }


def test_the_table_says_what_each_way_took(report: demo_training.Report) -> None:
    *_, plain, ours = demo_training.training_table(report).splitlines()
    assert plain.split()[-6:] == ["DDP", "6", "20.0", "4,000", "1.0000", "0.500000"]
    assert ours.split() == ["lossless", "6", "20.0", "1,500", "0.3750", "0.500000"]


def test_equal_reports_have_no_differences(report: demo_training.Report) -> None:
    assert demo_training.differences([report, copy.deepcopy(report)]) == []


@pytest.mark.parametrize(("good", "bad"), [(0.5, 0.5000000001), (0.0, -0.0), (float("nan"), 0.5)])
def test_one_other_bit_in_a_loss_of_one_rank_is_found(
    report: demo_training.Report, good: float, bad: float
) -> None:
    for figures in report["gpt"].values():
        figures["losses"][-1] = good
    other = copy.deepcopy(report)
    assert demo_training.differences([report, other]) == []
    other["gpt"]["lossless"]["losses"][-1] = bad
    assert demo_training.differences([report, other]) == [
        "gpt, lossless, rank 1: losses differ from those of plain DDP"
    ]


def test_other_weights_are_found(report: demo_training.Report) -> None:
    report["gpt"]["lossless"]["weights"] = "abd"
    assert demo_training.differences([report]) == [
        "gpt, lossless, rank 0: weights differ from those of plain DDP"
    ]


def test_a_difference_makes_the_demo_fail(
    report: demo_training.Report,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo_training, "missing_packages", list)
    monkeypatch.setattr(demo_training, "run_ranks", lambda: [report])
    assert demo_training.main(tmp_path) == 0
    assert "equal bit for bit" in capsys.readouterr().out
    assert (tmp_path / "training.png").stat().st_size > 0
    report["gpt"]["lossless"]["losses"][0] = 2.25
    assert demo_training.main(tmp_path) == 1
    output = capsys.readouterr()
    assert "equal bit for bit" not in output.out
    assert "losses differ" in output.err


def test_without_torch_the_demo_says_so_and_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_training, "missing_packages", lambda: ["torch"])
    assert demo_training.main(tmp_path) == 0
    assert "torch is not installed" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["digits", "gpt"])
def test_a_model_gives_the_same_loss_for_the_same_seeds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(TOOLS))
    import demo_models

    model, loss = demo_models.make(name)
    again, _ = demo_models.make(name)
    first, second = (loss(m, torch.Generator().manual_seed(7)) for m in (model, again))
    assert torch.equal(first, second)
    first.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
