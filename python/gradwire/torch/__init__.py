"""Gradients of PyTorch's DDP and FSDP, sent compressed: the same bits, fewer bytes.

    model = DistributedDataParallel(module)
    gradwire.torch.attach(model, "lossless")

Import it as ``import gradwire.torch``; it needs PyTorch (``pip install gradwire[torch]``).
``attach(model, spec)`` is one line in a script, ``hook(spec)`` makes the pair for
``register_comm_hook``, ``stats(model)`` tells what was sent. docs/training.md says what holds.
"""

try:
    import torch.distributed as _distributed
except ImportError as error:
    raise ImportError("gradwire.torch needs PyTorch: pip install 'gradwire[torch]'") from error

if not _distributed.is_available():
    raise ImportError("gradwire.torch needs a PyTorch that is built with torch.distributed")

from gradwire.torch._hook import attach, hook, stats
from gradwire.torch._keeping import merge_states
from gradwire.torch._rules import Rule
from gradwire.torch._sharded import ShardedState
from gradwire.torch._state import HookState
from gradwire.torch._stats import Choice, Group, Lossy, Stats, Way
from gradwire.torch.reference import reference_mean, reference_reduce_scatter

__all__ = [
    "Choice",
    "Group",
    "HookState",
    "Lossy",
    "Rule",
    "ShardedState",
    "Stats",
    "Way",
    "attach",
    "hook",
    "merge_states",
    "reference_mean",
    "reference_reduce_scatter",
    "stats",
]
