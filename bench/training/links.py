"""Slow links between the ranks of one machine: a network namespace a rank, joined by a bridge.

In: how many ranks, a rate such as "100mbit". Out: what to put before a command so that it runs as a
rank on that link. Assumes: root, iproute2 with the token bucket filter; ``is_possible`` tells.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

_BRIDGE = "gwbench"
_BURSTS = {"100mbit": "32kb", "1gbit": "256kb"}


@dataclass(frozen=True)
class Seat:
    """Where a rank runs."""

    prefix: tuple[str, ...]  #: of its command
    interface: str  #: for GLOO_SOCKET_IFNAME
    address: str


def is_possible() -> bool:
    """Tell whether this process may make namespaces."""
    if os.geteuid() != 0:
        return False
    with contextlib.suppress(OSError):
        if _try("ip", "netns", "add", "gwprobe") and _try("ip", "netns", "del", "gwprobe"):
            return _try("tc", "-V")
    return False


@contextlib.contextmanager
def link(ranks: int, rate: str | None) -> Iterator[list[Seat]]:
    """Yield a seat for each rank; rate None: the machine's own loopback."""
    if rate is None:
        yield [Seat((), "lo", "127.0.0.1")] * ranks
        return
    _remove(ranks)
    try:
        yield _make(ranks, rate)
    finally:
        _remove(ranks)


def _make(ranks: int, rate: str) -> list[Seat]:
    _run("ip", "link", "add", _BRIDGE, "type", "bridge")
    _run("ip", "link", "set", _BRIDGE, "up")
    return [_make_seat(rank, rate) for rank in range(ranks)]


def _make_seat(rank: int, rate: str) -> Seat:
    space, inner, outer, address = f"gwr{rank}", f"gwi{rank}", f"gwo{rank}", f"10.99.0.{rank + 1}"
    _run("ip", "netns", "add", space)
    _run("ip", "link", "add", inner, "type", "veth", "peer", "name", outer)
    _run("ip", "link", "set", inner, "netns", space)
    _run("ip", "link", "set", outer, "master", _BRIDGE, "up")
    _run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", inner)
    _run("ip", "-n", space, "link", "set", inner, "up")
    _run("ip", "-n", space, "link", "set", "lo", "up")
    shape = ("tbf", "rate", rate, "burst", _BURSTS[rate], "latency", "15ms")
    _run("ip", "netns", "exec", space, "tc", "qdisc", "replace", "dev", inner, "root", *shape)
    _run("tc", "qdisc", "replace", "dev", outer, "root", *shape)  # what comes in
    return Seat(("ip", "netns", "exec", space), inner, address)


def _remove(ranks: int) -> None:
    for rank in range(ranks):
        _try("ip", "link", "del", f"gwo{rank}")
        _try("ip", "netns", "del", f"gwr{rank}")
    _try("ip", "link", "del", _BRIDGE)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _try(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
