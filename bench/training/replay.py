"""Accelerator mode: real gradients, released on a schedule, without the time of computing them.

In: gradients captured from a training step, milliseconds of compute. Out: a module whose backward
pass sleeps and hands those gradients over, layer after layer, last one first. Assumes: an
accelerator computes while the CPU is free for communication.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class _Release(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, seconds: float, gradients: Any, *_parameters: Any) -> Any:
        ctx.seconds, ctx.gradients = seconds, gradients
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        time.sleep(ctx.seconds)
        return gradient, None, None, *(part.clone() for part in ctx.gradients)


class Replay(nn.Module):
    """Parameters in groups, each with the gradients that its release hands over."""

    def __init__(self, gradients: Sequence[Any], groups: int, compute_s: float) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.zeros_like(gradient) for gradient in gradients)
        self._gradients = list(gradients)
        elements = sum(gradient.numel() for gradient in gradients)
        self._groups = _cut([gradient.numel() for gradient in gradients], elements / groups)
        self._forward_s = compute_s / 3  # a backward pass takes about twice as long
        self._seconds = [
            (compute_s - self._forward_s) * sum(gradients[i].numel() for i in group) / elements
            for group in self._groups
        ]

    def forward(self) -> Any:
        time.sleep(self._forward_s)
        x = torch.zeros((), requires_grad=True)
        for group, seconds in zip(self._groups, self._seconds, strict=True):
            gradients = [self._gradients[i] for i in group]
            x = _Release.apply(x, seconds, gradients, *(self.weights[i] for i in group))
        return x


def _cut(sizes: list[int], least: float) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    size = 0
    for i, elements in enumerate(sizes):
        if size >= least:
            groups.append([])
            size = 0
        groups[-1].append(i)
        size += elements
    return groups
