"""The ways in: ``attach`` for a model, ``hook`` for a pair to register by hand, ``stats``.

In: a DDP model, a spec. Out: gradients that travel compressed. Assumes: all ranks call it alike.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from gradwire.errors import ArgumentError
from gradwire.torch._options import Options, make_options
from gradwire.torch._peers import Peers, seconds_to_timeout
from gradwire.torch._state import HookState
from gradwire.torch._stats import Stats

_logger = logging.getLogger("gradwire.torch")
_states: weakref.WeakKeyDictionary[Any, HookState] = weakref.WeakKeyDictionary()

DdpHook = Callable[[HookState, Any], Any]


def hook(
    spec: str,
    *,
    group: Any = None,
    order: str | None = None,
    exchange: str = "auto",
    piece_elements: int | None = None,
    timeout: float | None = None,
) -> tuple[HookState, DdpHook]:
    """Make the pair that ``DistributedDataParallel.register_comm_hook`` takes.

    spec: "lossless", "lossless(level=3)", "lossless(coder=stored)", "none" (one plain all-reduce a
    bucket), "bf16", "fp16" (float32 and float64 gradients are rounded to it, which is lossy),
    "bf16+lossless", "fp16+lossless"; "auto", "auto(every=2000)", "bf16+auto", "fp16+auto" measure
    which of the ways with these bits is the quickest, and again every 2000 steps. The environment
    variable GRADWIRE_DISABLE=1 makes it "none".
    group: the process group that DDP uses; the default one otherwise. A Gloo group of the same
    ranks is made, so all of them must call this at the same place.
    order: in which order ranks are added. "gloo": the bits of DDP on Gloo without a hook. "rank":
    x0 + x1 + ... in float32, whatever backend or bucketing (see ``reference_mean``). None: "gloo",
    or "rank", with a log line, where this Gloo adds in another order.
    exchange: "two_shot" (to owners that add, and back), "gather_merge" (every rank to every other
    one), "auto": gather_merge with 2 ranks. The bits are the same.
    piece_elements: elements that are encoded and sent at a time; 96 KiB of them otherwise.
    timeout: seconds after which a peer counts as gone; the group's own otherwise.

    Returns (state, hook): one pair a model. Buckets of other dtypes and sparse ones take a plain
    all-reduce. Raises ArgumentError, on every rank, for a bad option or when ranks differ in
    options or library version.
    """
    state = _make_state(spec, group, order, exchange, piece_elements, timeout)
    return state, _make_hook()


def attach(model: Any, spec: str, rules: Any = None, **options: Any) -> HookState:
    """Send the gradients of a DDP model as a spec says.

    model: DistributedDataParallel, also inside ``torch.compile``, before its first backward pass
    and without another hook. spec, options: as for ``hook``. rules: not there yet; None.
    Returns the state; ``stats(model)`` and ``state.state_dict()`` are what it is for.
    Raises ArgumentError for what cannot be done, and as ``hook``.
    """
    ddp = _ddp_of(model)
    if rules is not None:
        raise ArgumentError("rules by parameter are not there yet: one spec holds for the model")
    if ddp in _states:
        raise ArgumentError("this model has a gradwire hook already; DDP takes one")
    options.setdefault("group", ddp.process_group)
    state, ddp_hook = hook(spec, **options)
    ddp.register_comm_hook(state, ddp_hook)
    _states[ddp] = state
    return state


def stats(model: Any) -> Stats:
    """Return the totals of a model that ``attach`` has been called for, on this rank.

    Raises ArgumentError for a model without a hook of gradwire.
    """
    ddp = _ddp_of(model)
    if ddp not in _states:
        raise ArgumentError("this model has no hook from gradwire.torch.attach")
    return _states[ddp].stats()


def _make_state(
    spec: object,
    group: Any,
    order: object,
    exchange: object,
    piece_elements: object,
    timeout: float | None,
) -> HookState:
    refusal: ArgumentError | None = None
    limit = None
    try:
        limit = seconds_to_timeout(timeout)
        options = make_options(spec, order or "gloo", exchange, piece_elements)
        facts = f"{options.facts()}{'' if order else ' by default'}"
    except ArgumentError as error:  # the others are told before it is raised
        refusal, facts = error, f"an error: {error}"
    try:
        peers = Peers(group, limit)
        peers.agree(facts)
    except ArgumentError:
        if refusal is None:
            raise
    if refusal is not None:
        raise refusal
    return HookState(_settle_order(options, order is not None, peers), peers)


def _settle_order(options: Options, is_explicit: bool, peers: Peers) -> Options:
    if options.order != "gloo" or not options.spec.method or peers.world < 2:
        return options
    if peers.adds_like_gloo():
        return options
    if is_explicit:
        raise ArgumentError(
            "order='gloo': this PyTorch's Gloo adds in another order than the one known here; "
            "use order='rank'"
        )
    _logger.warning("this PyTorch's Gloo adds in an unknown order; sums are made in rank order")
    return options.with_order("rank")


def _make_hook() -> DdpHook:
    # DDP wants a second parameter named `bucket`, and annotations that are its own types or none.
    def gradwire_hook(state, bucket):  # type: ignore[no-untyped-def]
        return state.reduce(bucket)

    return gradwire_hook


def _ddp_of(model: Any) -> Any:
    unwrapped = getattr(model, "_orig_mod", model)  # of torch.compile
    if isinstance(unwrapped, DistributedDataParallel):
        return unwrapped
    kind = type(unwrapped).__name__
    if "FullyShardedDataParallel" in kind or kind.startswith("FSDP"):
        raise ArgumentError(f"{kind}: sharded models are not there yet; only DDP is")
    raise ArgumentError(
        f"{kind} is no DistributedDataParallel; wrap the model in it and attach to the wrapper"
    )
