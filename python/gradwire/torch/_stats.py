"""Counters of one model's exchanges. In: what each exchange counted. Out: totals as ``Stats``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

_logger = logging.getLogger("gradwire.torch")


@dataclass
class Way:
    """Bytes that this rank sent one way, once for each receiver."""

    original_bytes: int = 0  #: what the codec was given
    payload_bytes: int = 0  #: what it made of it
    header_bytes: int = 0  #: 48 a message
    padding_bytes: int = 0  #: unused room of first messages

    @property
    def sent_bytes(self) -> int:
        """Payload, headers, padding."""
        return self.payload_bytes + self.header_bytes + self.padding_bytes

    @property
    def size_fraction(self) -> float:
        """sent_bytes by original_bytes, lower is better; 1.0 before the first exchange."""
        return self.sent_bytes / self.original_bytes if self.original_bytes else 1.0

    def __add__(self, other: Way) -> Way:
        return Way(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))


@dataclass
class Group:
    """Bytes of the parameters of one rule, or of those that no rule matches.

    All ways together, each byte once for each receiver. Headers and padding belong to no group.
    """

    original_bytes: int = 0  #: what the codec was given
    payload_bytes: int = 0  #: what it made of it

    @property
    def size_fraction(self) -> float:
        """payload_bytes by original_bytes, lower is better; 1.0 before the first exchange."""
        return self.payload_bytes / self.original_bytes if self.original_bytes else 1.0

    def __add__(self, other: Group) -> Group:
        return Group(
            self.original_bytes + other.original_bytes, self.payload_bytes + other.payload_bytes
        )


@dataclass
class Lossy:
    """What a lossy method made of this rank's tensors, each counted once, whoever receives it."""

    elements: int = 0  #: of tensors that went by the method
    asked: int = 0  #: of these, that it was to send; as many as ``selected`` for a bare threshold
    selected: int = 0  #: of these, that it sent
    index_bytes: int = 0  #: that say which
    value_bytes: int = 0  #: of their values, scales too
    frame_bytes: int = 0  #: around them
    exact_bytes: int = 0  #: of tensors that went exactly: by a rule, by the method, in a start

    @property
    def density(self) -> float:
        """selected by elements; 1.0 before the first exchange."""
        return self.selected / self.elements if self.elements else 1.0

    @property
    def asked_density(self) -> float:
        """asked by elements; 1.0 before the first exchange."""
        return self.asked / self.elements if self.elements else 1.0

    @property
    def index_bits(self) -> float:
        """Bits that say which, for each element sent."""
        return 8 * self.index_bytes / self.selected if self.selected else 0.0

    @property
    def value_bits(self) -> float:
        """Bits of values, for each element sent."""
        return 8 * self.value_bytes / self.selected if self.selected else 0.0

    def __add__(self, other: Lossy) -> Lossy:
        return Lossy(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))


@dataclass(frozen=True)
class Choice:
    """What "auto" has chosen, and what it takes on this rank."""

    spec: str  #: in use now
    reason: str
    predicted_step_ms: float  #: with it; 0.0 before the first choice
    measured_step_ms: float  #: median of the last steps since it was chosen, 0.0 before


@dataclass
class Stats:
    """Totals of this rank since the hook was made, or since the state that was loaded.

    Times are of the communication thread, which runs beside the backward pass; sharded models wait
    for their exchanges where they make them. Plain all-reduces that the backward pass begins itself
    count as waited for while one of them is under way.
    """

    steps: int = 0
    buckets: int = 0
    to_owners: Way = field(default_factory=Way)  #: gradients, to those that add
    from_owners: Way = field(default_factory=Way)  #: sums, sent back; nothing for gather_merge
    reduce_scatter: Way = field(default_factory=Way)  #: gradients of sharded models
    all_gather: Way = field(default_factory=Way)  #: parameters of sharded models
    #: by rule, as ``str(rule)``; what no rule matches under the model's spec
    groups: dict[str, Group] = field(default_factory=dict)
    lossy: Lossy = field(default_factory=Lossy)  #: of a lossy spec
    plain_bytes: int = 0  #: of buckets that went by a plain collective, as they were handed over
    encode_ms: float = 0.0
    wait_ms: float = 0.0
    decode_ms: float = 0.0  #: decoding; additions are not counted
    choice: Choice | None = None  #: of the spec "auto"; no total, and not saved

    @property
    def exchanged(self) -> Way:
        """All ways together; without plain collectives."""
        return self.to_owners + self.from_owners + self.reduce_scatter + self.all_gather

    @property
    def original_bytes(self) -> int:
        """What the codec was given, all ways together."""
        return self.exchanged.original_bytes

    @property
    def payload_bytes(self) -> int:
        """Payload, all ways."""
        return self.exchanged.payload_bytes

    @property
    def sent_bytes(self) -> int:
        """All bytes of exchanges: payload, headers, padding; without plain collectives."""
        return self.exchanged.sent_bytes

    @property
    def size_fraction(self) -> float:
        """sent_bytes by original_bytes, lower is better; 1.0 before the first exchange."""
        return self.exchanged.size_fraction


