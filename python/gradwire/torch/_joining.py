"""How ranks come together: options are checked and compared, a private group is made.

In: arguments as a user gave them. Out: ``Options`` and ``Peers``, the same options on all ranks.
Assumes: all ranks of the group call it at the same place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from gradwire.errors import ArgumentError
from gradwire.torch._options import Options, make_options
from gradwire.torch._peers import Peers, seconds_to_timeout
from gradwire.torch._rules import Parameters, unknown_parameters

_logger = logging.getLogger("gradwire.torch")


class Wishes(NamedTuple):
    """What a user asks for, unchecked; ``hook`` says what each means."""

    spec: object
    order: object = None
    exchange: object = "auto"
    piece_elements: object = None
    timeout: float | None = None
    rules: object = None
    parameters: Parameters = unknown_parameters  #: that the rules are for


def options_of(wishes: Wishes) -> Options:
    """Check what a user asks for, on this rank alone. Raises ArgumentError."""
    return make_options(
        wishes.spec,
        wishes.order,
        wishes.exchange,
        wishes.piece_elements,
        wishes.rules,
        wishes.parameters,
    )


def join(
    group: Any,
    wishes: Wishes,
    purpose: str,
    check: Callable[[Options], None],
    adds_as_known: Callable[[Peers], bool],
) -> tuple[Options, Peers]:
    """Agree with the ranks of a group.

    group: the user's process group. purpose: what the exchanges are for, compared as well. check:
    raises ArgumentError for options that cannot be had. adds_as_known: tells, alike on all ranks,
    whether Gloo adds in the order that ``order="gloo"`` stands for.
    Raises ArgumentError, on every rank, for a bad option or when ranks differ.
    """
    refusal: ArgumentError | None = None
    limit = None
    try:
        limit = seconds_to_timeout(wishes.timeout)
        options = options_of(wishes)
        check(options)
        head = f"{options.facts()}{'' if wishes.order else ' by default'}{purpose}"
        facts = [head, *options.rules.lines()]
    except ArgumentError as error:  # the others are told before it is raised
        refusal, facts = error, [f"an error: {error}"]
    try:
        peers = Peers(group, limit)
        peers.agree(facts)
    except ArgumentError:
        if refusal is None:
            raise
    if refusal is not None:
        raise refusal
    if options.asks_for_link:
        options = options.for_link(peers.link_bytes_per_s())
    return _settle_order(options, wishes.order is not None, peers, adds_as_known), peers


def _settle_order(
    options: Options, is_explicit: bool, peers: Peers, adds_as_known: Callable[[Peers], bool]
) -> Options:
    if options.order != "gloo" or not options.spec.method or peers.world < 2:
        return options
    if adds_as_known(peers):
        return options
    if is_explicit:
        raise ArgumentError(
            "order='gloo': this PyTorch's Gloo adds in another order than the one known here; "
            "use order='rank'"
        )
    _logger.warning("this PyTorch's Gloo adds in an unknown order; sums are made in rank order")
    return options.with_order("rank")
