"""Contexts that keep working memory between calls, and streaming in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradwire import _core
from gradwire._arrays import (
    BytesLike,
    output_bytes,
    raw_bytes,
    raw_tensor,
    to_numpy,
    writable_bytes,
)
from gradwire._options import compress_options, output_budget, thread_count
from gradwire.dtypes import numpy_dtype, parse_dtype
from gradwire.errors import ArgumentError, CorruptError, GradwireError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Compressor:
    """Compress many tensors with the same options and the same working memory.

    Options: as for ``compress``. After the first tensor of a size, ``compress_into`` allocates
    nothing. Calls from several threads wait for each other. Raises ArgumentError for bad options.

    >>> import gradwire, numpy as np
    >>> compressor = gradwire.Compressor(level=1)
    >>> buffer = bytearray(gradwire.compress_bound("float32", 1000))
    >>> for step in range(3):
    ...     n = compressor.compress_into(np.full(1000, step, np.float32), buffer)
    ...     assert gradwire.decompress(memoryview(buffer)[:n])[0] == step
    """

    def __init__(
        self,
        *,
        method: str = "lossless",
        level: int = 2,
        coder: str = "auto",
        tables: str = "hybrid",
        threads: int = 1,
        checksum: bool = True,
    ) -> None:
        options = compress_options(method, level, coder, tables, threads, checksum)
        self._context = _core.CompressContext(options)
        self._streamed = ""  # dtype of the tensor between begin and finish

    def compress(self, x: Any, *, dtype: Any = None) -> bytes:
        """Compress one tensor; see ``gradwire.compress``."""
        return self._context.compress(*raw_tensor(x, dtype))

    def compress_into(self, x: Any, out: BytesLike, *, dtype: Any = None) -> int:
        """Compress one tensor into memory of the caller.

        out: writable and contiguous, such as a bytearray; ``compress_bound`` tells a size that is
        enough. Returns the number of bytes written. Raises ArgumentError when out is too small.
        """
        return self._context.compress_into(*raw_tensor(x, dtype), writable_bytes(out))

    def begin(self, dtype: Any, shape: Sequence[int]) -> None:
        """Begin a tensor whose data come in pieces; drops one that was not finished.

        The pieces are kept until ``finish``: plan and tables depend on the whole tensor and stand
        before the values, so peak memory is the tensor and its frame. Raises ArgumentError for an
        unknown dtype or a shape that cannot be.

        >>> import gradwire, numpy as np
        >>> compressor = gradwire.Compressor()
        >>> compressor.begin("float32", (2, 3))
        >>> for row in np.eye(2, 3, dtype=np.float32):
        ...     compressor.feed(row)
        >>> gradwire.decompress(compressor.finish())
        array([[1., 0., 0.],
               [0., 1., 0.]], dtype=float32)
        """
        name = parse_dtype(dtype)
        dims = tuple(shape)
        if not all(isinstance(dim, int) and 0 <= dim < 2**63 for dim in dims):
            raise ArgumentError(f"shape must hold whole numbers below 2^63, got {dims}")
        self._context.begin(name, dims)
        self._streamed = name

    def feed(self, data: Any) -> None:
        """Take the next piece: bytes, or an array of the tensor's dtype, in row-major order.

        Raises ArgumentError without ``begin``, for another dtype, for more than the tensor has.
        """
        if not self._streamed:
            raise ArgumentError("feed needs begin(dtype, shape) first")
        piece = raw_tensor(data)
        if piece.dtype not in (self._streamed, "u8"):
            found, wanted = numpy_dtype(piece.dtype), numpy_dtype(self._streamed)
            raise ArgumentError(f"piece has dtype {found}, the tensor {wanted}")
        self._context.feed(piece.data)

    def finish(self) -> bytes:
        """Return the frame of what was fed; raises ArgumentError when that is no whole tensor."""
        if not self._streamed:
            raise ArgumentError("finish needs begin(dtype, shape) first")
        self._streamed = ""
        return self._context.finish()


class Decompressor:
    """Restore many tensors with the same working memory, or one whose frame comes in pieces.

    max_output, threads: as for ``decompress``. After the first frame of a size, ``decompress`` with
    ``out`` allocates nothing of size. Calls from several threads wait for each other.

    >>> import gradwire, numpy as np
    >>> frame = gradwire.compress(np.arange(5.0))
    >>> decompressor = gradwire.Decompressor()
    >>> decompressor.decompress(frame)
    array([0., 1., 2., 3., 4.])
    """

    def __init__(self, *, max_output: int | None = None, threads: int = 1) -> None:
        self._arguments = output_budget(max_output), thread_count(threads)
        self._context = _core.DecompressContext(*self._arguments)
        self._complete = False
        self._drained = False  # in part, since the frame began

    def decompress(self, data: BytesLike, *, out: Any = None) -> NDArray[Any]:
        """Restore the tensor of one frame; see ``gradwire.decompress``."""
        frame = raw_bytes(data, "data")
        if out is None:
            return to_numpy(*self._context.decompress(frame))
        self._context.decompress_into(frame, output_bytes(out, *_core.tensor_header(frame)))
        restored: NDArray[Any] = out
        return restored

    def feed(self, data: BytesLike) -> bool:
        """Take the next piece of a frame, of any size.

        Each chunk is restored as soon as it is complete; ``drain`` hands over what there is, and
        ``finish`` the rest. The checksums stand at the end of the frame: values are verified once
        this returns True, which says that the frame is complete. Raises as ``decompress``, which
        voids what was drained before; CorruptError for bytes behind the frame. Without max_output
        the limit is that of the bytes fed so far.

        >>> import gradwire, numpy as np
        >>> frame = gradwire.compress(np.arange(4, dtype=np.uint8))
        >>> decompressor = gradwire.Decompressor()
        >>> [decompressor.feed(frame[i : i + 40]) for i in range(0, len(frame), 40)][-1]
        True
        >>> decompressor.finish()
        array([0, 1, 2, 3], dtype=uint8)
        """
        piece = raw_bytes(data, "data")
        if self._complete:
            if piece.size:
                raise CorruptError(f"feed: {piece.size} bytes behind the end of the frame")
            return True
        try:
            self._complete = self._context.feed(piece)
        except GradwireError:
            self.reset()
            raise
        return self._complete

    def header(self) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
        """Return dtype and shape of the frame being fed; None until its head has come in."""
        found = self._context.header()
        if found is None:
            return None
        dtype, shape = found
        return numpy_dtype(dtype), tuple(shape)

    def drain(self) -> NDArray[Any]:
        """Return the elements restored since the last call, in one dimension, and let go of them.

        So a large tensor can be written on while its frame comes in: memory is a piece and a few
        chunks. Empty when there are none yet. They are verified only when ``feed`` returns True.

        >>> import gradwire, numpy as np
        >>> frame = gradwire.compress(np.arange(200_000, dtype=np.float32))
        >>> decompressor, total = gradwire.Decompressor(), 0
        >>> for i in range(0, len(frame), 10_000):
        ...     done = decompressor.feed(frame[i : i + 10_000])
        ...     total += decompressor.drain().size
        >>> done, total
        (True, 200000)
        """
        data, dtype, _ = self._context.take()
        self._drained = self._drained or data.size > 0
        return to_numpy(data, dtype, (-1,))

    def finish(self) -> NDArray[Any]:
        """Return the tensor that was fed: all of it, or after ``drain`` the rest in one dimension.

        Raises TruncatedError when its frame is not complete; more of it may still be fed then.
        """
        if not self._complete:
            raise TruncatedError("finish: the frame is not complete; feed the rest of it")
        data, dtype, shape = self._context.take()
        if self._drained:
            shape = (-1,)
        self._complete = self._drained = False
        return to_numpy(data, dtype, shape)

    def reset(self) -> None:
        """Drop what was fed and begin anew."""
        self._complete = self._drained = False
        self._context = _core.DecompressContext(*self._arguments)
