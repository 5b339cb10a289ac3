"""PyTorch's own collectives of even shards, under the names that this PyTorch has for them.

In: tensors as FSDP hands them over. Out: the same collective without gradwire.
Assumes: nothing.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

# The first names are those of PyTorch 2.13, which warns of the second ones.
_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def all_gather(output: Any, source: Any, group: Any, async_op: bool = False) -> Any:
    """Gather every rank's source in all outputs."""
    return _gather(output, source, group=group, async_op=async_op)


def reduce_scatter(
    output: Any, source: Any, group: Any, op: Any = dist.ReduceOp.SUM, async_op: bool = False
) -> Any:
    """Reduce the ranks' sources; each rank gets its own shard."""
    return _scatter(output, source, op=op, group=group, async_op=async_op)
