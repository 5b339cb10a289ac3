"""What a hook's user asks of its state between steps: totals, checkpoints, facts of lossy methods.

In: a state's parts. Out: dictionaries that ``torch.load(weights_only=True)`` reads. Assumes: called
between steps, when no exchange is under way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gradwire import _core
from gradwire.errors import ArgumentError
from gradwire.torch._lossy import LossyMeans
from gradwire.torch._options import Options, is_disabled
from gradwire.torch._stats import Reporting, Stats
from gradwire.torch._tuner import Tuner

_logger = logging.getLogger("gradwire.torch")


class Keeping(Reporting):
    """The part of ``HookState`` that is for its user."""

    options: Options
    _tuner: Tuner
    _lossy: LossyMeans | None

    def stats(self) -> Stats:
        """Return the totals of this rank so far."""
        return replace(self._counters.read(), choice=self._tuner.choice())

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint should hold; ``torch.load(weights_only=True)`` reads it.

        With an exact spec values do not depend on earlier steps: these are the totals of ``stats``,
        the options and what "auto" has chosen, and one rank's serve all. A lossy one keeps what it
        has not sent: "lossy" is that, as bytes in a tensor, and each rank saves its own. While a
        learned one learns, "training" is what rank 0 has come to.
        """
        state: dict[str, Any] = {
            "version": 1,
            "spec": self.options.spec.text,
            "order": self.options.order,
            "choice": self._tuner.saved_choice,
            "stats": self._counters.state_dict(),
        }
        if self._lossy is not None:
            state |= {name: _to_tensor(part) for name, part in self._lossy.save().items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting from a checkpoint, with what "auto" had chosen and what was not sent.

        All ranks load it, each its own, before the first backward pass; later ones keep the choice
        they have. Raises ArgumentError for a version that is unknown, and where one of the two runs
        has a lossy spec that the other one has not; for another number of ranks see
        ``merge_states``.
        """
        if state.get("version") != 1:
            raise ArgumentError(f"state has version {state.get('version')!r}, known is 1")
        self._load_lossy(state)
        self._counters.load_state_dict(state["stats"])
        self._tuner.resume(state.get("choice"))

    def set_keep(self, keep: float | None) -> None:
        """Send this share of the elements, from the next step on; None: what the method says.

        keep: in (0, 1], the same on all ranks, else their next step fails. Methods that send all
        elements do not heed it. Raises ArgumentError for a spec that is not lossy.
        """
        self._need_lossy("set_keep").set_keep(keep)

    def set_learning_rate_ratio(self, ratio: float) -> None:
        """Carry what is kept over to another learning rate, in the next step alone.

        ratio: the last step's rate / the next one's, the same on all ranks, else the step fails.
        Raises ArgumentError for a spec that is not lossy.
        """
        self._need_lossy("set_learning_rate_ratio").set_learning_rate_ratio(ratio)

    @property
    def network(self) -> bytes:
        """Of a learned method (lgc), the network in use; b"" while there is none."""
        return b"" if self._lossy is None else self._lossy.network

    def set_network(self, network: bytes) -> None:
        """Give a learned method (lgc) a network, such as another run's ``network``.

        All ranks call it between the same steps, with the same bytes. Learning ends. Raises an
        error for bytes that are no network, ArgumentError for a spec that learns none; nothing is
        changed then.
        """
        self._need_lossy("set_network").set_network(network)

    def _need_lossy(self, call: str) -> LossyMeans:
        if self._lossy is None:
            raise ArgumentError(f"{call}: spec {self.options.spec.text!r} is not lossy")
        return self._lossy

    def _load_lossy(self, state: dict[str, Any]) -> None:
        saved = state.get("lossy")
        if self._lossy is not None and saved is not None:
            names = ("lossy", "training")
            self._lossy.load(
                {name: _to_bytes(name, state[name]) for name in names if name in state}
            )
        elif saved is not None and is_disabled():
            _logger.warning("GRADWIRE_DISABLE: what %s has not sent is dropped", state.get("spec"))
        elif self._lossy is not None or saved is not None:
            raise ArgumentError(
                f"state: it is of {state.get('spec')!r}, this run's spec is "
                f"{self.options.spec.text!r}; what a lossy method has not sent needs that method"
            )


def merge_states(states: Sequence[dict[str, Any]], rank: int, world: int) -> dict[str, Any]:
    """Make a rank's state for another number of ranks from those of all ranks before, in order.

    states: what ``state_dict`` of a lossy spec gave on ranks 0, 1, ... The sum over all ranks of
    what has not been sent stays what it was; totals are those of one of the ranks before. Returns
    what rank ``rank`` of ``world`` is to load. Raises ArgumentError where states are of different
    steps or specs, out of order, or not lossy.
    """
    if not states or any("lossy" not in state for state in states):
        raise ArgumentError("merge_states takes the states of all ranks of one lossy run, in order")
    merged = _core.LossyState.merge(
        [_to_bytes("lossy", state["lossy"]) for state in states], rank, world
    )
    return {**states[rank % len(states)], "lossy": _to_tensor(merged)}


def _to_tensor(state: bytes) -> Any:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


def _to_bytes(name: str, tensor: Any) -> bytes:
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.uint8:
        raise ArgumentError(f"state: {name!r} must be the tensor of bytes that state_dict gave")
    return bytes(tensor.cpu().numpy())
