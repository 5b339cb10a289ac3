"""Keyword arguments as options of the C++ library, with errors that name the argument."""

from __future__ import annotations

import operator
from typing import Any

from gradwire import _core
from gradwire.errors import ArgumentError

_MAX_INT = 2**31 - 1
_MAX_THREADS = 1024
_MAX_SIZE = 2**63 - 1


def compress_options(
    method: str, level: int, coder: str, tables: str, threads: int, checksum: bool
) -> _core.CompressOptions:
    return _core.compress_options(
        _word("method", method),
        _whole_number("level", level, 1, _MAX_INT),
        _word("coder", coder),
        _word("tables", tables),
        thread_count(threads),
        bool(checksum),
    )


def method_options(
    method: str, level: int, coder: str, tables: str, threads: int, checksum: bool
) -> tuple[_core.CompressOptions, str | None]:
    """Options, and the method if it is a lossy one: options are then for what goes exactly."""
    spec = lossy_spec(method) if _core.is_lossy_method(_word("method", method)) else None
    exact = "lossless" if spec else method
    return compress_options(exact, level, coder, tables, threads, checksum), spec


def lossy_spec(method: str) -> str:
    """The canonical form; raises ArgumentError for what names no lossy method."""
    return _core.canonical_method(_word("method", method))


def thread_count(threads: int) -> int:
    return _whole_number("threads", threads, 1, _MAX_THREADS)


def output_budget(max_output: int | None) -> int:
    """0 stands for the library's default, max(1 GiB, 64 x input)."""
    return 0 if max_output is None else _whole_number("max_output", max_output, 1, _MAX_SIZE)


def _whole_number(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name} must be a whole number, got {value!r}") from None
    if not least <= number <= most:
        raise ArgumentError(f"{name} must be {least} to {most}, got {number}")
    return number


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{name} must be a string, got {value!r}")
    return value
