"""Deep Gradient Compression in PyTorch, for checking and for ablation.

In: gradients of logical ranks. Out: their mean as DGC sends it. Assumes: plain SGD without momentum
after it, unless ``correction`` is off. Source: Lin et al. 2018, Deep Gradient Compression, section
3, and the authors' code for what is dense. Where we differ: the largest k are selected exactly,
where the authors estimate a threshold from a sample; momentum is not Nesterov's.

Bytes are those of the paper's encoding, a value of 32 bits and a run of 16 for each element.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from methods.ranks import Sent

_F32_BYTES = 4
_SENT_BYTES = 6  #: of the paper: a value and the run of zeros before it


class ReferenceDgc:
    """DGC with parts that can be switched off.

    correction: momentum is accumulated before selection; without it the ranks only keep what was
    not sent (error feedback), and the optimizer after this has the momentum. mask: what was sent
    has its momentum forgotten. clip_norm: bound of the mean gradient's norm, by the whole model; 0
    switches it off. Tensors of one dimension are sent whole, their momentum follows the mean.
    """

    def __init__(
        self,
        tensors: list[tuple[str, tuple[int, ...]]],
        ranks: int,
        *,
        keep: float = 0.001,
        momentum: float = 0.9,
        clip_norm: float = 0.0,
        correction: bool = True,
        mask: bool = True,
    ) -> None:
        sizes = [math.prod(shape) for _, shape in tensors]
        self._is_sparse = [len(shape) > 1 for _, shape in tensors]
        self._sizes = sizes
        self._ranks, self._keep, self._momentum = ranks, keep, momentum
        self._clip_norm, self._correction, self._mask = clip_norm, correction, mask
        self._u = torch.zeros(ranks, sum(sizes))
        self._v = torch.zeros(ranks, sum(sizes))
        self._dense_momentum = torch.zeros(sum(sizes))
        self._sent = Sent()

    def mean(self, gradients: Any, step: int, keep: float | None, rate_ratio: float) -> Any:
        self._clip(gradients)
        self._accumulate(gradients)
        result = torch.zeros(gradients.shape[1])
        parts = zip(
            *(x.split(self._sizes, dim=-1) for x in (gradients, self._u, self._v, result)),
            self._dense_momentum.split(self._sizes),
            self._is_sparse,
            strict=True,
        )
        for gradient, u, v, out, momentum, is_sparse in parts:
            if is_sparse:
                self._send_largest(u, v, out, self._keep if keep is None else keep)
            else:
                self._send_whole(gradient, momentum, out)
        return result

    def take_sent(self) -> Sent:
        sent, self._sent = self._sent, Sent()
        return sent

    def _clip(self, gradients: Any) -> None:
        if self._clip_norm == 0:
            return
        bound = self._clip_norm / math.sqrt(self._ranks)
        norms = gradients.norm(dim=1, keepdim=True)
        gradients.mul_((bound / norms).clamp(max=1))

    def _accumulate(self, gradients: Any) -> None:
        if self._correction:
            self._u.mul_(self._momentum).add_(gradients)
            self._v.add_(self._u)
        else:
            self._v.add_(gradients)

    def _send_largest(self, u: Any, v: Any, out: Any, keep: float) -> None:
        """u, v: (W, elements) of one tensor; out: (elements,)."""
        elements = v.shape[1]
        count = math.ceil(keep * elements)
        for rank in range(self._ranks):
            sent = v[rank].abs().topk(count, sorted=False).indices
            out[sent] += v[rank][sent]
            v[rank][sent] = 0
            if self._mask:
                u[rank][sent] = 0
        out.div_(self._ranks)
        self._count(_SENT_BYTES * count, elements)
        self._sent += Sent(selected=count, selectable=elements, selected_bytes=_SENT_BYTES * count)

    def _send_whole(self, gradient: Any, momentum: Any, out: Any) -> None:
        torch.mean(gradient, 0, out=out)
        if self._correction:
            momentum.mul_(self._momentum).add_(out)
            out.copy_(momentum)
        self._count(_F32_BYTES * out.numel(), out.numel())

    def _count(self, message_bytes: int, elements: int) -> None:
        receivers = self._ranks - 1
        self._sent += Sent(
            up_bytes=receivers * message_bytes,
            up_original_bytes=receivers * _F32_BYTES * elements,
        )
