"""Many named tensors: batches in memory, .gw files, lazy access to parts of them."""

from __future__ import annotations

import builtins
import contextlib
import mmap
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwire import _core
from gradwire._arrays import (
    Bytes,
    BytesLike,
    raw_bytes,
    raw_tensor,
    to_numpy,
)
from gradwire._codec import TensorInfo, make_info
from gradwire._lazy import Archive
from gradwire._options import method_options, output_budget, thread_count
from gradwire._places import errors_name
from gradwire.errors import ArgumentError, LimitError, TruncatedError

_SINGLE_NAME = "data"  # the command line tool calls the tensor of a .npy file so, too
_DEFAULT_BUDGET = 1 << 30
_DEFAULT_BUDGET_FACTOR = 64


def compress_batch(
    tensors: Mapping[str, Any],
    *,
    method: str = "lossless",
    level: int = 2,
    coder: str = "auto",
    tables: str = "hybrid",
    threads: int = 1,
    checksum: bool = True,
) -> bytes:
    """Compress named tensors into one archive frame, in the order of the mapping.

    tensors: what ``compress`` takes, by name. Options: as for ``compress``. With a lossy method,
    tensors of other types than float32, bfloat16 and float16, and those that it sends exactly, go
    by the other options; the name is what random draws depend on.
    Returns the frame, for ``decompress_batch``; it is also what a .gw file holds.
    Raises ArgumentError, naming the tensor, as ``compress``; thread-safe.

    >>> import gradwire, numpy as np
    >>> frame = gradwire.compress_batch({"w": np.ones((2, 2)), "b": np.zeros(2, np.int8)})
    >>> gradwire.decompress_batch(frame)["b"]
    array([0, 0], dtype=int8)
    """
    options = method_options(method, level, coder, tables, threads, checksum)
    return _archive(tensors, *options).tobytes()


def decompress_batch(
    data: BytesLike, *, max_output: int | None = None, threads: int = 1
) -> dict[str, NDArray[Any]]:
    """Restore all tensors of an archive frame, in the order in which they were added.

    data: bytes-like, one whole archive. max_output: most bytes of values that all tensors together
    may take; the default is max(1 GiB, 64 x input). Raises as ``decompress``; thread-safe.
    """
    frame = raw_bytes(data, "data")
    return _read_all(_reader(frame, max_output, threads), max_output, frame.size)


def info_batch(data: BytesLike) -> dict[str, TensorInfo]:
    """Read the headers of all tensors of an archive frame; no values are decoded.

    >>> import gradwire, numpy as np
    >>> frame = gradwire.compress_batch({"w": np.ones((2, 2)), "b": np.zeros(2, np.int8)})
    >>> {name: found.shape for name, found in gradwire.info_batch(frame).items()}
    {'w': (2, 2), 'b': (2,)}
    """
    reader = _reader(raw_bytes(data, "data"), None, 1)
    return {name: make_info(reader.info(i)) for i, name in enumerate(reader.names())}


def save(
    tensors: Any,
    path: str | os.PathLike[str],
    *,
    method: str = "lossless",
    level: int = 2,
    coder: str = "auto",
    tables: str = "hybrid",
    threads: int = 1,
    checksum: bool = True,
) -> None:
    """Write tensors to a .gw file, replacing it.

    tensors: a mapping from names, or one tensor, which gets the name "data". Options: as for
    ``compress``. The file appears whole or not at all: it is written beside its place, synced and
    renamed. ``gradwire decompress`` makes a .safetensors file of it.
    Raises ArgumentError as ``compress``, FileError when the system refuses.

    >>> import gradwire, numpy as np, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.gw"
    >>> gradwire.save({"w": np.ones((2, 2)), "b": np.zeros(2)}, path, level=1)
    >>> sorted(gradwire.load(path))
    ['b', 'w']
    """
    if not isinstance(tensors, Mapping):
        tensors = {_SINGLE_NAME: tensors}
    options = method_options(method, level, coder, tables, threads, checksum)
    _write_atomically(Path(path), _archive(tensors, *options))


def load(
    path: str | os.PathLike[str], *, max_output: int | None = None, threads: int = 1
) -> dict[str, NDArray[Any]]:
    """Restore all tensors of a .gw file.

    max_output: as for ``decompress_batch``. Raises as it does, and FileError; the message names the
    file. For parts of a file: ``open``.
    """
    with errors_name(path):
        mapped = _map_file(path)
        return _read_all(_reader(mapped, max_output, threads), max_output, mapped.size)


def open(
    path: str | os.PathLike[str], *, max_output: int | None = None, threads: int = 1
) -> Archive:
    """Open a .gw file without decoding it.

    Returns an ``Archive``, which maps names to lazy tensors. max_output: most bytes of values that
    one tensor may take; the default is max(1 GiB, 64 x file). Raises as ``load``.
    The file is mapped into memory: it must not be cut short while it is open.

    >>> import gradwire, numpy as np, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.gw"
    >>> gradwire.save({"w": np.arange(12.0).reshape(4, 3)}, path)
    >>> with gradwire.open(path) as f:
    ...     list(f.keys()), f["w"].shape, f["w"][2:, 0]
    (['w'], (4, 3), array([6., 9.]))
    """
    with errors_name(path):
        return Archive(path, _reader(_map_file(path), max_output, threads))


def _archive(
    tensors: Mapping[str, Any], options: _core.CompressOptions, lossy: str | None
) -> Bytes:
    writer = _core.ArchiveWriter(options)
    for name, tensor in tensors.items():
        with errors_name(None, name):
            raw = raw_tensor(tensor)
            if lossy:
                writer.add_lossy(_checked_name(name), *raw, lossy)
            else:
                writer.add(_checked_name(name), *raw)
    return writer.finish()


def _checked_name(name: Any) -> str:
    if not isinstance(name, str):
        raise ArgumentError(f"names must be strings, got {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentError("the name has no UTF-8 form") from None
    return name


def _reader(data: Bytes, max_output: int | None, threads: int) -> _core.ArchiveReader:
    budget, threads = output_budget(max_output), thread_count(threads)
    if not _core.is_archive(data):
        raise ArgumentError("the frame holds a single tensor; gradwire.decompress restores it")
    return _core.ArchiveReader(data, budget, threads)


def _read_all(
    reader: _core.ArchiveReader, max_output: int | None, input_bytes: int
) -> dict[str, NDArray[Any]]:
    names = reader.names()
    total = sum(reader.info(i)["original_bytes"] for i in range(len(names)))
    default = max(_DEFAULT_BUDGET, _DEFAULT_BUDGET_FACTOR * input_bytes)
    budget = default if max_output is None else max_output
    if total > budget:
        raise LimitError(f"the tensors take {total} bytes, more than max_output={budget}")
    restored = {}
    for i, name in enumerate(names):
        with errors_name(None, name):
            restored[name] = to_numpy(*reader.tensor(i))
    return restored


def _map_file(path: str | os.PathLike[str]) -> Bytes:
    with builtins.open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise TruncatedError("the file is empty")
        # Never closed by hand: it goes with the last array that looks at it.
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _write_atomically(path: Path, data: Bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with errors_name(path):
        try:
            with builtins.open(temporary, "xb") as file:
                file.write(data.data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
