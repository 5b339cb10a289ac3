"""Element types: gradwire's names beside NumPy's (with ml_dtypes) and torch's.

In: dtypes of NumPy, ml_dtypes or torch, or names. Out: gradwire's names ("f32", "bf16", ...), which
are what the C++ library takes, and the dtypes that they stand for.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from gradwire import _core
from gradwire.errors import ArgumentError

__all__ = ["numpy_dtype", "parse_dtype", "torch_name"]

_NUMPY: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f64": np.dtype(np.float64),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i16": np.dtype(np.int16),
    "u16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}

# torch's names are NumPy's.
_TORCH = {name: "bool" if name == "bool" else str(dtype) for name, dtype in _NUMPY.items()}
_TORCH_NAMES = {f"torch.{torch}": name for name, torch in _TORCH.items()}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype that a gradwire name stands for."""
    return _NUMPY[name]


def torch_name(name: str) -> str:
    """Return the attribute of ``torch`` that a gradwire name stands for."""
    return _TORCH[name]


def parse_dtype(dtype: Any) -> str:
    """Return gradwire's name of a dtype.

    dtype: a NumPy, ml_dtypes or torch dtype, a scalar type such as ``numpy.float32``, or a name in
    gradwire's, safetensors' or NumPy's spelling.
    Raises ArgumentError, naming the dtype, where there is no codec for it.

    >>> parse_dtype("bfloat16"), parse_dtype(np.float32), parse_dtype("F8_E4M3")
    ('bf16', 'f32', 'f8_e4m3')
    """
    if isinstance(dtype, str):
        return _core.parse_dtype(dtype)
    if str(dtype) in _TORCH_NAMES:
        return _TORCH_NAMES[str(dtype)]
    try:
        parsed = np.dtype(dtype)
    except TypeError:
        raise ArgumentError(f"dtype {dtype!r} is no element type") from None
    name = _NAMES.get(parsed)
    if name is None:
        raise ArgumentError(f"dtype {parsed} {_why_not(parsed)}; known are {', '.join(_NUMPY)}")
    return name


def _why_not(dtype: np.dtype[Any]) -> str:
    if not dtype.isnative:
        return "is not in this machine's byte order (x.astype(x.dtype.newbyteorder('=')) converts)"
    if dtype.hasobject:
        return "holds Python objects, not numbers"
    return "has no codec"
