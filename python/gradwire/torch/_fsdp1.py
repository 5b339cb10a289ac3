"""FSDP1: its communication hook. Gradients are exchanged; its all-gathers have no hook.

In: a model in FullyShardedDataParallel. Out: its gradients reduced by exchanges.
Assumes: PyTorch calls the hook on one thread, in the same order on all ranks. Source:
torch.distributed.fsdp, ``FullyShardedDataParallel.register_comm_hook``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist

from gradwire.errors import ArgumentError
from gradwire.torch import _plain
from gradwire.torch._collectives import Collectives
from gradwire.torch._fsdp2 import State
from gradwire.torch._layout import BucketTensor
from gradwire.torch._peers import Peers
from gradwire.torch._roles import Described


def is_wrapped(model: Any) -> bool:
    """Tell whether a model is one of FSDP1's."""
    # Whoever has such a model has imported this module, which takes long to import.
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(model, fsdp.FullyShardedDataParallel)


def install(model: Any, state: State, scatters_like_gloo: Callable[[Peers], bool]) -> None:
    """Exchange the gradients of a model. Raises ArgumentError for what FSDP1 takes no hook for."""
    parts = type(model).fsdp_modules(model)
    if any("HYBRID" in part.sharding_strategy.name for part in parts):
        raise ArgumentError(
            "FSDP1's hybrid strategies take no communication hook; use FSDP2 (fully_shard)"
        )
    if any(part.process_group is not model.process_group for part in parts):
        raise ArgumentError(
            "FSDP1 modules on several process groups cannot be told apart in a hook"
        )
    if not model.check_is_root():
        raise ArgumentError("attach to the outermost FullyShardedDataParallel")
    state.join_groups([model.process_group], scatters_like_gloo, _flat_parameters)
    model.register_comm_hook(_Divided(state, model), _reduce)


def _flat_parameters() -> Sequence[Described]:
    raise ArgumentError(
        "rules: FSDP1 hands over gradients as one flat tensor, without names; use FSDP2 "
        "(fully_shard)"
    )


class _Divided:
    """The hook's state: FSDP1 leaves the division to the hook, half before and half after."""

    def __init__(self, state: State, model: Any) -> None:
        self.state = state
        self.group = model.process_group
        self.before = model._gradient_predivide_factor
        self.after = model._gradient_postdivide_factor


def _reduce(divided: _Divided, gradient: Any, shard: Any = None) -> None:
    divided.state.settle_after_backward()
    gradient.div_(divided.before)
    exchanges = divided.state.exchanges(divided.group, gradient, "gradients")
    if exchanges is None:
        _reduce_plainly(divided, gradient, shard)
    else:
        _exchange(divided.state, exchanges, gradient, shard)
    (gradient if shard is None else shard).div_(divided.after)


def _exchange(state: State, exchanges: Collectives, gradient: Any, shard: Any) -> None:
    if shard is None:  # NO_SHARD
        flat = gradient.view(-1)
        whole = (BucketTensor((flat.numel(),)),)
        state.run(lambda: exchanges.all_reduce(flat, whole, False))
    else:
        tensors = (BucketTensor((shard.numel(),)),)
        state.run(lambda: exchanges.reduce_scatter(shard, gradient, tensors, False))


def _reduce_plainly(divided: _Divided, gradient: Any, shard: Any) -> None:
    if shard is None:
        dist.all_reduce(gradient, group=divided.group)
    else:
        _plain.reduce_scatter(shard, gradient, divided.group)
