"""What a model says of its parameters: names, roles, sizes.

In: a module. Out: its parameters, each once, in the module's order. Assumes: a
parameter's role can be told from the modules that hold it.

Roles, of which a parameter may have several or none:
- embedding: of an ``nn.Embedding`` or ``nn.EmbeddingBag``.
- norm: of a normalisation, one of ``torch.nn`` or a module whose class is named ``...Norm`` (or
  ``...Norm2d``), as models of their own often have one.
- bias: named ``bias``, ``bias_...`` or ``..._bias``, biases of norms among them.
- head: of the ``nn.Linear`` whose weight is an embedding's, too; of all of these. Where there is
  none, of the last ``nn.Linear`` in the order of ``modules()``, which is taken to give the output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import nn

from gradwire.errors import ArgumentError

ROLES = ("embedding", "norm", "bias", "head")
_TABLES = (nn.Embedding, nn.EmbeddingBag)
_NORMS = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.modules.batchnorm._NormBase,  # of batch and instance norms, SyncBatchNorm too
)
_NORM_NAME = re.compile(r"norm(\dd)?$", re.IGNORECASE)
_BIAS_NAME = re.compile(r"(.*_)?bias(_.*)?")
_WRAPPERS = {"_orig_mod", "_checkpoint_wrapped_module"}  # torch.compile's, checkpoint_wrapper's


class Described(NamedTuple):
    """One parameter; tied ones have several names."""

    tensor: Any
    names: list[str]
    roles: set[str]
    elements: int  #: of the whole parameter, where it is sharded too


def describe(model: Any) -> list[Described]:
    """Describe the parameters of a module. Raises ArgumentError for what is none."""
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"model must be the module that DDP wraps, got {model!r}")
    heads = {id(head) for head in _heads(list(model.modules()))}
    found: dict[int, Described] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        for name, tensor in module.named_parameters(recurse=False, remove_duplicate=False):
            new = Described(tensor, [], set(), math.prod(tensor.shape))
            one = found.setdefault(id(tensor), new)
            one.names.append(plain_name(f"{path}.{name}"))
            one.roles.update(_roles_in(module, name, id(module) in heads))
    return list(found.values())


def plain_name(path: str) -> str:
    """Return a parameter's name without what wrappers have put into it.

    >>> plain_name("_orig_mod.layers.0._checkpoint_wrapped_module.weight")
    'layers.0.weight'
    """
    return ".".join(part for part in path.split(".") if part and part not in _WRAPPERS)


def _roles_in(module: Any, name: str, is_head: bool) -> Iterable[str]:
    """The roles of a module's own parameter."""
    if isinstance(module, _TABLES):
        yield "embedding"
    if isinstance(module, _NORMS) or _NORM_NAME.search(type(module).__name__):
        yield "norm"
    if _BIAS_NAME.fullmatch(name):
        yield "bias"
    if is_head:
        yield "head"


def _heads(modules: list[Any]) -> list[Any]:
    tables = {id(module.weight) for module in modules if isinstance(module, _TABLES)}
    linears = [module for module in modules if isinstance(module, nn.Linear)]
    tied = [linear for linear in linears if id(linear.weight) in tables]
    return tied or linears[-1:]
