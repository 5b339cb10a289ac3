"""Sharded models: what ``attach`` does for FSDP2 and FSDP1, and the state that it returns.

In: a model whose parameters are sharded, a spec. Out: its reduce-scatters (FSDP2: all-gathers too)
travel compressed. Assumes: all ranks call it alike, before the model's first pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
import torch.distributed as dist

from gradwire.errors import ArgumentError, GradwireError
from gradwire.torch import _fsdp1, _fsdp2, _plain
from gradwire.torch._collectives import EXCHANGED, Collectives
from gradwire.torch._joining import Wishes, join, options_of
from gradwire.torch._options import Options
from gradwire.torch._peers import Peers, probe_values
from gradwire.torch._rules import Parameters, Rules
from gradwire.torch._stats import Counters, Reporting, Stats
from gradwire.torch.reference import reference_reduce_scatter

Ranks = tuple[int, ...]


class ShardedState(Reporting):
    """What a sharded model keeps between steps. Made by ``attach``, not by hand.

    ``error`` is the failure because of which every further pass is refused, or None.
    """

    def __init__(self, kind: str, wishes: Wishes) -> None:
        self.error: GradwireError | None = None
        self._kind = kind
        self._wishes = wishes
        self._counters = Counters()
        self._groups: dict[Ranks, Collectives] = {}
        self._alone: Options | None = None  # the options where there is no other rank
        self._has_reduced = False

    # --- for users ------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return the totals of this rank so far; a step is a backward pass that has reduced."""
        return self._counters.read()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint should hold: plain numbers and strings, as for DDP."""
        options = self._options()
        return {
            "version": 1,
            "spec": options.spec.text,
            "order": options.order,
            "stats": self._counters.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting from a checkpoint. Raises ArgumentError for a version that is unknown."""
        if state.get("version") != 1:
            raise ArgumentError(f"state has version {state.get('version')!r}, known is 1")
        self._counters.load_state_dict(state["stats"])

    # --- for the ways in --------------------------------------------------------------------------

    @property
    def rules(self) -> Rules:
        """Those of the groups that have been joined."""
        return self._options().rules

    def join_groups(
        self, groups: Iterable[Any], probe: Callable[[Peers], bool], parameters: Parameters
    ) -> None:
        """Agree with the ranks of process groups, once for the same ranks.

        parameters: of the model, for rules.
        """
        wishes = self._wishes._replace(parameters=parameters)  # not kept: they hold the model
        for group in groups:
            ranks = _ranks_of(group)
            if len(ranks) > 1 and ranks not in self._groups:
                options, peers = join(group, wishes, f", for {self._kind}", _check_spec, probe)
                self._groups[ranks] = Collectives(options, peers, self._counters)
        if not self._groups:  # one rank: nothing to exchange, but what is asked for is checked
            self._alone = options_of(wishes)
            _check_spec(self._alone)

    def exchanges(self, group: Any, tensor: Any, name: str) -> Collectives | None:
        """Who exchanges a tensor of a group; None: a plain collective, which is counted."""
        known = self._groups.get(_ranks_of(group))
        if known is None or not known.options.spec.method or tensor.dtype not in EXCHANGED:
            self._counters.add_plain(tensor.numel() * tensor.element_size(), 0.0)
            return None
        if tensor.device.type != "cpu":
            raise ArgumentError(f"{name} on {tensor.device}: only tensors on the CPU yet")
        return known

    def run(self, call: Callable[[], None]) -> None:
        """Make exchanges; a failure ends the model's other groups too."""
        if self.error is not None:
            raise self.error
        try:
            call()
        except GradwireError as error:
            self.error = error
            for group in self._groups.values():
                if group.error is None:
                    group.leave()
            raise

    def settle(self) -> None:
        """Wait until all ranks have said how the last exchanges went; raise if one failed."""

        def settle_all() -> None:
            for group in self._groups.values():
                group.settle()

        self.run(settle_all)

    def settle_after_backward(self) -> None:
        """Settle, and count a step, when the backward pass that is running has ended."""
        self._has_reduced = True
        # PyTorch has no public way; DDP and FSDP do the same.
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        self.settle()
        if self._has_reduced:
            self._has_reduced = False
            self._counters.add_step()

    def _options(self) -> Options:
        groups = list(self._groups.values())
        return groups[0].options if groups else cast(Options, self._alone)


def is_sharded(model: Any) -> bool:
    """Tell whether ``attach_sharded`` knows what to do with a model."""
    return _fsdp1.is_wrapped(model) or bool(_fsdp2.sharded_modules(model))


def attach_sharded(
    model: Any, spec: str, *, replicate_group: Any = None, **options: Any
) -> ShardedState:
    """Do what ``attach`` says for a model that ``is_sharded``."""
    if "group" in options:
        raise ArgumentError(
            "group: sharded models are exchanged over the groups they are sharded on"
        )
    wishes = Wishes(spec, **options)
    if _fsdp1.is_wrapped(model):
        if replicate_group is not None:
            raise ArgumentError("replicate_group: only for FSDP2 (fully_shard)")
        state = ShardedState("FSDP1", wishes)
        _fsdp1.install(model, state, _scatters_like_gloo)
    else:
        state = ShardedState("FSDP2", wishes)
        _fsdp2.install(model, state, replicate_group, _scatters_like_gloo)
    return state


def _check_spec(options: Options) -> None:
    if options.spec.is_lossy:
        raise ArgumentError(
            f"spec {options.spec.text!r}: lossy methods keep what is not sent of whole parameters, "
            "on every rank, so they are for DDP models; use 'lossless' with a sharded one"
        )
    if options.spec.cast:
        raise ArgumentError(
            f"spec {options.spec.text!r}: the dtype in which a sharded model sends is its own "
            "(MixedPrecisionPolicy, MixedPrecision); use 'lossless' with it"
        )
    if options.spec.is_auto:
        raise ArgumentError(
            f"spec {options.spec.text!r}: only DDP models are measured; use 'lossless' or 'none'"
        )


def _scatters_like_gloo(peers: Peers) -> bool:
    """Tell whether this Gloo reduce-scatters as ``order="gloo"`` says; alike on all ranks."""
    verdicts = [
        _scatters_as_known(peers, dtype, n)
        for dtype, n in [(torch.float32, 2**17 + 4097), (torch.bfloat16, 5003)]
    ]
    verdict = torch.tensor([int(all(verdicts))])
    dist.all_reduce(verdict, op=dist.ReduceOp.MIN, group=peers.group)
    return bool(verdict.item()) and peers.adds_like_gloo()


def _scatters_as_known(peers: Peers, dtype: Any, n: int) -> bool:
    inputs = [probe_values(rank, n * peers.world).to(dtype) for rank in range(peers.world)]
    found = torch.empty(n, dtype=dtype)
    _plain.reduce_scatter(found, inputs[peers.rank], peers.group, dist.ReduceOp.AVG)
    return bool(torch.equal(found, reference_reduce_scatter(inputs, peers.rank)))


def _ranks_of(group: Any) -> Ranks:
    return tuple(dist.get_process_group_ranks(group))
