"""Compress and decompress whole tensors: the calls that most programs need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from gradwire import _core
from gradwire._arrays import (
    BytesLike,
    output_bytes,
    raw_bytes,
    raw_tensor,
    to_numpy,
    to_torch,
)
from gradwire._options import method_options, output_budget, thread_count
from gradwire.dtypes import numpy_dtype, parse_dtype
from gradwire.errors import ArgumentError

Framework = Literal["numpy", "torch"]


def compress(
    x: Any,
    *,
    method: str = "lossless",
    level: int = 2,
    coder: str = "auto",
    tables: str = "hybrid",
    threads: int = 1,
    dtype: Any = None,
    checksum: bool = True,
) -> bytes:
    """Compress one tensor into one frame.

    x: NumPy array or scalar, torch tensor on the CPU, or anything that exports DLPack or the buffer
    protocol; any shape; float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2, integers
    of 8 to 64 bits, bool. It is not modified, and copied only when not in row-major order.
    method: "lossless", "lossless(level=3,coder=ans)" or "none" (stored); what it names goes before
    the keywords. Or a lossy one, such as "topk(keep=0.01)": see ``compress_lossy``. level: 1
    (published exponent coding), 2, 3 (smallest, slowest). coder: "auto", "huffman", "ans",
    "stored". tables: "hybrid", "dynamic", "static", "gennorm".
    threads: the bytes do not depend on it. checksum: cover headers and values by XXH3-64.
    dtype: what the bits of bytes or integers mean, as in ``compress(bits, dtype="bfloat16")``.

    Returns the frame; at most ``compress_bound(dtype, n)`` bytes (lossy methods may pass that),
    usually 40 to 90 % of the input.
    Raises ArgumentError for a dtype without codec, an unknown word, a number out of range.
    Thread-safe; other Python threads run meanwhile. Peak memory: the frame twice, 4 MiB a thread.

    >>> import gradwire, numpy as np
    >>> gradient = np.random.default_rng(1).normal(0, 1e-3, (64, 256)).astype(np.float32)
    >>> frame = gradwire.compress(gradient)
    >>> len(frame) < gradient.nbytes
    True
    >>> gradwire.decompress(frame).tobytes() == gradient.tobytes()
    True
    """
    options, lossy = method_options(method, level, coder, tables, threads, checksum)
    tensor = raw_tensor(x, dtype)
    if lossy:
        return _core.compress_lossy(*tensor, lossy, "", bool(checksum), report=False)[0]
    return _core.compress(*tensor, options)


@overload
def decompress(
    data: BytesLike,
    *,
    out: None = None,
    max_output: int | None = None,
    threads: int = 1,
    framework: Literal["numpy"] = "numpy",
) -> NDArray[Any]: ...
@overload
def decompress(
    data: BytesLike,
    *,
    out: Any,
    max_output: int | None = None,
    threads: int = 1,
    framework: Framework = "numpy",
) -> Any: ...
@overload
def decompress(
    data: BytesLike,
    *,
    out: None = None,
    max_output: int | None = None,
    threads: int = 1,
    framework: Literal["torch"],
) -> Any: ...
def decompress(
    data: BytesLike,
    *,
    out: Any = None,
    max_output: int | None = None,
    threads: int = 1,
    framework: Framework = "numpy",
) -> Any:
    """Restore the tensor of one frame: every bit of it, or what a lossy method made of it.

    data: one whole frame, as bytes, bytearray, memoryview, mmap or uint8 array; not modified.
    out: NumPy array or torch CPU tensor of the frame's dtype and shape, row-major and writable; the
    values go straight into it. Its content is undefined after an error.
    max_output: most bytes of values that may be restored; the default is max(1 GiB, 64 x input).
    framework: "torch" for a tensor. Neither has an effect with ``out``.

    Returns ``out``, or a new array of the frame's dtype (ml_dtypes for bfloat16 and float8) and
    shape that owns its memory; ``torch.from_numpy`` shares it.
    Raises TruncatedError, CorruptError, UnsupportedError (newer version), LimitError (max_output),
    ArgumentError (``out`` does not fit, ``data`` is no buffer or an archive).
    Thread-safe; other Python threads run meanwhile.

    >>> import gradwire, numpy as np
    >>> frame = gradwire.compress(np.arange(6, dtype=np.int32).reshape(2, 3))
    >>> gradwire.decompress(frame)
    array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    >>> out = np.empty((2, 3), np.int32)
    >>> gradwire.decompress(frame, out=out) is out
    True
    """
    _check_framework(framework)
    budget, workers = output_budget(max_output), thread_count(threads)
    frame = _single_frame(data, "decompress_batch")
    if out is not None:
        memory = output_bytes(out, *_core.tensor_header(frame))
        _core.decompress_into(frame, memory, budget, workers)
        return out
    restored = _core.decompress(frame, budget, workers)
    return to_torch(*restored) if framework == "torch" else to_numpy(*restored)


def lossless_methods() -> list[str]:
    """Return the methods that restore every bit, as ``compress`` takes them.

    >>> import gradwire
    >>> gradwire.lossless_methods()
    ['lossless', 'none']
    """
    return [name for name, traits in _core.methods() if not traits.startswith("lossy")]


def compress_bound(dtype: Any, n: int) -> int:
    """Return the most bytes that the frame of a tensor can take.

    dtype: as for ``compress``. n: number of elements, at least 0.
    Raises ArgumentError for an unknown dtype or an n that cannot be.

    >>> import gradwire
    >>> gradwire.compress_bound("float32", 1000) >= 4000
    True
    """
    if not 0 <= n < 2**62:
        raise ArgumentError(f"n must be 0 to 2^62 - 1, got {n}")
    return _core.compress_bound(parse_dtype(dtype), n)


@dataclass(frozen=True)
class TensorInfo:
    """What a frame holds, and what was chosen in each stage of the codec."""

    name: str  #: "" for a frame of one tensor
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    elements: int
    original_bytes: int
    compressed_bytes: int
    pipeline: str  #: "planes", "scaled", "kernels", "lossy"
    prediction: str
    signs: str
    zeros: str
    fractions: str
    tables: str
    chunks: int
    constant_chunks: int
    stored_chunks: int
    checksums: bool

    @property
    def size_fraction(self) -> float:
        """Compressed by original size, lower is better; 1.0 for an empty tensor."""
        return self.compressed_bytes / self.original_bytes if self.original_bytes else 1.0

    @property
    def bits_per_value(self) -> float:
        """Bits that an element takes; 0.0 for an empty tensor."""
        return 8 * self.compressed_bytes / self.elements if self.elements else 0.0


def make_info(fields: dict[str, Any]) -> TensorInfo:
    return TensorInfo(**{**fields, "dtype": numpy_dtype(fields["dtype"])})


def info(data: BytesLike) -> TensorInfo:
    """Read the headers of a frame of one tensor; no values are decoded.

    data: bytes-like, one whole frame. Raises as ``decompress``. For an archive: ``info_batch``.

    >>> import gradwire, numpy as np
    >>> found = gradwire.info(gradwire.compress(np.zeros((3, 5), np.float16)))
    >>> found.shape, found.dtype, found.original_bytes
    ((3, 5), dtype('float16'), 30)
    """
    return make_info(_core.tensor_info(_single_frame(data, "info_batch")))


def order0_bound(x: Any, *, dtype: Any = None) -> float:
    """Return the order-0 bound of a tensor, as a share of its size.

    x, dtype: as for ``compress``. For floats it is the entropy of the exponents, and of each whole
    byte of the fraction, with signs and other bits as they are: what coders without a model cannot
    go below. For other dtypes it is the entropy of the bytes, plane by plane. Raises ArgumentError
    as ``compress``.

    >>> import gradwire, numpy as np
    >>> gradwire.order0_bound(np.full(1000, 1.5, np.float16))  # sign and two odd bits remain
    0.1875
    """
    return _core.order0_bound(*raw_tensor(x, dtype))


def zero_share(x: Any, *, dtype: Any = None) -> float:
    """Return the share of elements whose bits are all zero (so -0.0 is none).

    x, dtype: as for ``compress``. Raises ArgumentError as ``compress``.

    >>> import gradwire, numpy as np
    >>> gradwire.zero_share(np.array([0.0, -0.0, 1.0, 0.0], np.float32))
    0.5
    """
    return _core.zero_share(*raw_tensor(x, dtype))


def _single_frame(data: Any, batch_function: str) -> NDArray[np.uint8]:
    frame = raw_bytes(data, "data")
    if _core.is_archive(frame):
        raise ArgumentError(f"data is an archive of many tensors; use {batch_function}")
    return frame


def _check_framework(framework: str) -> None:
    if framework not in ("numpy", "torch"):
        raise ArgumentError(f"framework must be 'numpy' or 'torch', got {framework!r}")
