"""The choice of the spec "auto", as pure logic: numbers of each step in, the next step's spec out.

In: step times, joined over ranks; at a gate what the codec would take. Out: the spec of the next
step, and a ``Decision`` at the end of each measurement. Assumes: all ranks give the same numbers,
so that all choose alike; candidates give the bits of the baseline, so that trying costs time only.

A measurement: some steps of the baseline; the gate, which lets pass what is predicted to gain; then
the baseline and those in turns, so that a drift of the machine's speed meets all of them alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FIRST_STEPS = 3  #: left alone: DDP makes its buckets anew after the first one
GATE_STEPS = 4  #: of the baseline before the gate; the first one does not count
TRIAL_STEPS = 6  #: of each spec after it; the first one does not count
FIRST_PAUSE = 500  #: steps until the second measurement; then ``every``
TRIED_GAIN = 0.03  #: of the step: what must be predicted for a candidate to be tried
KEPT_GAIN = 0.02  #: of the step: what must be measured for it to be chosen


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one step, joined over ranks."""

    step_s: float  #: from the end of the step before to the end of this one
    busy_s: float = 0.0  #: communication
    exposed_s: float = 0.0  #: from the arrival of the last bucket to the step's end
    last_s: float = 0.0  #: communication of the last bucket


@dataclass(frozen=True)
class CodecCost:
    """What a candidate would take for all buckets of a step."""

    codec_s: float  #: encoding and decoding
    size_fraction: float  #: bytes that it sends by those that the baseline sends


@dataclass(frozen=True)
class Decision:
    """What a measurement has come to."""

    spec: str
    reason: str
    step_s: float  #: as measured with this spec
    baseline_s: float  #: and with the baseline
    predicted: Mapping[str, float]  #: by candidate, as the gate saw them

    @property
    def predicted_s(self) -> float:
        """What the gate expected of a step with this spec."""
        return self.predicted.get(self.spec, self.baseline_s)

    def gain(self, step_s: float) -> float:
        """The share of the baseline's step by which another one is shorter."""
        return 1 - step_s / self.baseline_s if self.baseline_s else 0.0


class Auto:
    """Chooses between a baseline and candidates; without candidates it is the baseline."""

    def __init__(self, baseline: str, candidates: Sequence[str] = (), every: int = 2000) -> None:
        """every: steps between measurements, 0 for one only."""
        self._baseline = baseline
        self._candidates = tuple(candidates)
        self._every = every
        self._choice = baseline
        self._has_chosen = False
        self._pause: int | None = FIRST_STEPS if candidates else None  # None: for ever
        self._plan: list[str] = []  # specs of the steps to be measured
        self._is_trial = False
        self._seen: dict[str, list[StepTimes]] = {}
        self._predicted: dict[str, float] = {}
        self._first_pause = min(FIRST_PAUSE, every)

    @property
    def spec(self) -> str:
        """Of the next step, or of the one that is being made."""
        return self._plan[0] if self._plan else self._choice

    @property
    def choice(self) -> str:
        """What is used between measurements."""
        return self._choice

    @property
    def has_chosen(self) -> bool:
        """Tell whether the choice has been measured, here or in an earlier run."""
        return self._has_chosen

    @property
    def candidates(self) -> tuple[str, ...]:
        return self._candidates

    @property
    def is_measuring(self) -> bool:
        """Tell whether the step's times are asked for."""
        return bool(self._plan)

    @property
    def is_gate(self) -> bool:
        """Tell whether costs of the codec are asked for, too."""
        return not self._is_trial and len(self._plan) == 1

    def line(self) -> str:
        """Where this is in its course, for ranks to compare."""
        place = (
            f"step {len(self._plan)} before the end of a measurement" if self._plan else "chosen"
        )
        return f"auto with {self.spec}, {place}, a pause of {self._pause} (from a loaded state?)"

    def resume(self, choice: str) -> bool:
        """Begin with a choice of an earlier run; False for one that is none here."""
        if choice not in (self._baseline, *self._candidates) or not self._candidates:
            return False
        self._settle(choice)
        return True

    def end_step(
        self, times: StepTimes | None, costs: Mapping[str, CodecCost] | None
    ) -> Decision | None:
        """End a step. times, costs: given where they were asked for."""
        if not self._plan:
            self._wait()
            return None
        assert times is not None
        self._seen.setdefault(self._plan.pop(0), []).append(times)
        if self._plan:
            return None
        if self._is_trial:
            return self._decide()
        return self._gate(costs or {})

    def begin_again(self) -> None:
        """A step has failed: what was measured around it does not count."""
        if self._plan:
            self._begin()

    def _wait(self) -> None:
        if self._pause is None:
            return
        self._pause -= 1
        if self._pause <= 0:
            self._begin()

    def _begin(self) -> None:
        self._is_trial = False
        self._seen, self._predicted = {}, {}
        self._plan = [self._baseline] * GATE_STEPS

    def _gate(self, costs: Mapping[str, CodecCost]) -> Decision | None:
        base = self._median(self._baseline)
        self._predicted = {spec: predict_step_s(base, cost) for spec, cost in costs.items()}
        limit = base.step_s * (1 - TRIED_GAIN)
        tried = [spec for spec in self._candidates if self._predicted.get(spec, limit) < limit]
        if not tried:
            self._settle(self._baseline)
            return self._decision("nothing is predicted to gain enough", base.step_s, base.step_s)
        self._is_trial, self._seen = True, {}
        self._plan = [self._baseline, *tried] * TRIAL_STEPS
        return None

    def _decide(self) -> Decision:
        measured = {spec: self._median(spec).step_s for spec in self._seen}
        base = measured[self._baseline]
        best = min(measured, key=measured.__getitem__)  # of equal ones the first
        if measured[best] > base * (1 - KEPT_GAIN):
            best = self._baseline
        self._settle(best)
        found = ", ".join(f"{spec} {1e3 * step_s:.1f} ms" for spec, step_s in measured.items())
        return self._decision(f"measured {found}", measured[best], base)

    def _decision(self, reason: str, step_s: float, baseline_s: float) -> Decision:
        return Decision(self._choice, reason, step_s, baseline_s, dict(self._predicted))

    def _settle(self, choice: str) -> None:
        self._choice, self._has_chosen = choice, True
        self._plan, self._is_trial = [], False
        pause, self._first_pause = self._first_pause or self._every, 0
        self._pause = pause or None

    def _median(self, spec: str) -> StepTimes:
        counted = self._seen[spec][1:]
        return StepTimes(
            statistics.median(times.step_s for times in counted),
            statistics.median(times.busy_s for times in counted),
            statistics.median(times.exposed_s for times in counted),
            statistics.median(times.last_s for times in counted),
        )


def predict_step_s(base: StepTimes, cost: CodecCost) -> float:
    """Predict the step of a candidate from steps of the baseline.

    Coding and the link work side by side, so the slower one counts. What is gained cannot be more
    than what communication takes less, nor than the backward pass was waited for: of the time after
    the last bucket's arrival its own communication stays. What coding takes from the backward pass
    is not counted: that is measured.
    """
    busy_s = max(cost.codec_s, cost.size_fraction * base.busy_s)
    last_s = base.last_s * busy_s / base.busy_s if base.busy_s else busy_s
    return base.step_s - min(base.busy_s - busy_s, base.exposed_s - last_s)
