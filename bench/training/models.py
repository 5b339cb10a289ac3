"""The models that the training benchmark trains, on real data that every machine has.

In: a name and a kind of numbers. Out: a module and a function that makes its loss for one batch.
Assumes: PyTorch, scikit-learn. ``gpt`` is a byte GPT of 5 million parameters on the sources of
Python's standard library; ``resnet18`` has the shape of CIFAR's, on crops of two photographs.
"""

from __future__ import annotations

import pathlib
import sysconfig
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Loss = Callable[[Any, Any], Any]  #: of a model and a generator

_TEXT_BYTES = 4_000_000
_LENGTH = 192
_BANDS = 5  #: of each photograph, told apart by the model


def make(name: str, numbers: str, batch: int, seed: int = 0) -> tuple[nn.Module, Loss]:
    """numbers: "f32", "amp" (float32 weights, bfloat16 autocast), "bf16" (all of it)."""
    torch.manual_seed(seed)
    model, loss = {"gpt": _gpt, "resnet18": _resnet18}[name](batch)
    if numbers == "bf16":
        model = model.to(torch.bfloat16)
    if numbers == "amp":
        return model, lambda m, g: _autocast(loss, m, g)
    return model, loss


def _autocast(loss: Loss, model: Any, generator: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return loss(model, generator)


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
    def __init__(self, width: int = 320, layers: int = 4, heads: int = 5) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(_LENGTH, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, text: Any) -> Any:
        x = self.token(text) + self.place.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _text() -> Any:
    files = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    data = b"".join(file.read_bytes() for file in files)[:_TEXT_BYTES]
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _gpt(batch: int) -> tuple[nn.Module, Loss]:
    text = _text()

    def loss(model: Any, generator: Any) -> Any:
        starts = torch.randint(0, len(text) - _LENGTH - 1, (batch,), generator=generator)
        rows = torch.stack([text[i : i + _LENGTH + 1] for i in starts.tolist()]).long()
        return functional.cross_entropy(
            model(rows[:, :-1]).flatten(0, 1).float(), rows[:, 1:].flatten()
        )

    return _Gpt(), loss


# --- ResNet-18 ------------------------------------------------------------------------------------


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList((nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)))
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.shortcut(x))


def _residuals(width: int = 64) -> list[nn.Module]:
    layers: list[nn.Module] = []
    inputs = width
    for stage in range(4):
        outputs = width << stage
        for stride in (1 if stage == 0 else 2, 1):
            layers.append(_Residual(inputs, outputs, stride))
            inputs = outputs
    return layers


def _photographs() -> Any:
    from sklearn.datasets import load_sample_images

    pictures = [torch.tensor(image).permute(2, 0, 1) for image in load_sample_images().images]
    return torch.stack(pictures).float().div(255).sub(0.45).div(0.25)


def _resnet18(batch: int) -> tuple[nn.Module, Loss]:
    pictures = _photographs()
    first = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 2 * _BANDS)]
    model = nn.Sequential(*first, *_residuals(), *last)

    def loss(model: Any, generator: Any) -> Any:
        count, _, height, width = pictures.shape
        which = torch.randint(0, count, (batch,), generator=generator).tolist()
        tops = torch.randint(0, height - 32, (batch,), generator=generator).tolist()
        lefts = torch.randint(0, width - 32, (batch,), generator=generator).tolist()
        crops = torch.stack(
            [
                pictures[p, :, y : y + 32, x : x + 32]
                for p, y, x in zip(which, tops, lefts, strict=True)
            ]
        )
        labels = torch.tensor(
            [p * _BANDS + x * _BANDS // width for p, x in zip(which, lefts, strict=True)]
        )
        dtype = next(model.parameters()).dtype
        return functional.cross_entropy(model(crops.to(dtype)).float(), labels)

    return model, loss
