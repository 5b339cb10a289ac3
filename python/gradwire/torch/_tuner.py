"""The spec in use, and what must be measured on this rank to choose it.

In: the buckets of each step and when they came and went. Out: numbers to join over all ranks by
their maximum, and the spec of the next step, the same on all ranks. Assumes: called by one
thread at a time. A spec other than "auto" stays as it is, and nothing is measured for it.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from typing import Any

from gradwire.dtypes import parse_dtype
from gradwire.torch._auto import Auto, CodecCost, Decision, StepTimes
from gradwire.torch._layout import Layout
from gradwire.torch._options import Options
from gradwire.torch._probe import Probe
from gradwire.torch._spec import Spec, parse_spec
from gradwire.torch._stats import Choice

_logger = logging.getLogger("gradwire.torch")
_KEPT_TIMES = 101  # of steps, for the median that stats() gives
_NANO = 10**9
_NEVER_S = 1e6  # the cost of a candidate where there is nothing to code


class Tuner:
    """Keeps the spec in use; it changes at the end of a step only."""

    def __init__(self, options: Options, rank: int, world: int) -> None:
        self._options = options
        self._rank, self._world = rank, world
        candidates = options.spec.candidates(options.order if world > 1 else "gloo")
        self._specs = {text: parse_spec(text) for text in candidates}
        self._auto = Auto(candidates[0], candidates[1:] if world > 1 else [], options.spec.every)
        self._spec = self._specs[self._auto.spec]
        self._decision: Decision | None = None
        self._times: deque[float] = deque(maxlen=_KEPT_TIMES)  # since the decision
        self._probe = Probe()
        self._ended: tuple[float, float] | None = None  # before and after ranks have joined
        self._busy_s = self._last_s = self._last_came = 0.0
        self._step_s: float | None = None
        self._has_stepped = False

    @property
    def spec(self) -> Spec:
        """Of the step that is being made."""
        return self._spec

    @property
    def is_measuring(self) -> bool:
        """Tell whether ranks join numbers at the end of this step."""
        return self._auto.is_measuring

    @property
    def is_gate(self) -> bool:
        """Tell whether buckets of this step are to be offered."""
        return self._auto.is_gate

    @property
    def saved_choice(self) -> str:
        """What a checkpoint holds; "" before there is a choice."""
        return self._auto.choice if self._auto.has_chosen else ""

    def lines(self) -> list[str]:
        """What ranks compare when they compare buckets."""
        return [self._auto.line()] if self._options.spec.is_auto else []

    def choice(self) -> Choice | None:
        """What ``stats()`` shows; None for a spec that is fixed."""
        if not self._options.spec.is_auto:
            return None
        times, decision = list(self._times), self._decision
        return Choice(
            self._auto.choice,
            decision.reason if decision else "not measured yet",
            1e3 * decision.predicted_s if decision else 0.0,
            1e3 * statistics.median(times) if times else 0.0,
        )

    def resume(self, choice: object) -> None:
        """Begin with the choice of an earlier run; without effect once a step has been made."""
        if not self._has_stepped and isinstance(choice, str) and self._auto.resume(choice):
            self._spec = self._specs[self._auto.spec]

    # --- in a step --------------------------------------------------------------------------------

    def offer(self, layout: Layout, buffer: Any) -> None:
        """Show a bucket of a gate step before it is added."""
        dtype = parse_dtype(buffer.dtype)
        self._probe.offer(layout, dtype, buffer, self._options.piece_of(dtype))

    def note_bucket(self, came: float, seconds: float) -> None:
        """A bucket has been added. came: when DDP handed it over, on the monotonic clock."""
        self._busy_s += seconds
        if came >= self._last_came:  # buckets that go side by side may end in another order
            self._last_came, self._last_s = came, seconds

    # --- at its end -------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """What to join over the ranks by maximum; nothing in steps that are not measured.

        Of times that a rank spends waiting for others the smallest counts: whoever comes last does
        not wait, and sees what the link takes.
        """
        now = time.monotonic()
        self._step_s = self._since_the_last(now)
        if not self._auto.is_measuring:
            return []
        times = [self._step_s or 0.0, -self._busy_s, self._last_came - now, -self._last_s]
        if self._auto.is_gate:
            times += [number for spec in self._auto.candidates for number in self._cost(spec)]
        return [round(number * _NANO) for number in times]

    def end_step(self, joined: list[int], ended: float, has_failed: bool) -> None:
        """End a step. joined: ``numbers`` of all ranks; ended: when their joining began."""
        if self._auto.is_gate:
            self._probe = Probe()
        if has_failed:
            self._auto.begin_again()
        else:
            self._decide([number / _NANO for number in joined])
        self._spec = self._specs[self._auto.spec]
        self._busy_s = self._last_s = 0.0
        self._ended = None if has_failed else (ended, time.monotonic())
        self._has_stepped = True

    def _since_the_last(self, now: float) -> float | None:
        """Seconds of this step, with one joining of ranks where the spec has one in each step."""
        if self._ended is None:
            return None
        return now - self._ended[0 if self._spec.method else 1]

    def _decide(self, joined: list[float]) -> None:
        times = costs = None
        if joined:
            times = StepTimes(joined[0], -joined[1], -joined[2], -joined[3])
            costs = self._costs(joined[4:])
        elif self._step_s is not None:
            self._times.append(self._step_s)
        decision = self._auto.end_step(times, costs)
        if decision is None:
            return
        self._decision = decision
        self._times.clear()
        if self._rank == 0:
            _log(decision)

    def _cost(self, text: str) -> tuple[float, float]:
        """Seconds of coding all of a step, and the size fraction; never, where nothing is coded."""
        rates = self._probe.measure(self._specs[text].compress_options())
        if rates is None:
            return _NEVER_S, 1.0
        decoded, traffic = _amounts(self._options.way(self._world), self._world)
        codec_s = self._probe.offered_bytes * (rates.encode_s + decoded * rates.decode_s)
        return codec_s, traffic * rates.size_fraction

    def _costs(self, joined: list[float]) -> dict[str, CodecCost]:
        pairs = zip(joined[::2], joined[1::2], strict=True)
        return {
            text: CodecCost(*pair)
            for text, pair in zip(self._auto.candidates, pairs, strict=False)  # none but at a gate
            if pair[0] < _NEVER_S
        }


def _amounts(way: str, world: int) -> tuple[float, float]:
    """What a rank decodes by what it encodes, and what it sends by what Gloo's ring sends."""
    if way == "gather_merge":
        return world - 1.0, world / 2
    return 2 * (world - 1) / world, 1.0


def _log(decision: Decision) -> None:
    predicted = ", ".join(
        f"{t} {100 * decision.gain(s):+.1f} %" for t, s in decision.predicted.items()
    )
    _logger.info(
        "auto: %s, %.1f ms a step, gains %.1f %%: %s; predicted gains: %s",
        decision.spec,
        1e3 * decision.step_s,
        100 * decision.gain(decision.step_s),
        decision.reason,
        predicted or "none, nothing can be coded",
    )
