"""Counters of one model's exchanges. In: what each exchange counted. Out: totals as ``Stats``."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass
class Stats:
    """Totals of this rank since the hook was made, or since the state that was loaded.

    Bytes are those that this rank sent, once for each receiver. Times are of the communication
    thread, which runs beside the backward pass.
    """

    steps: int = 0
    buckets: int = 0
    original_bytes: int = 0  #: what the codec was given, both ways together
    to_owners_bytes: int = 0  #: payload to those that add
    from_owners_bytes: int = 0  #: payload of sums sent back; 0 for gather_merge
    header_bytes: int = 0  #: 48 a message
    padding_bytes: int = 0  #: unused room of first messages
    plain_bytes: int = 0  #: of buckets that went by a plain all-reduce, as they were handed over
    encode_ms: float = 0.0
    wait_ms: float = 0.0
    decode_ms: float = 0.0  #: decoding; additions are not counted

    @property
    def payload_bytes(self) -> int:
        """Payload, both ways."""
        return self.to_owners_bytes + self.from_owners_bytes

    @property
    def sent_bytes(self) -> int:
        """All bytes of exchanges: payload, headers, padding; without plain all-reduces."""
        return self.payload_bytes + self.header_bytes + self.padding_bytes

    @property
    def size_fraction(self) -> float:
        """sent_bytes by original_bytes, lower is better; 1.0 before the first exchange."""
        return self.sent_bytes / self.original_bytes if self.original_bytes else 1.0


class Counters:
    """The ``Stats`` that the communication thread adds to and other threads read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = Stats()

    def add_exchange(self, counted: dict[str, Any], wait_s: float) -> None:
        """Add what ``Exchange.stats()`` gave."""
        with self._lock:
            stats = self._stats
            stats.buckets += 1
            stats.original_bytes += counted["original_bytes"]
            stats.to_owners_bytes += counted["to_owners"]
            stats.from_owners_bytes += counted["from_owners"]
            stats.header_bytes += counted["headers"]
            stats.padding_bytes += counted["padding"]
            stats.encode_ms += 1e3 * counted["encode_s"]
            stats.decode_ms += 1e3 * counted["decode_s"]
            stats.wait_ms += 1e3 * wait_s

    def add_plain(self, size: int, wait_s: float) -> None:
        with self._lock:
            self._stats.buckets += 1
            self._stats.plain_bytes += size
            self._stats.wait_ms += 1e3 * wait_s

    def add_step(self) -> None:
        with self._lock:
            self._stats.steps += 1

    def read(self) -> Stats:
        with self._lock:
            return replace(self._stats)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self.read())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over totals; counters that this version does not know are dropped."""
        known = {field.name for field in fields(Stats)}
        with self._lock:
            self._stats = Stats(**{key: value for key, value in state.items() if key in known})
