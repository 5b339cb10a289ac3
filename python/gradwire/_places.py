"""Where an error happened: the file and the tensor go in front of its message."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from gradwire.errors import FileError, GradwireError


@contextlib.contextmanager
def errors_name(path: str | os.PathLike[str] | None, tensor: str | None = None) -> Iterator[None]:
    """Errors inside name the file and the tensor; those of the system become FileError."""
    place = "" if path is None else f"{os.fspath(path)}: "
    if tensor is not None:
        place += f"tensor {tensor!r}: "
    try:
        yield
    except GradwireError as error:
        raise type(error)(f"{place}{error}") from None
    except OSError as error:
        filename = error.filename if path is None else os.fspath(path)
        raise FileError(error.errno, error.strerror, filename) from None
