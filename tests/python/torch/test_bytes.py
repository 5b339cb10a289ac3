"""What is sent is what the codec makes of the gradients: nothing hidden is added."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import Way, attach  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(300)

PIECE = 24576  #: elements of float32 that are sent at a time
STEPS = 3


def model() -> Any:
    torch.manual_seed(21)
    return nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.Linear(512, 10))


def backward(ddp: Any, rank: int, step: int) -> None:
    random = torch.Generator().manual_seed(10 * step + rank)
    x, y = torch.randn(64, 64, generator=random), torch.randint(10, (64,), generator=random)
    ddp.zero_grad()
    nn.functional.cross_entropy(ddp(x), y).backward()


def codec_bytes(ddp: Any) -> int:
    return sum(
        len(gradwire.compress(parameter.grad, checksum=False)) for parameter in ddp.parameters()
    )


def sent_and_coded(rank: int, world: int, exchange: str) -> tuple[Way, Way, int, int]:
    ddp = DistributedDataParallel(model(), bucket_cap_mb=1)
    state = attach(ddp, "lossless", exchange=exchange, piece_elements=PIECE)
    own = means = 0
    for step in range(STEPS):
        with ddp.no_sync():
            backward(ddp, rank, step)
        own += codec_bytes(ddp)  # of this rank's gradients
        backward(ddp, rank, step)
        means += codec_bytes(ddp)  # of what every rank holds in the end
    stats = state.stats()
    return stats.to_owners, stats.from_owners, own, means


def overhead(payload: int, coded: float, elements: float) -> float:
    """Bytes beyond 64 a piece, by what the codec makes of whole tensors."""
    return (payload - 64 * elements / PIECE) / coded - 1


@pytest.mark.parametrize("world", [2, 3])
def test_payload_is_the_codecs_size(world: int) -> None:
    elements = STEPS * sum(parameter.numel() for parameter in model().parameters())
    for gathered, _, own, _ in successes(run_ranks(sent_and_coded, world, "gather_merge")):
        peers = world - 1
        assert abs(overhead(gathered.payload_bytes, peers * own, peers * elements)) < 0.02
    # Of two_shot each rank sends its peers' shards, then its own to each: all together count.
    ways = successes(run_ranks(sent_and_coded, world, "two_shot"))
    there = sum(way.payload_bytes for way, _, _, _ in ways)
    back = sum(way.payload_bytes for _, way, _, _ in ways)
    coded = sum(own for _, _, own, _ in ways)
    share = (world - 1) / world
    assert abs(overhead(there, share * coded, share * world * elements)) < 0.02
    means = ways[0][3]
    assert abs(overhead(back, (world - 1) * means, (world - 1) * elements)) < 0.02
