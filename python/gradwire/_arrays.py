"""Anything that holds numbers, as flat bytes and back.

In: NumPy arrays and scalars, torch tensors, exporters of DLPack or of the buffer protocol.
Out: ``RawTensor``, a flat uint8 view with dtype and shape; arrays or tensors over restored bytes.
Assumes: nothing of the input; it is never written to, and copied only when not in row-major order.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradwire import _core
from gradwire.dtypes import numpy_dtype, parse_dtype, torch_name
from gradwire.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

Bytes: TypeAlias = NDArray[np.uint8]
BytesLike: TypeAlias = "Buffer | Bytes"  # to type checkers arrays are buffers from Python 3.12 on

_CPU = 1  # DLPack's kDLCPU
_INTEGERS = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"}


class RawTensor(NamedTuple):
    """A tensor as the C++ library wants it."""

    data: Bytes
    dtype: str
    shape: tuple[int, ...]


def raw_tensor(x: Any, dtype: Any = None) -> RawTensor:
    """Look at the bytes of ``x``. dtype: what its raw bits mean, where ``x`` cannot say."""
    if is_torch_tensor(x):
        raw = _from_torch(x)
    elif _is_foreign_dlpack(x):
        raw = _from_dlpack(x)
    else:
        raw = _from_numpy(_as_numpy(x), named_later=dtype is not None)
    return raw if dtype is None else _reinterpret(raw, parse_dtype(dtype))


def raw_bytes(data: Any, what: str) -> Bytes:
    """Look at a bytes-like object, such as a frame or a mapped file, as uint8."""
    if is_torch_tensor(data):
        return _from_torch(data).data
    try:
        return np.frombuffer(data, np.uint8)
    except (TypeError, ValueError, BufferError):
        kind = type(data).__name__
        raise ArgumentError(f"{what} must be contiguous and bytes-like, got {kind}") from None


def writable_bytes(out: Any) -> Bytes:
    """Look at a writable buffer as uint8."""
    data = raw_bytes(out, "out")
    if not data.flags.writeable:
        raise ArgumentError(f"out must be writable, got a read-only {type(out).__name__}")
    return data


def output_bytes(out: Any, dtype: str, shape: tuple[int, ...]) -> Bytes:
    """Look at the memory of an array or tensor that is to receive (dtype, shape)."""
    is_torch = is_torch_tensor(out)
    if not is_torch and not isinstance(out, np.ndarray):
        kind = type(out).__name__
        raise ArgumentError(f"out must be a numpy array or a torch tensor, got {kind}")
    if parse_dtype(out.dtype) != dtype:
        raise ArgumentError(f"out has dtype {out.dtype}, the frame holds {numpy_dtype(dtype)}")
    if tuple(out.shape) != shape:
        raise ArgumentError(f"out has shape {tuple(out.shape)}, the frame holds {shape}")
    if not (out.is_contiguous() if is_torch else out.flags.c_contiguous):
        raise ArgumentError("out must be contiguous in row-major order")
    if is_torch:
        return _from_torch(out).data
    if not out.flags.writeable:
        raise ArgumentError("out must be writable, got a read-only array")
    return _flat(np.asarray(out))


def to_numpy(data: Bytes, dtype: str, shape: Iterable[int]) -> NDArray[Any]:
    """Make an array over restored bytes, without a copy."""
    array: NDArray[Any] = data.view(numpy_dtype(dtype)).reshape(tuple(shape))
    return array


def to_torch(data: Bytes, dtype: str, shape: Iterable[int]) -> Any:
    """Make a torch tensor over restored bytes, without a copy."""
    import torch

    torch_dtype = getattr(torch, torch_name(dtype))
    if data.size == 0:  # NumPy gives an empty array strides that torch does not view
        return torch.empty(tuple(shape), dtype=torch_dtype)
    return torch.from_numpy(data).view(torch_dtype).reshape(tuple(shape))


def is_torch_tensor(x: Any) -> bool:
    """Tell a torch tensor without importing torch: whoever has one has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, getattr(torch, "Tensor", ()))


