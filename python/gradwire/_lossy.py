"""Lossy methods on single tensors: frames of what a method keeps, and what it lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradwire import _core
from gradwire._arrays import raw_tensor
from gradwire._options import lossy_spec
from gradwire.errors import ArgumentError


@dataclass(frozen=True)
class LossyReport:
    """What a tensor lost, and where its bytes went."""

    elements: int
    selected: int  #: elements that are sent; all of a tensor that went exactly
    index_bytes: int  #: that say which
    value_bytes: int  #: of their values, scales included
    relative_l2: float  #: norm of the error / norm of the tensor; 0 for zeros
    largest_error: float  #: of an element, absolute
    sign_agreement: float  #: share of the elements that are not 0 whose sign is kept


def compress_lossy(
    x: Any, method: str, *, name: str = "", dtype: Any = None, checksum: bool = True
) -> tuple[bytes, LossyReport]:
    """Compress one tensor by a lossy method, and compare what ``decompress`` restores with it.

    x, dtype: as for ``compress``, of float32, bfloat16 or float16. method: such as
    "topk(keep=0.01)" or "qsgd(levels=7)"; ``lossy_methods`` names them, ``gradwire methods`` lists
    parameters. The tensor is sent as in the first step of a training with one rank; so tensors of
    one dimension go exactly unless the method has dense_vectors=false. name: what random draws
    depend on.

    Returns the frame, which ``compress`` makes of the same method as well, and the report.
    Raises ArgumentError for another dtype, an unknown word, NaN or infinity (unless nan=pass).
    Thread-safe; other Python threads run meanwhile.

    >>> import gradwire, numpy as np
    >>> gradient = np.random.default_rng(1).normal(0, 1e-3, (64, 256)).astype(np.float32)
    >>> frame, report = gradwire.compress_lossy(gradient, "topk(keep=0.25)")
    >>> report.selected, report.relative_l2 < 0.6
    (4096, True)
    >>> restored = gradwire.decompress(frame)
    >>> int(np.count_nonzero(restored == gradient))
    4096
    """
    spec = lossy_spec(method)
    if not isinstance(name, str):
        raise ArgumentError(f"name must be a string, got {name!r}")
    frame, report = _core.compress_lossy(
        *raw_tensor(x, dtype), spec, name, bool(checksum), report=True
    )
    return frame, LossyReport(**report)


def lossy_methods() -> list[str]:
    """Return the names of the lossy methods, as ``compress_lossy`` takes them.

    >>> import gradwire
    >>> "topk" in gradwire.lossy_methods()
    True
    """
    return [name for name, traits in _core.methods() if traits.startswith("lossy")]
