"""The ways in: ``attach`` for a model, ``hook`` for a pair to register by hand, ``stats``.

In: a DDP or FSDP model, a spec. Out: gradients that travel compressed. Assumes: all ranks call it
alike.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from gradwire.errors import ArgumentError
from gradwire.torch._joining import Wishes, join
from gradwire.torch._names import Names
from gradwire.torch._options import Options
from gradwire.torch._peers import Peers
from gradwire.torch._roles import describe
from gradwire.torch._rules import Parameters, Rule, unknown_parameters
from gradwire.torch._sharded import ShardedState, attach_sharded, is_sharded
from gradwire.torch._state import HookState
from gradwire.torch._stats import Stats

_states: weakref.WeakKeyDictionary[Any, HookState | ShardedState] = weakref.WeakKeyDictionary()

DdpHook = Callable[[HookState, Any], Any]


def hook(
    spec: str,
    *,
    group: Any = None,
    order: str | None = None,
    exchange: str = "auto",
    piece_elements: int | None = None,
    timeout: float | None = None,
    rules: Sequence[Rule] | None = None,
    model: Any = None,
) -> tuple[HookState, DdpHook]:
    """Make the pair that ``DistributedDataParallel.register_comm_hook`` takes.

    spec: "lossless", "lossless(level=3)", "lossless(coder=stored)", "none" (one plain all-reduce a
    bucket), "bf16", "fp16" (float32 and float64 gradients are rounded to it, which is lossy),
    "bf16+lossless", "fp16+lossless"; "auto", "auto(every=2000)", "bf16+auto", "fp16+auto" measure
    which of the ways with these bits is the quickest, and again every 2000 steps. A lossy method,
    "dgc(keep=0.001)", "topk(keep=0.01)", "qsgd" and so on, gives all ranks the mean of what they
    have sent. The environment variable GRADWIRE_DISABLE=1 makes it "none".
    group: the process group that DDP uses; the default one otherwise. A Gloo group of the same
    ranks is made, so all of them must call this at the same place.
    order: in which order ranks are added. "gloo": the bits of DDP on Gloo without a hook. "rank":
    x0 + x1 + ... in float32, whatever backend or bucketing (see ``reference_mean``). None: "gloo",
    or "rank", with a log line, where this Gloo adds in another order. Lossy methods have "rank".
    exchange: "two_shot" (to owners that add, and back), "gather_merge" (every rank to every other
    one), "auto": gather_merge with 2 ranks. The bits are the same.
    piece_elements: elements that are encoded and sent at a time; None: what the link, measured
    once, moves in 6 ms, between 96 KiB and 1 MiB.
    timeout: seconds after which a peer counts as gone; the group's own otherwise.
    rules: see ``attach``. model: the module that they are for, wrapped by DDP or not yet; needed
    with rules and with a lossy method, which keeps what it has not sent by parameter name.

    Returns (state, hook): one pair a model. Buckets of other dtypes and sparse ones take a plain
    all-reduce. Raises ArgumentError, on every rank, for a bad option or when ranks differ in
    options or library version.
    """
    wishes = Wishes(spec, order, exchange, piece_elements, timeout, rules, _parameters_of(model))

    def check(options: Options) -> None:
        if options.spec.is_lossy and model is None:
            raise ArgumentError(
                f"spec {spec!r}: what is not sent is kept by parameter name, which a hook is not "
                "told: use gradwire.torch.attach(model, spec), or give hook(...) the module as "
                "model="
            )

    options, peers = join(group, wishes, "", check, Peers.adds_like_gloo)
    names = Names(wishes.parameters() if options.spec.is_lossy else ())
    return HookState(options, peers, names), _make_hook()


def attach(
    model: Any, spec: str, rules: Sequence[Rule] | None = None, **options: Any
) -> HookState | ShardedState:
    """Send the gradients of a DDP or FSDP model as a spec says; with FSDP2 its parameters too.

    model: DistributedDataParallel, a model that ``fully_shard`` has been applied to (FSDP2), or
    FullyShardedDataParallel (FSDP1), also inside ``torch.compile``, before its first pass and
    without another hook. spec, options: as for ``hook``; for sharded models no ``group`` (theirs
    are used) and "lossless" or "none" alone. replicate_group: FSDP2 only; a process group of ranks
    that hold the same shards, over which gradients are averaged as well (the slow hop of HSDP).
    rules: how parameters are coded otherwise, by name, role or size: ``Rule`` objects, of which the
    first that a parameter meets holds, and the spec for the rest. The bits are the same; beside a
    lossy spec a rule says what goes exactly. A spec that makes plain all-reduces takes none, nor
    does FSDP1. A rule that no parameter of the model
    meets is refused; one whose parameters earlier rules have taken is not, ``stats`` shows it.
    Returns the state; ``stats(model)`` and ``state.state_dict()`` are what it is for.
    Raises ArgumentError for what cannot be done, and as ``hook``.
    """
    plain = _plain_model(model)
    if not isinstance(plain, DistributedDataParallel) and not is_sharded(plain):
        raise ArgumentError(
            f"{type(plain).__name__} is no DistributedDataParallel, nor sharded by fully_shard or "
            "FullyShardedDataParallel; wrap or shard the model and attach to the result"
        )
    if plain in _states:
        raise ArgumentError("this model has a gradwire hook already; a model takes one")
    state: HookState | ShardedState
    if isinstance(plain, DistributedDataParallel):
        options.setdefault("group", plain.process_group)
        state, ddp_hook = hook(spec, rules=rules, model=plain, **options)
        plain.register_comm_hook(state, ddp_hook)
    else:
        state = attach_sharded(plain, spec, rules=rules, **options)
    _states[plain] = state
    return state


def stats(model: Any) -> Stats:
    """Return the totals of a model that ``attach`` has been called for, on this rank.

    Raises ArgumentError for a model without a hook of gradwire.
    """
    plain = _plain_model(model)
    if plain not in _states:
        raise ArgumentError("this model has no hook from gradwire.torch.attach")
    return _states[plain].stats()


def _parameters_of(model: Any) -> Parameters:
    if model is None:
        return unknown_parameters
    plain = _plain_model(model)
    return partial(describe, plain.module if isinstance(plain, DistributedDataParallel) else plain)


def _plain_model(model: Any) -> Any:
    return getattr(model, "_orig_mod", model)  # of torch.compile


def _make_hook() -> DdpHook:
    # DDP wants a second parameter named `bucket`, and annotations that are its own types or none.
    def gradwire_hook(state, bucket):  # type: ignore[no-untyped-def]
        return state.reduce(bucket)

    return gradwire_hook
