"""Means over real ranks, bit for bit: sizes, dtypes, specs, orders."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import torch.distributed as dist  # noqa: E402
from gradwire.torch import HookState, Way, hook, reference_mean  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402

pytestmark = pytest.mark.timeout(600)

SIZES = [0, 1, 7, 1000, 65537]
DTYPES = ["float32", "bfloat16", "float16", "float64"]
EXACT = [
    ("lossless", "gloo", "auto"),
    ("lossless", "gloo", "two_shot"),
    ("lossless", "gloo", "gather_merge"),
    ("lossless(level=3)", "rank", "auto"),
    ("lossless(coder=stored)", "rank", "two_shot"),
]


class Bucket:
    """What DDP hands to a hook."""

    def __init__(self, buffer: Any, index: int = 0, is_last: bool = True) -> None:
        self._buffer, self._index, self._is_last = buffer, index, is_last

    def buffer(self) -> Any:
        return self._buffer

    def index(self) -> int:
        return self._index

    def is_last(self) -> bool:
        return self._is_last

    def parameters(self) -> list[Any]:
        return [self._buffer]


def reduce(state: HookState, ddp_hook: Any, gradient: Any) -> Any:
    return ddp_hook(state, Bucket(gradient)).wait()


def gradient(rank: int, size: int, dtype: str) -> Any:
    """Values of many exponents, zeros of both signs, subnormals, and an infinity on rank 0."""
    values = torch.randn(size, generator=torch.Generator().manual_seed(100 * size + rank))
    values *= torch.tensor([1e-3, 1.0, 1e-6, 0.0, 1e-41, 60.0])[torch.arange(size) % 6]
    if size > 500 and rank == 0:
        values[17] = float("inf")
    return values.to(getattr(torch, dtype))


def bits(x: Any) -> bytes:
    return x.view(torch.uint8).numpy().tobytes()


def plain_mean(own: Any, world: int) -> Any:
    """DDP without a hook."""
    mean = own * (1.0 / world)
    if mean.numel():
        dist.all_reduce(mean)
    return mean


def check_exact(rank: int, world: int) -> int:
    cases = 0
    for turn, (spec, order, exchange) in enumerate(EXACT):
        state, ddp_hook = hook(spec, order=order, exchange=exchange)
        pairs = list(itertools.product(SIZES, DTYPES))
        # With many ranks on few cores, every second one; each pair has its turn.
        for size, dtype in pairs if world < 3 else pairs[(turn + world) % 2 :: 2]:
            inputs = [gradient(r, size, dtype) for r in range(world)]
            expected = reference_mean(inputs, order)
            for _ in range(2):  # the second time with rooms that the first one agreed on
                found = reduce(state, ddp_hook, inputs[rank].clone())
                where = (spec, order, exchange, size, dtype, rank)
                assert bits(found) == bits(expected), where
                if order == "gloo":
                    assert bits(found) == bits(plain_mean(inputs[rank], world)), where
            cases += 1
        assert state.error is None
        state.close()
    return cases


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_exact_specs_give_every_bit_of_ddp_and_of_the_reference(world: int) -> None:
    results = successes(run_ranks(check_exact, world))
    all_cases = len(EXACT) * len(SIZES) * len(DTYPES)
    assert results == [all_cases // (1 if world < 3 else 2)] * world


def check_casts(rank: int, world: int) -> None:
    for spec, cast in [("bf16", "bfloat16"), ("fp16", "float16"), ("bf16+lossless", "bfloat16")]:
        state, ddp_hook = hook(spec)
        for size in SIZES:
            own = gradient(rank, size, "float32")
            narrow = plain_mean(own.to(getattr(torch, cast)), world)
            found = reduce(state, ddp_hook, own.clone())
            assert found.dtype == torch.float32
            assert bits(found) == bits(narrow.float()), (spec, size)
        half = gradient(rank, 1000, "float16")  # not cast
        assert bits(reduce(state, ddp_hook, half.clone())) == bits(plain_mean(half, world))
        state.close()


@pytest.mark.parametrize("world", [2, 3])
def test_casts_give_the_bits_of_a_narrow_all_reduce(world: int) -> None:
    successes(run_ranks(check_casts, world))


def check_plain(rank: int, world: int) -> Any:
    state, ddp_hook = hook("none")
    for size in SIZES:
        own = gradient(rank, size, "float32")
        assert bits(reduce(state, ddp_hook, own.clone())) == bits(plain_mean(own, world))
    whole = torch.arange(5) + rank
    assert reduce(state, ddp_hook, whole).tolist() == [
        world * i + world * (world - 1) // 2 for i in range(5)
    ]
    wide = torch.full((3,), 1 + 2j * rank)
    assert reduce(state, ddp_hook, wide).tolist() == [1 + (world - 1) * 1j] * 3
    sparse = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (5,))
    found = reduce(state, ddp_hook, sparse).to_dense()
    assert found[3] == 2.0
    stats = state.stats()
    assert stats.original_bytes == 0
    return stats.plain_bytes


@pytest.mark.parametrize("world", [2, 3])
def test_none_and_other_dtypes_take_a_plain_all_reduce(world: int) -> None:
    sent = successes(run_ranks(check_plain, world))
    assert sent[0] == sent[1] > 4 * sum(SIZES)


def check_stats(rank: int, world: int) -> Any:
    state, ddp_hook = hook("lossless")
    for _ in range(3):
        reduce(state, ddp_hook, gradient(rank, 65537, "bfloat16").float())
    return state.stats()


def test_statistics_tell_bytes_each_way() -> None:
    two = successes(run_ranks(check_stats, 2))[0]
    assert (two.steps, two.buckets) == (3, 3)
    assert two.from_owners == Way()  # gather_merge
    assert two.original_bytes == two.to_owners.original_bytes == 3 * 4 * 65537
    assert two.sent_bytes == two.to_owners.sent_bytes
    assert two.size_fraction < 0.7
    assert two.encode_ms > 0
    assert two.decode_ms > 0
    three = successes(run_ranks(check_stats, 3))
    for ways in ([s.to_owners for s in three], [s.from_owners for s in three]):
        # Each of 3 ranks sends 2 / 3 of a bucket, or its third to 2 others.
        assert sum(way.original_bytes for way in ways) == 3 * 2 * 4 * 65537
        for way in ways:
            assert 0 < way.payload_bytes < way.original_bytes
            assert way.header_bytes % 48 == 0
            assert way.payload_bytes + way.header_bytes + way.padding_bytes == way.sent_bytes
            assert way.size_fraction < 1
    assert three[0].exchanged == three[0].to_owners + three[0].from_owners
