"""The errors that gradwire raises: one base class, one class a kind.

The kinds are those of the C++ library (gradwire/error.h). A message names the operation, the
field, the byte offset or the tensor, the value found and the values allowed.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CorruptError",
    "FileError",
    "GradwireError",
    "LimitError",
    "TransportError",
    "TruncatedError",
    "UnsupportedError",
]


class GradwireError(Exception):
    """Base of all errors that gradwire raises on purpose."""


class ArgumentError(GradwireError, ValueError):
    """The caller can fix the call: a dtype that has no codec, an option out of range."""


class UnsupportedError(GradwireError):
    """A sound frame or request that this build cannot serve, such as a newer version."""


class TruncatedError(GradwireError):
    """The input ends too early; more bytes may help."""


class CorruptError(GradwireError):
    """The input contradicts itself or its checksum."""


class LimitError(GradwireError):
    """A stated limit, such as ``max_output``, would be exceeded."""


class TransportError(GradwireError):
    """A peer failed or disagrees."""


class FileError(GradwireError, OSError):
    """The operating system refused: path, permission, space. Has ``errno`` and ``filename``."""


class UnknownNameError(ArgumentError, KeyError):
    """No tensor has this name. A ``KeyError`` too, as an archive is a mapping."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would quote the sentence
