"""The two models that the demo trains, on real data that is there after `make setup`.

In: a name. Out: a module and a function that makes its loss for one random batch. Assumes: PyTorch,
scikit-learn. ``digits``: a convolutional net in float32 on scikit-learn's pictures of digits.
``gpt``: a byte GPT on this project's documentation, under bfloat16 autocast.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

DOCS = Path(__file__).resolve().parent.parent / "docs"
LENGTH = 64  #: bytes that the GPT sees

Loss = Callable[[Any, Any], Any]  #: of a model and a generator


def make(name: str, seed: int = 0) -> tuple[nn.Module, Loss]:
    """Return a model with the weights of a seed, and its loss."""
    torch.manual_seed(seed)
    return {"digits": _digits, "gpt": _gpt}[name]()


def _digits() -> tuple[nn.Module, Loss]:
    from sklearn.datasets import load_digits

    data = load_digits()
    pictures = torch.tensor(data.images, dtype=torch.float32).div(16).unsqueeze(1)
    labels = torch.tensor(data.target)

    def loss(model: Any, generator: Any) -> Any:
        which = torch.randint(0, len(labels), (32,), generator=generator)
        return functional.cross_entropy(model(pictures[which]), labels[which])

    return nn.Sequential(*_convolutions(), nn.Flatten(), nn.Linear(1024, 10)), loss


def _convolutions() -> list[nn.Module]:
    """8 x 8 pixels to 256 maps of 2 x 2."""
    layers: list[nn.Module] = []
    inputs = 1
    for outputs in (64, 128, 256):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
        if inputs > 1:
            layers.append(nn.MaxPool2d(2))
        inputs = outputs
    return layers


class _Gpt(nn.Module):
    def __init__(self, width: int = 128, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(LENGTH, width)
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True, "activation": "gelu"}
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, **options)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256, bias=False)

    def forward(self, text: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        x = self.token(text) + self.place.weight[: text.shape[1]]
        return self.head(self.blocks(x, mask=mask, is_causal=True))


def _gpt() -> tuple[nn.Module, Loss]:
    text = b"".join(path.read_bytes() for path in sorted(DOCS.glob("*.md")))
    symbols = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    def loss(model: Any, generator: Any) -> Any:
        starts = torch.randint(0, len(symbols) - LENGTH - 1, (2,), generator=generator)
        rows = torch.stack([symbols[i : i + LENGTH + 1] for i in starts.tolist()]).long()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            guesses = model(rows[:, :-1])
        return functional.cross_entropy(guesses.flatten(0, 1).float(), rows[:, 1:].flatten())

    return _Gpt(), loss
