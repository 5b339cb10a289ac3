"""The options of a hook. In: keyword arguments. Out: ``Options``, checked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

import gradwire
from gradwire.dtypes import numpy_dtype
from gradwire.errors import ArgumentError
from gradwire.torch._rules import Parameters, Rules, make_rules, unknown_parameters
from gradwire.torch._spec import Spec, parse_spec

_WAYS = ("auto", "two_shot", "gather_merge")
_ORDERS = ("gloo", "rank")
_MAX_PIECE = 2**24
# What a link moves in some milliseconds: larger pieces leave a slow link idle, smaller ones cost a
# quick one more than they hide. Both measured by bench/training.
_PIECE_S = 6e-3
_LEAST_PIECE_BYTES, _MOST_PIECE_BYTES = 96 * 1024, 1024 * 1024


@dataclass(frozen=True)
class Options:
    """What all ranks must agree on."""

    spec: Spec
    order: str
    exchange: str
    piece_elements: int | None  #: None: as many as ``piece_bytes`` hold
    rules: Rules = field(default_factory=Rules)
    piece_bytes: int = _LEAST_PIECE_BYTES  #: follows from the link, so that no rank states it

    def way(self, world: int) -> str:
        """The exchange that is used: one way only where that costs no more bytes."""
        if self.exchange != "auto":
            return self.exchange
        return "gather_merge" if world == 2 else "two_shot"

    def piece_of(self, dtype: str) -> int:
        """Elements of a dtype that are encoded and sent at a time."""
        return self.piece_elements or self.piece_bytes // numpy_dtype(dtype).itemsize

    def labels(self) -> list[str]:
        """The names of groups for statistics: the spec of what no rule matches, then the rules."""
        return [self.spec.text, *self.rules.labels()]

    def facts(self) -> str:
        """One line, the same on ranks that understand each other; rules have their own."""
        return (
            f"spec {self.spec.text!r}, order {self.order!r}, exchange {self.exchange!r}, "
            f"piece_elements {self.piece_elements}, gradwire {gradwire.__version__}"
        )

    @property
    def asks_for_link(self) -> bool:
        """Tell whether ``for_link`` makes a difference; lossy methods cut whole tensors."""
        is_cut = self.spec.method is not None and not self.spec.is_lossy
        return is_cut and self.piece_elements is None

    def for_link(self, bytes_per_s: float) -> Options:
        """Pieces for a link of this rate, which all ranks have joined."""
        wanted = min(bytes_per_s * _PIECE_S, _MOST_PIECE_BYTES)
        return replace(self, piece_bytes=max(int(wanted), _LEAST_PIECE_BYTES))

    def with_order(self, order: str) -> Options:
        return replace(self, order=order)


def make_options(
    spec: object,
    order: object,
    exchange: object,
    piece_elements: object,
    rules: object = None,
    parameters: Parameters = unknown_parameters,
) -> Options:
    """Check the arguments of ``hook``; GRADWIRE_DISABLE=1 makes every spec "none" without rules."""
    parsed, checked = parse_spec(spec), make_rules(rules, parameters)
    if parsed.is_lossy:
        _check_lossy(parsed, order, exchange, checked)
        order = order or "rank"
    if is_disabled():
        parsed, checked = parse_spec("none"), Rules()
    if checked and parsed.method is None:
        stored = f"{parsed.text}+" if parsed.cast else ""
        raise ArgumentError(
            f"spec {spec!r} with rules: it makes plain all-reduces, inside which tensors are not "
            f"coded; say '{stored}lossless(coder=stored)' for what no rule matches"
        )
    return Options(
        parsed,
        _one_of("order", order or "gloo", _ORDERS),
        _one_of("exchange", exchange, _WAYS),
        _piece(piece_elements),
        checked,
    )


def is_disabled() -> bool:
    """Tell whether the environment says that nothing is to be compressed."""
    return os.environ.get("GRADWIRE_DISABLE", "0") not in ("", "0")


def _check_lossy(spec: Spec, order: object, exchange: object, rules: Rules) -> None:
    if order == "gloo":
        raise ArgumentError(
            f"order='gloo': spec {spec.text!r} adds what ranks have sent in the order of ranks"
        )
    if exchange != "auto":
        raise ArgumentError(f"exchange={exchange!r}: spec {spec.text!r} has its own way")
    others = [text for text in rules.specs() if text != "lossless"]
    if others:
        raise ArgumentError(
            f"rules with spec {others[0]!r}: beside {spec.text!r} a rule can only say that "
            "parameters go exactly, by spec='lossless'"
        )


def _one_of(name: str, value: object, words: tuple[str, ...]) -> str:
    for word in words:
        if value == word:
            return word
    raise ArgumentError(f"{name} must be one of {', '.join(words)}, got {value!r}")


def _piece(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_PIECE:
        raise ArgumentError(f"piece_elements must be 1 to {_MAX_PIECE}, got {value!r}")
    return value