def _from_torch(x: Any) -> RawTensor:
    import torch

    if x.device.type != "cpu" or x.layout != torch.strided:
        kind = x.device if x.layout == torch.strided else x.layout
        raise ArgumentError(f"torch tensor is {kind}; pass x.cpu(), or x.to_dense().cpu()")
    dtype = parse_dtype(x.dtype)
    shape = tuple(x.shape)
    # Flat first: a 0-d tensor cannot be viewed as another size.
    flat = x.detach().resolve_neg().contiguous().reshape(-1)
    return RawTensor(flat.view(torch.uint8).numpy(), dtype, shape)


def _is_foreign_dlpack(x: Any) -> bool:
    return hasattr(x, "__dlpack__") and not isinstance(x, np.ndarray | np.generic)


def _from_dlpack(x: Any) -> RawTensor:
    device = x.__dlpack_device__()[0]
    if device != _CPU:
        raise ArgumentError(f"{type(x).__name__} is on DLPack device {int(device)}, not on the CPU")
    try:
        return _from_numpy(np.from_dlpack(x))
    except ArgumentError:
        raise
    except Exception as error:  # exporters raise what they like; bf16 and f8 are not NumPy's
        reason = error
    try:
        raw = _core.view_dlpack(x)
    except TypeError:
        raw = None
    if raw is not None:
        return RawTensor(*raw)
    if hasattr(x, "__array__"):
        return _from_numpy(np.asarray(x))
    raise ArgumentError(f"cannot read {type(x).__name__} by DLPack: {reason}")


def _as_numpy(x: Any) -> NDArray[Any]:
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentError("a masked array would lose its mask; compress x.data and x.mask")
    if isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        return np.asarray(x)
    if isinstance(x, str | list | tuple) or x is None:
        raise ArgumentError(f"cannot compress {type(x).__name__}; pass an array, np.array(x)")
    try:
        return np.asarray(memoryview(x))
    except (TypeError, ValueError, BufferError) as error:
        if hasattr(x, "__array__"):
            return np.asarray(x)
        raise ArgumentError(f"cannot compress {type(x).__name__}: {error}") from None


def _from_numpy(array: NDArray[Any], *, named_later: bool = False) -> RawTensor:
    if named_later and array.dtype.kind == "V" and f"u{array.itemsize}" in ("u1", "u2", "u4", "u8"):
        array = array.view(f"u{array.itemsize}")  # raw bits, as NumPy loads unknown types
    dtype = parse_dtype(array.dtype)
    return RawTensor(_flat(array), dtype, array.shape)


def _flat(array: NDArray[Any]) -> Bytes:
    # ascontiguousarray would turn 0-d into 1-d, so the copy is spelled out.
    contiguous = array if array.flags.c_contiguous else array.copy(order="C")
    return contiguous.reshape(-1).view(np.uint8)


def _reinterpret(raw: RawTensor, dtype: str) -> RawTensor:
    """Bytes or integers as the values whose bits they hold."""
    if raw.dtype == dtype:
        return raw
    size, new_size = (numpy_dtype(name).itemsize for name in (raw.dtype, dtype))
    if raw.dtype not in _INTEGERS or size not in (1, new_size):
        raise ArgumentError(
            f"dtype={numpy_dtype(dtype)} says what raw bits mean and x holds "
            f"{numpy_dtype(raw.dtype)}; convert x, or pass x.view() of unsigned integers"
        )
    if size == new_size:
        return RawTensor(raw.data, dtype, raw.shape)
    last = raw.shape[-1] * size if raw.shape else size
    if not raw.shape or last % new_size:
        raise ArgumentError(f"x has rows of {last} bytes, no multiple of {new_size} ({dtype})")
    return RawTensor(raw.data, dtype, (*raw.shape[:-1], last // new_size))


def element_count(shape: Iterable[int]) -> int:
    """Return the product of the sizes, 1 for a scalar."""
    return math.prod(shape)
