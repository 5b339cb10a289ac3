"""The spec "auto": what it chooses from numbers, and that trying candidates changes no bit.

No test measures time: numbers are made up, and where ranks run, so are the step times.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import _auto, _tuner, attach, stats  # noqa: E402
from gradwire.torch._auto import Auto, CodecCost, Decision, StepTimes  # noqa: E402
from gradwire.torch._layout import BucketTensor, Layout  # noqa: E402
from gradwire.torch._probe import Probe, spread_pieces  # noqa: E402
from gradwire.torch._spec import parse_spec  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(300)

LEVELS = ("one", "two")
MEASUREMENT = _auto.GATE_STEPS + 3 * _auto.TRIAL_STEPS  # of the baseline and both levels


class Machine:
    """Made-up step times: compute, and what of communication the backward pass does not hide."""

    def __init__(self, seconds: dict[str, float], busy_s: float, codec_s: float = 0.01) -> None:
        self.seconds, self.busy_s = seconds, busy_s
        self.costs = {"one": CodecCost(codec_s, 0.8), "two": CodecCost(2 * codec_s, 0.7)}
        self.noise: Iterator[float] = iter(())
        self.used: list[str] = []

    def run(self, auto: Auto, steps: int) -> list[Decision]:
        found = []
        for _ in range(steps):
            self.used.append(auto.spec)
            costs = self.costs if auto.is_gate else None
            times = None
            if auto.is_measuring:
                step_s = self.seconds[auto.spec] * next(self.noise, 1.0)
                times = StepTimes(step_s, self.busy_s, self.busy_s, self.busy_s / 10)
            if decision := auto.end_step(times, costs):
                found.append(decision)
        return found


def slow_link() -> Machine:
    return Machine({"none": 1.0, "one": 0.9, "two": 0.8}, busy_s=0.7)


def fast_link() -> Machine:
    return Machine({"none": 0.1, "one": 0.4, "two": 0.5}, busy_s=0.02, codec_s=0.3)


def test_on_a_slow_link_the_quickest_level_is_chosen() -> None:
    auto, machine = Auto("none", LEVELS), slow_link()
    (decision,) = machine.run(auto, _auto.FIRST_STEPS + MEASUREMENT)
    assert (decision.spec, auto.spec, auto.choice) == ("two", "two", "two")
    assert decision.gain(decision.step_s) == pytest.approx(0.2)
    assert decision.predicted_s == pytest.approx(1.0 - 0.3 * 0.7)
    assert set(machine.used[: _auto.FIRST_STEPS + _auto.GATE_STEPS]) == {"none"}
    assert {machine.used.count(level) for level in LEVELS} == {_auto.TRIAL_STEPS}


def test_on_a_fast_link_nothing_is_tried() -> None:
    auto, machine = Auto("none", LEVELS), fast_link()
    (decision,) = machine.run(auto, _auto.FIRST_STEPS + _auto.GATE_STEPS + 100)
    assert (decision.spec, decision.step_s) == ("none", 0.1)
    assert set(machine.used) == {"none"}
    assert decision.predicted == {"one": pytest.approx(0.38), "two": pytest.approx(0.68)}


def test_what_is_predicted_to_gain_but_does_not_is_left() -> None:
    machine = Machine({"none": 1.0, "one": 1.3, "two": 0.985}, busy_s=0.7)
    (decision,) = machine.run(Auto("none", LEVELS), _auto.FIRST_STEPS + MEASUREMENT)
    assert decision.spec == "none"  # 1.5 % are not enough
    assert set(machine.used) == {"none", *LEVELS}


def test_only_what_is_predicted_to_gain_is_tried() -> None:
    machine = slow_link()
    machine.costs["two"] = CodecCost(0.69, 0.7)
    machine.run(Auto("none", LEVELS), _auto.FIRST_STEPS + MEASUREMENT)
    assert set(machine.used) == {"none", "one"}


def test_communication_that_the_backward_pass_hides_gains_nothing() -> None:
    hidden = StepTimes(step_s=1.0, busy_s=0.7, exposed_s=0.01, last_s=0.01)
    assert _auto.predict_step_s(hidden, CodecCost(0.1, 0.5)) == pytest.approx(1.0 - 0.005)
    idle = StepTimes(step_s=1.0, busy_s=0.0, exposed_s=0.0, last_s=0.0)
    assert _auto.predict_step_s(idle, CodecCost(0.1, 0.5)) > 1.0


def test_single_slow_steps_do_not_count() -> None:
    auto, machine = Auto("none", LEVELS), slow_link()
    machine.noise = (5.0 if k % 7 in (0, 3) else 1.0 for k in range(MEASUREMENT))
    (decision,) = machine.run(auto, _auto.FIRST_STEPS + MEASUREMENT)
    assert (decision.spec, decision.step_s) == ("two", 0.8)


def test_a_machine_that_slows_down_slows_all_candidates() -> None:
    auto, machine = Auto("none", LEVELS), slow_link()
    machine.noise = (1.0 + 0.05 * k for k in range(MEASUREMENT))
    (decision,) = machine.run(auto, _auto.FIRST_STEPS + MEASUREMENT)
    assert decision.spec == "two"


def test_of_equal_levels_the_first_is_chosen() -> None:
    machine = Machine({"none": 1.0, "one": 0.8, "two": 0.8}, busy_s=0.7)
    (decision,) = machine.run(Auto("none", LEVELS), _auto.FIRST_STEPS + MEASUREMENT)
    assert decision.spec == "one"


def test_it_is_measured_again_and_the_choice_may_change() -> None:
    auto, machine = Auto("none", LEVELS, every=800), slow_link()
    machine.run(auto, _auto.FIRST_STEPS + MEASUREMENT)
    machine.run(auto, _auto.FIRST_PAUSE)
    assert auto.is_measuring
    machine.seconds, machine.busy_s = fast_link().seconds, 0.005
    (decision,) = machine.run(auto, MEASUREMENT)
    assert (decision.spec, auto.choice) == ("none", "none")
    steps = 800 - (MEASUREMENT - _auto.GATE_STEPS)
    assert machine.run(auto, steps - 1) == []
    assert not auto.is_measuring
    machine.run(auto, 1)
    assert auto.is_measuring


def test_every_0_measures_once() -> None:
    auto, machine = Auto("none", LEVELS, every=0), slow_link()
    assert len(machine.run(auto, 10_000)) == 1


def test_without_candidates_nothing_is_measured() -> None:
    auto = Auto("lossless")
    assert fast_link().run(auto, 100) == []
    assert (auto.spec, auto.has_chosen) == ("lossless", False)


def test_a_failed_step_starts_the_measurement_again() -> None:
    auto, machine = Auto("none", LEVELS), slow_link()
    assert machine.run(auto, _auto.FIRST_STEPS + MEASUREMENT - 1) == []
    auto.begin_again()
    assert auto.spec == "none"
    assert machine.run(auto, MEASUREMENT - 1) == []
    assert machine.run(auto, 1)[0].spec == "two"


def test_an_earlier_choice_is_used_until_it_is_measured_again() -> None:
    auto = Auto("none", LEVELS)
    assert not auto.resume("three")
    assert auto.resume("two")
    machine = slow_link()
    assert machine.run(auto, _auto.FIRST_PAUSE) == []
    assert set(machine.used) == {"two"}
    assert auto.is_measuring
    assert not Auto("none").resume("none")


@pytest.mark.parametrize(
    ("text", "order", "every", "candidates"),
    [
        ("auto", "gloo", 2000, ["none", "lossless(level=1)", "lossless"]),
        ("auto(every=9)", "gloo", 9, ["none", "lossless(level=1)", "lossless"]),
        ("auto", "rank", 2000, ["lossless(coder=stored)", "lossless(level=1)", "lossless"]),
        ("bf16+auto", "gloo", 2000, ["bf16", "bf16+lossless(level=1)", "bf16+lossless"]),
        (
            "fp16 + auto( every = 0 )",
            "rank",
            0,
            ["fp16+lossless(coder=stored)", "fp16+lossless(level=1)", "fp16+lossless"],
        ),
        ("lossless(level=3)", "rank", 0, ["lossless(level=3)"]),
    ],
)
def test_candidates_have_the_same_bits(
    text: str, order: str, every: int, candidates: list[str]
) -> None:
    spec = parse_spec(text)
    assert (spec.every, spec.candidates(order)) == (every, candidates)
    assert parse_spec(spec.text) == spec
    assert {parse_spec(candidate).cast for candidate in candidates} == {spec.cast}


def test_the_probe_takes_pieces_of_the_largest_bucket() -> None:
    probe = Probe()
    assert probe.measure(parse_spec("lossless").compress_options()) is None
    small = Layout(0, "float32", (BucketTensor((30,)),), False)
    large = Layout(1, "float32", (BucketTensor((50, 64)),), True)
    random = torch.Generator().manual_seed(3)
    for layout, elements in [(small, 30), (large, 3200), (small, 30)]:
        probe.offer(layout, "f32", torch.randn(elements, generator=random), 640)
    assert probe.offered_bytes == 4 * 3260
    rates = probe.measure(parse_spec("lossless").compress_options())
    assert rates is not None
    assert 0.5 < rates.size_fraction < 1.1
    assert rates.encode_s > 0
    assert rates.decode_s > 0
    assert list(spread_pieces(((2, 1000), (), (3,)), 100)) == [
        (334, (100,)),
        (1002, (100,)),
        (1670, (100,)),
    ]


# --- on ranks -------------------------------------------------------------------------------------


def make_model() -> Any:
    torch.manual_seed(5)
    layers = nn.Sequential(nn.Linear(40, 160), nn.ReLU(), nn.Linear(160, 80), nn.Linear(80, 10))
    return DistributedDataParallel(layers, bucket_cap_mb=0.02)


def gradients_of_steps(model: Any, rank: int, steps: int) -> list[bytes]:
    found = []
    for step in range(steps):
        x = torch.randn(8, 40, generator=torch.Generator().manual_seed(100 * step + rank))
        model.zero_grad()
        model(x).pow(2).mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
        found += [p.grad.view(torch.uint8).numpy().tobytes() for p in model.parameters()]
    return found


def make_up_times(patch: pytest.MonkeyPatch, state: Any, rank: int, quickest: str) -> list[str]:
    """Let a rank measure what was made up, each rank other numbers; returns the specs in use."""
    tuner, used = state._tuner, []

    def numbers() -> list[int]:
        used.append(tuner.spec.text)
        if not tuner._auto.is_measuring:
            return []
        step_s = (0.8 if tuner.spec.text == quickest else 1.0) + 0.01 * rank
        times = [step_s, -0.7, -0.7, -0.07]
        if tuner.is_gate:
            times += [0.01, 0.8, 0.01, 0.7 + 0.01 * rank]
        return [round(number * _tuner._NANO) for number in times]

    patch.setattr(tuner, "numbers", numbers)
    return used


def check_bits(rank: int, world: int, spec: str, order: str, quickest: str) -> Any:
    reference = make_model()
    if order == "rank" or spec != "auto":
        attach(reference, spec.replace("auto", "lossless(coder=stored)"), order=order)
    expected = gradients_of_steps(reference, rank, 32)
    model = make_model()
    state = attach(model, spec, order=order)
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("gradwire.torch").addHandler(handler)
    logging.getLogger("gradwire.torch").setLevel(logging.INFO)
    with pytest.MonkeyPatch.context() as patch:
        used = make_up_times(patch, state, rank, quickest)
        assert gradients_of_steps(model, rank, 32) == expected
    choice = stats(model).choice
    assert choice is not None
    assert state.state_dict()["choice"] == choice.spec
    return used, choice.spec, choice.reason, choice.predicted_step_ms, lines


CASES = [
    ("auto", "gloo", "lossless(level=1)"),
    ("auto", "gloo", "none"),
    ("auto", "rank", "lossless"),
    ("bf16+auto", "gloo", "bf16+lossless"),
]


@pytest.mark.parametrize(("spec", "order", "quickest"), CASES)
def test_bits_stay_while_candidates_are_tried(spec: str, order: str, quickest: str) -> None:
    first, second = successes(run_ranks(check_bits, 2, spec, order, quickest))
    assert first[:4] == second[:4]
    used, choice, reason = first[:3]
    assert set(used) == set(parse_spec(spec).candidates(order))
    assert used[-3:] == [choice] * 3 == [quickest] * 3
    assert f"{quickest} 8" in reason  # 810 ms: those of the slower rank
    (line,) = first[4]
    assert line.startswith(f"auto: {quickest}, 810.0 ms a step")
    assert second[4] == []


def check_measured(rank: int, world: int) -> Any:
    """With real times: whatever is chosen, all ranks choose the same, and bits are those of DDP."""
    expected = gradients_of_steps(make_model(), rank, 64)
    model = make_model()
    attach(model, "auto(every=1)")
    assert gradients_of_steps(model, rank, 64) == expected
    choice = stats(model).choice
    assert choice is not None
    return choice.spec, choice.reason


@pytest.mark.parametrize("world", [2, 3])
def test_all_ranks_choose_alike_from_what_they_measure(world: int) -> None:
    results = successes(run_ranks(check_measured, world))
    assert len(set(results)) == 1
    assert results[0][1] != "not measured yet"


def check_resumed(rank: int, world: int) -> Any:
    model = make_model()
    state = attach(model, "auto")
    saved = {**state.state_dict(), "choice": "lossless(level=1)"}
    state.load_state_dict(saved)
    gradients_of_steps(model, rank, 5)
    assert stats(model).choice.spec == "lossless(level=1)"
    assert stats(model).choice.measured_step_ms > 0
    assert stats(model).plain_bytes == 0
    state.load_state_dict({**saved, "choice": "none"})  # too late: other ranks may not load it
    assert state.state_dict()["choice"] == "lossless(level=1)"

    model = make_model()
    state = attach(model, "auto")
    if rank == 1:
        state.load_state_dict(saved)
    with pytest.raises(RuntimeError, match=r"auto with none.*auto with lossless\(level=1\)"):
        gradients_of_steps(model, rank, 1)


def test_a_saved_choice_is_taken_over_and_must_be_that_of_all_ranks() -> None:
    successes(run_ranks(check_resumed, 2))


def check_failure(rank: int, world: int) -> Any:
    """A step of the trial fails on one rank: all repeat it, measure anew, and choose alike."""
    model = make_model()
    state = attach(model, "auto")
    with pytest.MonkeyPatch.context() as patch:
        used = make_up_times(patch, state, rank, "lossless")
        gradients_of_steps(model, rank, 12)
        assert state._tuner.spec.method  # in the trial
        with pytest.MonkeyPatch.context() as broken:
            if rank == 1:
                broken.setattr(
                    state, "_judge", lambda _: state._fail(gradwire.CorruptError("harm"))
                )
            with pytest.raises(RuntimeError, match="harm"):
                gradients_of_steps(model, rank, 3)
        state.reset()
        gradients_of_steps(model, rank, MEASUREMENT + 1)
    return used, stats(model).choice.spec


def test_a_failed_trial_is_measured_anew_on_all_ranks() -> None:
    first, second = successes(run_ranks(check_failure, 2))
    assert first == second
    used, choice = first
    assert choice == "lossless"
    assert used[-MEASUREMENT - 1 : -MEASUREMENT + 3] == ["none"] * 4


def check_alone(rank: int, world: int) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADWIRE_DISABLE", "1")
        model = make_model()
        attach(model, "auto")
        gradients_of_steps(model, rank, 9)
        assert stats(model).choice is None
        assert stats(model).original_bytes == 0
    model = make_model()
    state = attach(model, "auto", order="rank")
    gradients_of_steps(model, rank, 9)
    return state.state_dict()["choice"], state.stats().original_bytes


def test_alone_or_switched_off_nothing_is_tried() -> None:
    assert successes(run_ranks(check_alone, 1)) == [("", 0)]


def test_bad_specs_say_what_auto_takes() -> None:
    with pytest.raises(gradwire.ArgumentError, match="every=n"):
        parse_spec("auto(cast=bf16)")