class Counters:
    """The ``Stats`` that the communication thread adds to and other threads read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = Stats()
        self._listeners: list[Callable[[], None]] = []

    def add_exchange(
        self,
        counted: dict[str, Any],
        wait_s: float,
        labels: Sequence[str],
        kind: str = "all_reduce",
    ) -> None:
        """Add what ``Exchange.stats()`` gave.

        labels: the names of its groups. kind: all_reduce, reduce_scatter, all_gather.
        """
        there, back = _way(counted["to_owners"]), _way(counted["from_owners"])
        with self._lock:
            stats = self._stats
            stats.buckets += 1
            if kind == "reduce_scatter":
                stats.reduce_scatter += there
            elif kind == "all_gather":
                stats.all_gather += back
            else:
                stats.to_owners += there
                stats.from_owners += back
            groups = counted["groups"] or [counted["to_owners"]]  # a lossy exchange has one
            stats.groups = _with_groups(stats.groups, labels[: len(groups)], groups)
            stats.lossy += _lossy(counted["lossy"])
            stats.encode_ms += 1e3 * counted["encode_s"]
            stats.decode_ms += 1e3 * counted["decode_s"]
            stats.wait_ms += 1e3 * wait_s

    def add_plain(self, size: int, wait_s: float) -> None:
        with self._lock:
            self._stats.buckets += 1
            self._stats.plain_bytes += size
            self._stats.wait_ms += 1e3 * wait_s

    def add_step(self) -> None:
        """Count a step and tell those who listen, on this thread."""
        with self._lock:
            self._stats.steps += 1
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener()
            except Exception:  # whoever only watches must not stop the others
                _logger.exception("a function given to on_step has failed and is called no more")
                with self._lock:
                    self._listeners.remove(listener)

    def listen(self, listener: Callable[[], None]) -> None:
        with self._lock:
            self._listeners.append(listener)

    def read(self) -> Stats:
        with self._lock:
            return replace(self._stats)  # ways and groups are not changed in place, but made anew

    def state_dict(self) -> dict[str, Any]:
        totals = asdict(self.read())
        del totals["choice"]
        return totals

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over totals; counters that this version does not know are dropped."""
        totals = _known(Stats, state)
        for way in ("to_owners", "from_owners", "reduce_scatter", "all_gather"):
            totals[way] = Way(**_known(Way, totals.get(way, {})))
        groups = totals.get("groups", {})
        totals["groups"] = {name: Group(**_known(Group, group)) for name, group in groups.items()}
        totals["lossy"] = Lossy(**_known(Lossy, totals.get("lossy", {})))
        with self._lock:
            self._stats = Stats(**totals)


class Reporting:
    """What states have in common for those who watch."""

    _counters: Counters

    def stats(self) -> Stats:
        """Return the totals of this rank so far."""
        raise NotImplementedError

    def on_step(self, function: Callable[[Stats], None]) -> None:
        """Call ``function(stats)`` at the end of each step on this rank, with the totals so far.

        It is called on the thread that ends the step, which may be any, before ``backward()``
        returns; so it should be quick and must make no collectives. One that raises is logged
        and called no more.
        """
        self._counters.listen(lambda: function(self.stats()))


def _way(counted: dict[str, int]) -> Way:
    return Way(**{f"{what}_bytes": count for what, count in counted.items()})


def _lossy(counted: dict[str, int]) -> Lossy:
    c = counted
    return Lossy(
        c["elements"], c["asked"], c["selected"], c["index"], c["values"], c["frames"], c["exact"]
    )


def _with_groups(
    groups: dict[str, Group], labels: Sequence[str], counted: Sequence[dict[str, int]]
) -> dict[str, Group]:
    added = {
        label: groups.get(label, Group()) + Group(group["original"], group["payload"])
        for label, group in zip(labels, counted, strict=True)
    }
    return {**groups, **added}


def _values(counted: Way | Lossy) -> list[int]:
    return [getattr(counted, part.name) for part in fields(counted)]


def _known(kind: type[Any], state: dict[str, Any]) -> dict[str, Any]:
    names = {part.name for part in fields(kind)}
    return {name: value for name, value in state.items() if name in names}
