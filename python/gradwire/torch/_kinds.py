"""Kinds of errors as numbers, as exchanges and verdicts say them, and the classes for them.

In: a kind or an error. Out: the other one. Assumes: numbers are those of ``ErrorKind``.
"""

from __future__ import annotations

from gradwire import errors
from gradwire.errors import GradwireError

TRANSPORT = 6
KINDS: dict[int, type[GradwireError]] = {
    1: errors.ArgumentError,
    2: errors.UnsupportedError,
    3: errors.TruncatedError,
    4: errors.CorruptError,
    5: errors.LimitError,
    TRANSPORT: errors.TransportError,
    7: errors.FileError,
}
_KIND_OF = {error: kind for kind, error in KINDS.items()}


def kind_of(error: GradwireError) -> int:
    """Return the number of an error's class."""
    return _KIND_OF.get(type(error), TRANSPORT)


def verdict_of(error: GradwireError | None, rank: int) -> int:
    """Return what a rank says of a step, for a maximum over all ranks: 0 if all is well."""
    return 0 if error is None else kind_of(error) << 32 | rank


def verdict_text(verdict: int) -> str:
    """Say in words what a verdict other than 0 is."""
    return f"rank {verdict & 0xFFFFFFFF} raised {KINDS[verdict >> 32].__name__}"
