"""Archives that are decoded on demand: names, lazy tensors, slices.

In: a reader over a mapped file. Out: arrays of what was asked for. Assumes: the file stays put.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradwire import _core
from gradwire._arrays import element_count, output_bytes, to_numpy
from gradwire._codec import TensorInfo, make_info
from gradwire._places import errors_name
from gradwire.errors import ArgumentError, UnknownNameError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class Archive(Mapping[str, "LazyTensor"]):
    """The tensors of an open .gw file by name, in their order. Thread-safe.

    Looking up a name that is not there raises an error that is an ArgumentError and a KeyError.
    """

    def __init__(self, path: str | os.PathLike[str], reader: _core.ArchiveReader) -> None:
        self._path = path
        self._reader: _core.ArchiveReader | None = reader
        self._names = {name: index for index, name in enumerate(reader.names())}

    def __getitem__(self, name: str) -> LazyTensor:
        return LazyTensor(self, self._index(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<gradwire.Archive of {len(self)} tensor{'' if len(self) == 1 else 's'}>"

    def info(self, name: str) -> TensorInfo:
        """Return what the headers of a tensor say; no values are decoded."""
        index = self._index(name)
        with errors_name(self._path):
            return make_info(self.live_reader.info(index))

    def close(self) -> None:
        """Let go of the file; lazy tensors can no longer be read, arrays stay."""
        self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def live_reader(self) -> _core.ArchiveReader:
        """For ``LazyTensor``; raises ArgumentError once the file is closed."""
        if self._reader is None:
            raise ArgumentError(f"{os.fspath(self._path)} is closed")
        return self._reader

    @property
    def path(self) -> str:
        """The file's path, as it was given."""
        return os.fspath(self._path)

    def _index(self, name: str) -> int:
        if name in self._names:
            return self._names[name]
        try:
            return self.live_reader.find(str(name))
        except ArgumentError as error:
            raise UnknownNameError(f"{self.path}: {error}") from None


class LazyTensor:
    """A tensor of an open file; indexing decodes only the chunks that are needed.

    ``t[a:b]`` and ``t[i]`` along the first dimension decode those rows, ``t[...]`` and
    ``numpy.asarray(t)`` all of it; further indices work as on arrays. Every result is a new array.
    """

    def __init__(self, archive: Archive, index: int) -> None:
        self._archive = archive
        self._index = index
        with errors_name(archive.path):
            self._info = make_info(archive.live_reader.info(index))

    @property
    def name(self) -> str:
        return self._info.name

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._info.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._info.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self._info.elements

    @property
    def nbytes(self) -> int:
        return self._info.original_bytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.read())

    def __repr__(self) -> str:
        return f"<gradwire.LazyTensor {self.name!r} {self.dtype} {self.shape}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a lazy tensor cannot become an array without a copy")
        array = self.read()
        return array if dtype is None else array.astype(dtype, copy=False)

    def read(self, *, out: Any = None) -> NDArray[Any]:
        """Decode the whole tensor.

        out: as for ``decompress``. Raises as ``decompress``, naming file and tensor.
        """
        with errors_name(self._archive.path, self.name):
            reader = self._archive.live_reader
            if out is None:
                return to_numpy(*reader.tensor(self._index))
            name = reader.info(self._index)["dtype"]
            reader.tensor_into(self._index, output_bytes(out, name, self.shape))
            restored: NDArray[Any] = out
            return restored

    def __getitem__(self, key: Any) -> Any:
        first, *rest = key if isinstance(key, tuple) and key else (key,)
        columns = tuple(rest)
        if self.shape and isinstance(first, slice):
            rows = range(*first.indices(self.shape[0]))
            low, high = (min(rows), max(rows) + 1) if rows else (0, 0)
            part = self._rows(low, high)[:: rows.step]
            selection = (slice(None), *columns)
            return part[selection] if columns else part
        row = _row_number(first) if self.shape else None
        if row is None:
            return self.read()[key]
        if not -self.shape[0] <= row < self.shape[0]:
            raise IndexError(f"index {row} is out of bounds for {self.shape[0]} rows")
        row %= self.shape[0]
        selection = (0, *columns)
        return self._rows(row, row + 1)[selection]

    def _rows(self, low: int, high: int) -> NDArray[Any]:
        """Rows low .. high - 1 along the first dimension."""
        shape = (high - low, *self.shape[1:])
        row_elements = element_count(self.shape[1:])
        if element_count(shape) == 0:
            return np.empty(shape, self.dtype)
        with errors_name(self._archive.path, self.name):
            data = self._archive.live_reader.range(
                self._index, low * row_elements, high * row_elements
            )
        rows: NDArray[Any] = data.view(self.dtype).reshape(shape)
        return rows


def _row_number(key: Any) -> int | None:
    if isinstance(key, bool | np.bool_):  # a mask without dimensions, to NumPy
        return None
    try:
        return operator.index(key)
    except TypeError:
        return None
