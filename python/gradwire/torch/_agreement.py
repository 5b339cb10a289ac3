"""Whether all ranks say the same, and where they first differ.

In: lines of text of each rank. Out: None, or the first difference, the same on all ranks.
Assumes: all ranks compare at the same place; lines are short and not secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from gradwire.errors import ArgumentError

_MAX_TEXT = 2**20  # bytes of lines that are shown to the others when something differs
_NOTHING = "nothing more"


class DisagreementError(ArgumentError):
    """All ranks have seen that they do not have the same."""


class Difference(NamedTuple):
    """The first rank that differs from rank 0, and the first line in which it does."""

    rank: int
    rank_0_has: str
    rank_has: str

    def __str__(self) -> str:
        return f"rank 0 has {self.rank_0_has}; rank {self.rank} has {self.rank_has}"


def first_difference(group: Any, lines: Sequence[str]) -> Difference | None:
    """Compare lines over the ranks of a group: one small all-gather where all are alike."""
    text = "\n".join(lines).encode()
    digests = _gather(group, hashlib.sha256(text).digest())
    rank = next((r for r, digest in enumerate(digests) if digest != digests[0]), None)
    if rank is None:
        return None
    texts = _gather_texts(group, text[:_MAX_TEXT])
    pairs = zip_longest(texts[0].split("\n"), texts[rank].split("\n"), fillvalue=_NOTHING)
    for ours, theirs in pairs:
        if ours != theirs:
            return Difference(rank, ours, theirs)
    return Difference(rank, "other lines", "others behind them")  # both were cut


def _gather_texts(group: Any, text: bytes) -> list[str]:
    sizes = [
        int.from_bytes(size, "little") for size in _gather(group, len(text).to_bytes(8, "little"))
    ]
    padded = _gather(group, text.ljust(max(sizes), b"\0"))
    return [said[:size].decode(errors="replace") for said, size in zip(padded, sizes, strict=True)]


def _gather(group: Any, own: bytes) -> list[bytes]:
    """What each rank gives; as many bytes on all of them."""
    tensor = torch.frombuffer(bytearray(own), dtype=torch.uint8)
    slots = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(slots, tensor, group=group)
    return [slot.numpy().tobytes() for slot in slots]
