"""FSDP2: the communication objects that ``fully_shard`` takes, and where they are put.

In: a model with FSDP modules. Out: each module's reduce-scatter and all-gather made by exchanges.
Assumes: PyTorch calls them one after the other, on one thread, in the same order on all ranks.
Source: torch.distributed.fsdp, ``FSDPModule.set_custom_reduce_scatter`` and its neighbours. Names
that begin with an underscore are PyTorch's own: it has no public way to a module's groups and
shapes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

from gradwire.errors import ArgumentError
from gradwire.torch._collectives import Collectives, Shapes
from gradwire.torch._peers import Peers


class State(Protocol):
    """What the communication objects need of a ``ShardedState``."""

    def join_groups(self, groups: Sequence[Any], probe: Callable[[Peers], bool]) -> None: ...
    def exchanges(self, group: Any, tensor: Any, name: str) -> Collectives | None: ...
    def run(self, call: Callable[[], None]) -> None: ...
    def settle(self) -> None: ...
    def settle_after_backward(self) -> None: ...


def sharded_modules(model: Any) -> list[Any]:
    """Return the modules of a model that ``fully_shard`` has been applied to, in their order."""
    # Whoever has such a model has imported this module, which takes long to import.
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if kind is None or not isinstance(model, torch.nn.Module):
        return []
    return [module for module in model.modules() if isinstance(module, kind)]


def install(
    model: Any, state: State, replicate_group: Any, scatters_like_gloo: Callable[[Peers], bool]
) -> None:
    """Exchange what the modules of a model communicate."""
    modules = sharded_modules(model)
    if not hasattr(modules[0], "set_custom_reduce_scatter"):
        raise ArgumentError("this PyTorch's fully_shard takes no custom communication; 2.8 does")
    parts = [part for module in modules if (part := _part_of(module)) is not None]
    groups = [group for part in parts for group in _groups_of(part)]
    if not groups:
        raise ArgumentError("no parameter of this model is sharded over a process group")
    state.join_groups(groups, scatters_like_gloo)
    if replicate_group is not None:
        state.join_groups([replicate_group], Peers.adds_like_gloo)
    for module in modules:
        part = _part_of(module)
        if part is not None:
            module.set_custom_all_gather(ExactAllGather(state, part))
            module.set_custom_reduce_scatter(ExactReduceScatter(state, part))
            if replicate_group is not None:
                module.set_all_reduce_hook(_replicate_hook(state, part, replicate_group))
    # What the last all-gather of a pass without gradients has brought is judged before it is used.
    model.register_forward_hook(lambda *_: state.settle())


class _Communication:
    """What both objects share: memory, and the shapes of the module's shards."""

    def __init__(self, state: State, part: Any) -> None:
        self._state = state
        self._part = part

    def allocate(self, size: Sequence[int], *, dtype: Any, device: Any) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)


class ExactAllGather(_Communication):
    """Parameters, from the rank that has them to all others."""

    def __call__(
        self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False
    ) -> Any:
        exchanges = self._state.exchanges(group, input_tensor, "parameters")
        if exchanges is None:
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)
        shapes = _shapes_of(self._part.fsdp_params, input_tensor.numel())
        self._state.run(lambda: exchanges.all_gather(output_tensor, input_tensor, shapes))
        return None


class ExactReduceScatter(_Communication):
    """Gradients, to the rank that has their shard."""

    def __call__(
        self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        exchanges = self._state.exchanges(group, input_tensor, "gradients")
        self._state.settle_after_backward()
        if exchanges is None:
            return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)
        average = _is_average(op)
        shapes = _gradient_shapes(self._part, output_tensor.numel())
        self._state.run(
            lambda: exchanges.reduce_scatter(output_tensor, input_tensor, shapes, average)
        )
        return None


def _replicate_hook(state: State, part: Any, group: Any) -> Callable[[Any], None]:
    def average_over_replicas(shard: Any) -> None:
        exchanges = state.exchanges(group, shard, "gradients")
        if exchanges is None:
            dist.all_reduce(shard, dist.ReduceOp.AVG, group)
            return
        shapes = _gradient_shapes(part, shard.numel())
        state.run(lambda: exchanges.all_reduce(shard, shapes, True))

    return average_over_replicas


def _is_average(op: Any) -> bool:
    if op == dist.ReduceOp.AVG:
        return True
    if op == dist.ReduceOp.SUM:
        return False
    raise ArgumentError(
        f"reduce-scatter with {op}: only sums and averages are exchanged; with "
        "set_gradient_divide_factor call set_force_sum_reduction_for_comms(True) too"
    )


def _part_of(module: Any) -> Any:
    """The parameter group of a module; None where another module has taken all parameters."""
    parts = module._get_fsdp_state()._fsdp_param_groups
    if len(parts) > 1:
        raise ArgumentError(
            f"{type(module).__name__}: parameters of one module on several meshes take no custom "
            "communication in PyTorch"
        )
    return parts[0] if parts else None


def _groups_of(part: Any) -> list[Any]:
    """The process groups that a part is sharded over, between passes and after its forward."""
    places = (part.mesh_info, part.post_forward_mesh_info)
    groups = [getattr(place, "shard_process_group", None) for place in places]
    return [group for group in groups if group is not None]


def _gradient_shapes(part: Any, elements: int) -> Shapes:
    return _shapes_of([p for p in part.fsdp_params if p.sharded_param.requires_grad], elements)


def _shapes_of(parameters: Sequence[Any], elements: int) -> Shapes:
    """The shapes of shards, padding included, or one flat run when they do not add up.

    They do not where some parameters have no gradient, or bring their own all-gather. Shapes
    matter for the size of what is sent only.
    """
    shapes = tuple(tuple(p.padded_sharded_param_size) for p in parameters)
    if sum(math.prod(shape) for shape in shapes) != elements:
        return ((elements,),)
    return shapes
