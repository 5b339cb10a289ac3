"""Exchanges between ranks of one process, through the bindings."""

from __future__ import annotations

import gradwire
import numpy as np
import pytest
from gradwire import _core
from gradwire._options import compress_options
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
SHAPES = [(30, 40), (), (7,), (0, 3), (5, 4, 3)]
ELEMENTS = 30 * 40 + 1 + 7 + 60


def make_bucket(rank: int, world: int, order: str = "rank") -> _core.ExchangeBucket:
    return _core.ExchangeBucket(
        3,
        "f32",
        [(shape, 1 if shape == (7,) else 0) for shape in SHAPES],
        rank,
        world,
        compress_options("lossless", 2, "auto", "hybrid", 1, True),
        getattr(_core.SumOrder, order),
        True,
        256,
        groups=[compress_options("lossless(coder=stored)", 2, "auto", "hybrid", 1, True)],
    )


def values(rank: int) -> NDArray[np.float32]:
    return np.random.default_rng(rank).normal(0, 1e-3, ELEMENTS).astype(np.float32)


def cut(data: Bytes, sizes: list[int]) -> list[Bytes]:
    return np.split(data, np.cumsum(sizes)[:-1])


def run(exchanges: list[_core.Exchange], flip: int | None = None) -> int:
    """Let all ranks make their steps together; flip: the step in which rank 0 hears a wrong bit."""
    steps = 0
    while not all(exchange.done() for exchange in exchanges):
        posted = [exchange.next() for exchange in exchanges]
        assert all(step is not None for step in posted)
        pieces = [cut(step[1], step[2]) for step in posted]
        for rank, exchange in enumerate(exchanges):
            received = [sent[rank] for sent in pieces]
            assert [part.size for part in received] == posted[rank][3]
            joined = np.concatenate(received)
            if rank == 0 and steps == flip:
                joined[60] ^= 1
            exchange.complete(posted[rank][0], joined)
        steps += 1
    return steps


@pytest.mark.parametrize("way", ["two_shot", "gather_merge"])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_all_ranks_hold_the_mean_in_rank_order(world: int, way: str) -> None:
    buffers = [values(rank) for rank in range(world)]
    buckets = [make_bucket(rank, world) for rank in range(world)]
    assert buckets[0].bytes() == 4 * ELEMENTS
    for step in range(3):
        for rank, buffer in enumerate(buffers):
            buffer[:] = values(10 * step + rank)
        total = buffers[0].copy()
        for buffer in buffers[1:]:
            total += buffer
        exchanges = [
            getattr(bucket, way)(buffer.view(np.uint8), step)
            for bucket, buffer in zip(buckets, buffers, strict=True)
        ]
        run(exchanges)
        mean = total * (np.float32(1) / np.float32(world))
        for exchange, buffer in zip(exchanges, buffers, strict=True):
            assert exchange.error() is None
            assert buffer.tobytes() == mean.tobytes()


def test_statistics_count_each_way() -> None:
    buffers = [values(rank) for rank in range(2)]
    exchanges = [make_bucket(r, 2).two_shot(buffers[r].view(np.uint8), 0) for r in range(2)]
    steps = run(exchanges)
    ways = [exchange.stats()[way] for exchange in exchanges for way in ("to_owners", "from_owners")]
    # What one rank sends to the owner of a shard, the owner sends back as a sum.
    assert ways[0]["original"] + ways[2]["original"] == 4 * ELEMENTS
    assert (ways[1]["original"], ways[3]["original"]) == (ways[2]["original"], ways[0]["original"])
    for way in ways:
        assert 0 < way["payload"] < way["original"]
        assert way["header"] == 48 * steps / 2
    for exchange in exchanges:
        stats, (coded, stored) = exchange.stats(), exchange.stats()["groups"]
        for what in ("original", "payload"):
            both = sum(stats[way][what] for way in ("to_owners", "from_owners"))
            assert coded[what] + stored[what] == both
        assert 0 < stored["original"] <= stored["payload"]
        assert coded["payload"] < coded["original"]


def test_a_flipped_bit_is_an_error_and_nobody_waits() -> None:
    buffers = [values(rank) for rank in range(2)]
    exchanges = [make_bucket(r, 2).two_shot(buffers[r].view(np.uint8), 0) for r in range(2)]
    run(exchanges, flip=0)
    error = exchanges[0].error()
    assert error is not None
    assert error[1] == "corrupt"
    assert "rank 1" in error[2]
    told = exchanges[1].error()
    assert told is not None
    assert (told[1], "rank 0" in told[2]) == ("transport", True)
    assert not any(exchange.lost() for exchange in exchanges)


def test_a_bucket_goes_on_after_a_reset_on_all_ranks() -> None:
    buckets = [make_bucket(rank, 2) for rank in range(2)]
    for step, flip in enumerate([None, 0, None, None]):
        buffers = [values(rank) for rank in range(2)]
        data = [buffer.view(np.uint8) for buffer in buffers]
        exchanges = [bucket.two_shot(d, step) for bucket, d in zip(buckets, data, strict=True)]
        run(exchanges, flip)
        assert all((exchange.error() is None) == (flip is None) for exchange in exchanges)
        if flip is not None:
            for bucket in buckets:
                bucket.reset()
        else:
            assert buffers[0].tobytes() == buffers[1].tobytes()


def test_a_rank_that_cannot_read_the_first_header_is_lost() -> None:
    buffers = [values(rank) for rank in range(2)]
    exchanges = [make_bucket(r, 2).two_shot(buffers[r].view(np.uint8), 0) for r in range(2)]
    while (step := exchanges[0].next()) is not None:
        number, _, _, received, _ = step
        exchanges[0].complete(number, np.zeros(sum(received), np.uint8))
    assert exchanges[0].done()
    assert exchanges[0].lost()
    assert exchanges[0].error()[1] == "corrupt"


def test_a_cancelled_rank_tells_the_others() -> None:
    buffers = [values(rank) for rank in range(3)]
    exchanges = [make_bucket(r, 3).gather_merge(buffers[r].view(np.uint8), 0) for r in range(3)]
    exchanges[2].cancel(4, "on purpose")
    run(exchanges)
    assert exchanges[2].error() == (4, "corrupt", "on purpose")
    assert all("rank 2 failed" in exchange.error()[2] for exchange in exchanges[:2])


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(gradwire.ArgumentError, match="rank 2 of 2"):
        make_bucket(2, 2)
    with pytest.raises(gradwire.ArgumentError, match="bytes given"):
        make_bucket(0, 2).two_shot(np.zeros(8, np.uint8), 0)
    exchange = make_bucket(0, 2).two_shot(values(0).view(np.uint8), 0)
    with pytest.raises(gradwire.ArgumentError, match="step"):
        exchange.complete(5, np.zeros(8, np.uint8))
