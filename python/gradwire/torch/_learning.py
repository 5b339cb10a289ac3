"""A learned method's network (lgc): trained on rank 0 while steps go on, then given to all ranks.

In: the samples that steps leave in a state. Out: its network, the same on all ranks. Assumes: the
thread that makes all collectives of the group calls it; all ranks have seen the same steps.

Training that fails is an error of the step that follows, in which all ranks take part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradwire import _core
from gradwire.errors import ArgumentError, GradwireError
from gradwire.torch._autoencoder import Widths
from gradwire.torch._trainer import AutoencoderTrainer
from gradwire.torch._transport import Transport

_WIDTHS = Widths()
_FINE, _FAILED = 0, 1  # what the first byte of a network's message says of the rest


class Learning:
    """What is between a state that wants a network and having one; methods that do not learn
    want none."""

    def __init__(self, state: _core.LossyState, transport: Transport) -> None:
        self._state = state
        self._transport = transport
        self._trainer: AutoencoderTrainer | None = None  # of rank 0
        self._error: GradwireError | None = None

    def save(self) -> bytes:
        """Return what rank 0's training has come to; nothing without a training."""
        if self._trainer is None or not self._state.wants_samples:
            return b""
        return self._trainer.state()

    def load(self, state: bytes) -> None:
        """Go on with a training of rank 0's; other ranks ignore it."""
        self._trainer = None
        if state and self._is_teacher and self._state.wants_samples:
            self._trainer = self._new_trainer()
            self._trainer.load(state)

    def take_error(self) -> GradwireError | None:
        """What the step that begins is to fail with; told once."""
        error, self._error = self._error, None
        return error

    def end_step(self, *, applied: bool) -> None:
        """Learn from a step, and give all ranks the network when it is time.

        applied: all ranks use the step's means. Raises CollectiveError.
        """
        if not self._state.wants_samples:
            self._trainer = None
            return
        samples = self._state.take_samples()
        if not applied:
            return
        if self._is_teacher:
            self._learn(samples)
        if self._state.wants_network:
            self._hand_over()

    @property
    def _is_teacher(self) -> bool:
        return self._transport.peers.rank == 0

    def _new_trainer(self) -> AutoencoderTrainer:
        return AutoencoderTrainer(self._state.learns_ring, widths=_WIDTHS)

    def _learn(self, samples: list[tuple[int, Any]]) -> None:
        try:
            if self._trainer is None:
                self._trainer = self._new_trainer()
            self._trainer.learn(samples)
        except Exception as error:  # of PyTorch's, too: other ranks must hear of it
            self._error = _failure(f"{type(error).__name__}: {error}")

    def _hand_over(self) -> None:
        """Give rank 0's network, or what it has failed with, to all ranks."""
        message = torch.zeros(1 + _WIDTHS.network_bytes(), dtype=torch.uint8)
        if self._is_teacher:
            self._write(message.numpy())
        self._transport.broadcast(message)
        self._transport.take_wait_s()
        said, rest = int(message[0]), message[1:].numpy().tobytes()
        if said != _FINE:
            self._error = ArgumentError(rest.rstrip(b"\0").decode(errors="replace"))
            return
        try:
            self._state.set_network(rest)
        except GradwireError as error:  # the same on all ranks
            self._error = _failure(str(error))
        else:
            self._trainer = None

    def _write(self, message: Any) -> None:
        said, rest = _FINE, b""
        try:
            if self._error is None and self._trainer is not None:
                rest = self._trainer.network()
        except Exception as error:
            self._error = _failure(f"{type(error).__name__}: {error}")
        if self._error is not None:
            said, rest = _FAILED, str(self._error).encode()[: len(message) - 1]
        message[0] = said
        message[1 : 1 + len(rest)] = np.frombuffer(rest, np.uint8)


def _failure(cause: str) -> ArgumentError:
    return ArgumentError(
        f"rank 0 could not train the network of a learned method ({cause}); give one to all ranks "
        "with state.set_network(bytes), or take another method"
    )
