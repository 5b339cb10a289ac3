"""Training of the network of learned compression (lgc), step by step.

In: samples of a step, one a bucket: the values of all ranks at the leader's places. Out: a trained
network as bytes. Assumes: one thread at a time, any grad mode. The same samples give the same bytes
on a machine with as many threads; no random state of the user's is drawn from.

The losses are those of Abrahamyan et al. 2021 (LGC). Theirs is one step of plain SGD a sample,
which learns next to nothing in the 300 steps that there are: this takes Adam, several times a step,
and goes back to blocks of earlier steps.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from gradwire.errors import ArgumentError
from gradwire.torch._autoencoder import Autoencoder, Widths

BLOCK_VALUES = 1024  #: coded together, by the C++ library too

_UPDATE_VALUES = 16 * BLOCK_VALUES  # of all ranks, that an update looks at
_MEMORY_VALUES = 2**20


class Block(NamedTuple):
    """Values of all ranks, (world, length), at neighbouring places of one leader."""

    leader: int
    values: Any


class AutoencoderTrainer:
    """An autoencoder, its optimizer, and blocks of the last steps."""

    def __init__(
        self,
        ring: bool,
        *,
        seed: int = 0,
        rate: float = 3e-3,
        passes: int = 4,
        widths: Widths | None = None,
    ) -> None:
        """ring: the mean of all ranks' codes is to be decoded; else the leader's code, for all.

        passes: updates a step.
        """
        self._loss = ring_loss if ring else server_loss
        self._passes = passes
        self._network = Autoencoder(widths, seed=seed)
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=rate, foreach=False)
        self._memory: list[Block] = []
        self._random = torch.Generator(device="cpu").manual_seed(seed)

    def learn(self, samples: Sequence[tuple[int, Any]]) -> float:
        """Learn from a step's samples; returns the mean loss of its updates, 0.0 without samples.

        samples: pairs of a leader and float32 (world, places), divided by the root mean square of
        the leader's; not modified. What it costs does not grow with them. Raises ArgumentError
        where values or a loss are not finite; an update with such a loss is not made.
        """
        unit = 2**self._network.widths.halvings
        for leader, values in samples:
            self._memory += blocks_of(leader, values, unit)
        self._forget()
        if not self._memory:
            return 0.0
        losses = [self._update() for _ in range(self._passes)]
        return sum(losses) / len(losses)

    def network(self) -> bytes:
        """Return the network as it is now, for ``LossyState.set_network``."""
        return self._network.to_bytes()

    def state(self) -> bytes:
        """Return all that later updates depend on."""
        parts = {
            "network": self._network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "memory": [tuple(block) for block in self._memory],
            "random": self._random.get_state(),
        }
        file = io.BytesIO()
        torch.save(parts, file)
        return file.getvalue()

    def load(self, state: bytes) -> None:
        """Go on as the trainer that ``state`` is of. Raises ArgumentError for other bytes."""
        try:
            parts = torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
            self._network.load_state_dict(parts["network"])
            self._optimizer.load_state_dict(parts["optimizer"])
            self._memory = [Block(*block) for block in parts["memory"]]
            self._random.set_state(parts["random"])
        except Exception as error:  # unpickling raises many kinds
            raise ArgumentError(f"training state: {type(error).__name__}: {error}") from error

    def _forget(self) -> None:
        """Keep the latest blocks."""
        held = 0
        for i, block in enumerate(reversed(self._memory)):
            held += block.values.numel()
            if held > _MEMORY_VALUES and i > 0:
                del self._memory[: len(self._memory) - i]
                return

    def _update(self) -> float:
        leaders, values = self._draw()
        with torch.enable_grad():
            loss = self._loss(self._network, leaders, values)
            self._optimizer.zero_grad()
            loss.backward()
        if not math.isfinite(loss.item()):
            raise ArgumentError(f"the loss is {loss.item()}: the values are far from 1")
        self._optimizer.step()
        return float(loss.item())

    def _draw(self) -> tuple[Any, Any]:
        """Draw blocks of one shape: leaders (n), values (n, world, length)."""
        sizes = torch.tensor([float(block.values.numel()) for block in self._memory])
        first = self._memory[int(torch.multinomial(sizes, 1, generator=self._random))]
        like = [block for block in self._memory if block.values.shape == first.values.shape]
        n = max(1, _UPDATE_VALUES // first.values.numel())
        order = torch.randperm(len(like), generator=self._random)[:n]
        drawn = [like[int(i)] for i in order]
        leaders = torch.tensor([block.leader for block in drawn])
        return leaders, torch.stack([block.values for block in drawn])


def blocks_of(leader: int, values: Any, unit: int) -> list[Block]:
    """Cut a sample into the blocks that are coded.

    A shorter one at the end, padded to a multiple of ``unit``, is left out behind whole ones.
    Raises ArgumentError for values that are not finite.
    """
    values = np.asarray(values, np.float32)
    if not np.isfinite(values).all():
        raise ArgumentError("a value to learn from is not finite")
    places = values.shape[1]
    if places < BLOCK_VALUES:
        padded = np.pad(values, ((0, 0), (0, -places % unit)))
        return [Block(leader, torch.from_numpy(padded))] if places else []
    whole = values[:, : places // BLOCK_VALUES * BLOCK_VALUES]
    return [
        Block(leader, torch.from_numpy(block.copy()))
        for block in np.split(whole, places // BLOCK_VALUES, axis=1)
    ]


def ring_loss(network: Autoencoder, _leaders: Any, values: Any) -> Any:
    """How far the decoded mean of all ranks' codes is from the mean of their values."""
    decoded = network.decode(_codes(network, values).mean(1))
    return functional.mse_loss(decoded.squeeze(1), values.mean(1))


def server_loss(network: Autoencoder, leaders: Any, values: Any) -> Any:
    """How far the decoded code of the leader is from all ranks' values, and codes are apart."""
    codes = _codes(network, values)
    world = codes.shape[1]
    decoded = network.decode(codes[torch.arange(len(leaders)), leaders])
    # The mean over pairs of ranks is that of distances from the mean, but for a factor.
    apart = 2 * world / max(world - 1, 1) * (codes - codes.mean(1, keepdim=True)).square().mean()
    return 0.5 * (decoded - values).square().mean() + 0.5 * apart


def _codes(network: Autoencoder, values: Any) -> Any:
    """Codes (n, world, channels, positions) of values (n, world, length)."""
    codes = network.encode(values.flatten(0, 1).unsqueeze(1))
    return codes.unflatten(0, values.shape[:2])
