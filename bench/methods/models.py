"""The two models of the study of methods, on real data that every machine has.

In: a name, a seed, a fold, the number of logical ranks. Out: a Task: a model, its batches in an
order that the seed decides, and the final metrics. Assumes: PyTorch; scikit-learn for ``digits``.

``digits``: a convolutional net of 1.2 million parameters, 87 % of them in one dense layer, without
normalisation: a batch norm would tie a sample's gradient to its rank's batch. Of all 1,797 pictures
a fold tests a fifth.
``gpt``: a byte GPT of 0.83 million parameters on the sources of Python's standard library, files in
the order of their names; every tenth file is for the test. It has one fold.
"""

from __future__ import annotations

import pathlib
import sysconfig
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from torch.nn import functional

FOLDS = 5
LENGTH = 64  #: bytes that the GPT sees
GPT_EPOCH_STEPS = 40  #: it has no epochs of its own: schedules count in these

_FOLD_SEED = 1797  #: the folds are the same for all seeds, so that runs can be paired
_TEXT_BYTES = 4_000_000
_TEST_EVERY = 10
_TEST_WINDOWS = 512


class Batch(NamedTuple):
    """What one rank trains on in a step."""

    inputs: Any
    targets: Any


class Task(Protocol):
    """A model with its data."""

    model: nn.Module
    epoch_steps: int

    def batches(self, epoch: int) -> Iterator[list[Batch]]:
        """Yield, step by step, a batch for each rank: shards of one global batch."""
        ...

    def loss(self, batch: Batch) -> Any:
        """Return the mean loss of a batch."""
        ...

    def test(self) -> dict[str, float]:
        """Return the metrics over the test part; "loss" is one of them."""
        ...


def make(name: str, *, seed: int, fold: int, ranks: int, rank_batch: int) -> Task:
    """Return a task whose weights and batches depend on the arguments only."""
    if name == "digits":
        return Digits(seed, fold, ranks, rank_batch)
    if name == "gpt":
        return Text(seed, ranks, rank_batch)
    raise ValueError(f"model: {name!r} given, digits or gpt allowed")


def fold_parts(count: int, fold: int) -> tuple[Any, Any]:
    """Return indices of the training and of the test part; test parts of all folds are a cover."""
    if not 0 <= fold < FOLDS:
        raise ValueError(f"fold: {fold} given, 0 to {FOLDS - 1} allowed")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(_FOLD_SEED))
    is_test = torch.arange(count) % FOLDS == fold
    return order[~is_test], order[is_test]


# --- digits ---------------------------------------------------------------------------------------


class Digits:
    """A convolutional net on scikit-learn's pictures of digits."""

    def __init__(self, seed: int, fold: int, ranks: int, rank_batch: int) -> None:
        from sklearn.datasets import load_digits

        data = load_digits()
        self._pictures = torch.tensor(data.images, dtype=torch.float32).div(16).unsqueeze(1)
        self._labels = torch.tensor(data.target)
        self._train, self._test = fold_parts(len(self._labels), fold)
        self._ranks, self._rank_batch, self._seed = ranks, rank_batch, seed
        self.epoch_steps = len(self._train) // (ranks * rank_batch)
        torch.manual_seed(seed)
        self.model = nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 128), nn.ReLU()),
            nn.Linear(128, 10),
        )
        for parameter in self.model.parameters():
            if parameter.dim() > 1:
                nn.init.kaiming_normal_(parameter, nonlinearity="relu")

    def batches(self, epoch: int) -> Iterator[list[Batch]]:
        order = torch.Generator().manual_seed(1000 * self._seed + epoch)
        shuffled = self._train[torch.randperm(len(self._train), generator=order)]
        of_step = self._ranks * self._rank_batch
        for step in range(self.epoch_steps):
            which = shuffled[step * of_step : (step + 1) * of_step].view(self._ranks, -1)
            yield [Batch(self._pictures[rank], self._labels[rank]) for rank in which]

    def loss(self, batch: Batch) -> Any:
        return functional.cross_entropy(self.model(batch.inputs), batch.targets)

    @torch.no_grad()
    def test(self) -> dict[str, float]:
        guesses, labels = self.model(self._pictures[self._test]), self._labels[self._test]
        return {
            "loss": functional.cross_entropy(guesses, labels).item(),
            "accuracy": (guesses.argmax(1) == labels).double().mean().item(),
        }


# --- byte GPT -------------------------------------------------------------------------------------


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Any) -> Any:
        shape = (*x.shape[:2], self.heads, -1)
        parts = self.qkv(self.before_attention(x)).chunk(3, dim=-1)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.before_mlp(x))))


class _Gpt(nn.Module):
    def __init__(self, width: int = 128, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, text: Any) -> Any:
        x = self.token(text) + self.place.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.token.weight)  # tied


def text_parts() -> tuple[Any, Any]:
    """Return the bytes for training and for the test."""
    files = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    parts = []
    for is_test in (False, True):
        chosen = [f for i, f in enumerate(files) if (i % _TEST_EVERY == 0) == is_test]
        data = b"".join(file.read_bytes() for file in chosen)[:_TEXT_BYTES]
        parts.append(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return parts[0], parts[1]


class Text:
    """A byte GPT on Python's own sources."""

    epoch_steps = GPT_EPOCH_STEPS

    def __init__(self, seed: int, ranks: int, rank_batch: int) -> None:
        self._train, self._test = text_parts()
        self._ranks, self._rank_batch, self._seed = ranks, rank_batch, seed
        torch.manual_seed(seed)
        self.model = _Gpt()

    def batches(self, epoch: int) -> Iterator[list[Batch]]:
        generator = torch.Generator().manual_seed(1000 * self._seed + epoch)
        for _ in range(self.epoch_steps):
            starts = torch.randint(
                0,
                len(self._train) - LENGTH - 1,
                (self._ranks, self._rank_batch),
                generator=generator,
            )
            yield [_windows(self._train, rank) for rank in starts]

    def loss(self, batch: Batch) -> Any:
        return functional.cross_entropy(
            self.model(batch.inputs).flatten(0, 1), batch.targets.flatten()
        )

    @torch.no_grad()
    def test(self) -> dict[str, float]:
        starts = torch.linspace(0, len(self._test) - LENGTH - 1, _TEST_WINDOWS).long()
        parts = [_windows(self._test, part) for part in starts.chunk(8)]
        return {"loss": sum(self.loss(part).item() for part in parts) / len(parts)}


def _windows(text: Any, starts: Any) -> Batch:
    rows = text[starts.unsqueeze(1) + torch.arange(LENGTH + 1)].long()
    return Batch(rows[:, :-1], rows[:, 1:])
