"""FSDP2: the communication objects that ``fully_shard`` takes, and where they are put.

In: a model with FSDP modules. Out: each module's reduce-scatter and all-gather made by exchanges.
Assumes: PyTorch calls them one after the other, on one thread, in the same order on all ranks.
Source: torch.distributed.fsdp, ``FSDPModule.set_custom_reduce_scatter`` and its neighbours. Names
that begin with an underscore are PyTorch's own: it has no public way to a module's groups and
shapes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
import torch.distributed as dist

from gradwire.errors import ArgumentError
from gradwire.torch import _plain
from gradwire.torch._collectives import Collectives, Tensors
from gradwire.torch._layout import fill_bucket
from gradwire.torch._peers import Peers
from gradwire.torch._roles import describe
from gradwire.torch._rules import Parameters, Rules


class State(Protocol):
    """What the communication objects need of a ``ShardedState``."""

    @property
    def rules(self) -> Rules: ...
    def join_groups(
        self, groups: Sequence[Any], probe: Callable[[Peers], bool], parameters: Parameters
    ) -> None: ...
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
    parameters = partial(describe, model)
    state.join_groups(groups, scatters_like_gloo, parameters)
    if replicate_group is not None:
        state.join_groups([replicate_group], Peers.adds_like_gloo, parameters)
    for module in modules:
        part = _part_of(module)
        if part is not None:
            shards = _Shards(part, state.rules)
            module.set_custom_all_gather(ExactAllGather(state, shards))
            module.set_custom_reduce_scatter(ExactReduceScatter(state, shards))
            if replicate_group is not None:
                module.set_all_reduce_hook(_replicate_hook(state, shards, replicate_group))
    # What the last all-gather of a pass without gradients has brought is judged before it is used.
    model.register_forward_hook(lambda *_: state.settle())


class _Shards:
    """The tensors in a module's shards, padding included.

    They do not add up where some parameters have no gradient, or bring their own all-gather: then
    they are one flat run, in no rule's group. It matters for the size of what is sent only.
    """

    def __init__(self, part: Any, rules: Rules) -> None:
        self._part = part
        # By PyTorch's objects for them, as parameters may be replaced, by load_state_dict and such.
        self._groups = {p: rules.group_of(p.sharded_param) for p in part.fsdp_params}

    def parameters(self, elements: int) -> Tensors:
        return self._tensors(self._part.fsdp_params, elements)

    def gradients(self, elements: int) -> Tensors:
        parameters = [p for p in self._part.fsdp_params if p.sharded_param.requires_grad]
        return self._tensors(parameters, elements)

    def _tensors(self, parameters: Sequence[Any], elements: int) -> Tensors:
        shapes = [tuple(p.padded_sharded_param_size) for p in parameters]
        return fill_bucket(shapes, [self._groups[p] for p in parameters], elements)


class _Communication:
    """What both objects share: memory, and the layout of the module's shards."""

    def __init__(self, state: State, shards: _Shards) -> None:
        self._state = state
        self._shards = shards

    def allocate(self, size: Sequence[int], *, dtype: Any, device: Any) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)


class ExactAllGather(_Communication):
    """Parameters, from the rank that has them to all others."""

    def __call__(
        self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False
    ) -> Any:
        exchanges = self._state.exchanges(group, input_tensor, "parameters")
        if exchanges is None:
            return _plain.all_gather(output_tensor, input_tensor, group, async_op)
        tensors = self._shards.parameters(input_tensor.numel())
        self._state.run(lambda: exchanges.all_gather(output_tensor, input_tensor, tensors))
        return None


class ExactReduceScatter(_Communication):
    """Gradients, to the rank that has their shard."""

    def __call__(
        self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        exchanges = self._state.exchanges(group, input_tensor, "gradients")
        self._state.settle_after_backward()
        if exchanges is None:
            return _plain.reduce_scatter(output_tensor, input_tensor, group, op, async_op)
        average = _is_average(op)
        tensors = self._shards.gradients(output_tensor.numel())
        self._state.run(
            lambda: exchanges.reduce_scatter(output_tensor, input_tensor, tensors, average)
        )
        return None


def _replicate_hook(state: State, shards: _Shards, group: Any) -> Callable[[Any], None]:
    def average_over_replicas(shard: Any) -> None:
        exchanges = state.exchanges(group, shard, "gradients")
        if exchanges is None:
            dist.all_reduce(shard, dist.ReduceOp.AVG, group)
            return
        tensors = shards.gradients(shard.numel())
        state.run(lambda: exchanges.all_reduce(shard, tensors, True))

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
