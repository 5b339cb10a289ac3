"""Plain all-reduces that the backward pass begins itself: bits, order, ends of steps, failures."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import attach, hook, reference_mean  # noqa: E402
from gradwire.torch._straight import Arrival  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(300)

BUCKETS = 6


def make_model() -> Any:
    torch.manual_seed(5)
    layers = [nn.Embedding(50, 40, sparse=True), *(nn.Linear(40, 40) for _ in range(4))]
    return DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.01)


def gradients_of_step(model: Any, rank: int, step: int, scale: float = 1.0) -> list[bytes]:
    x = torch.randint(50, (8,), generator=torch.Generator().manual_seed(100 * step + rank))
    model.zero_grad()
    (scale * model(x).pow(2).mean()).backward()
    found = [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in model.parameters()]
    return [gradient.numpy().tobytes() for gradient in found]


def refuse(_: Any) -> None:
    raise AssertionError("a job for the communication thread")


def check_threads(rank: int, world: int) -> Any:
    """Once all buckets are known; sparse ones are among them, and infinities as of a GradScaler."""
    plain, model = make_model(), make_model()
    state = attach(model, "none")
    for step in range(8):
        if step == 3:
            before = state.stats()
            state._fifo.submit = refuse
        scale = float("inf") if step == 5 else 1.0
        expected = gradients_of_step(plain, rank, step, scale)
        assert gradients_of_step(model, rank, step, scale) == expected
        assert state.stats().steps == step + 1
    now = state.stats()
    dense = sum(4 * p.numel() for layer in list(model.module)[1:] for p in layer.parameters())
    assert now.wait_ms > before.wait_ms
    assert now.plain_bytes - before.plain_bytes > 5 * dense  # and of the sparse one what came
    return (now.buckets - before.buckets) / 5


@pytest.mark.parametrize("world", [2, 3])
def test_plain_steps_leave_the_thread_alone(world: int) -> None:
    (buckets,) = set(successes(run_ranks(check_threads, world)))
    assert buckets > 2


class Bucket:
    """A bucket of DDP's whose parameters may change their shape."""

    def __init__(self, index: int, shape: tuple[int, ...]) -> None:
        self._index, self._parameters = index, [torch.empty(shape)]
        self.values = torch.empty(self._parameters[0].numel())

    def index(self) -> int:
        return self._index

    def buffer(self) -> Any:
        return self.values

    def parameters(self) -> list[Any]:
        return self._parameters

    def is_last(self) -> bool:
        return self._index == BUCKETS - 1


def check_order(rank: int, world: int) -> list[list[bool]]:
    """Buckets of one size, so that a wrong pairing would show in values alone.

    Ranks are late by turns, and in some steps a bucket in the middle is a new one: it and those
    behind it are added by the communication thread, those before it may still be under way.
    """
    state, ddp_hook = hook("none")
    straight: list[list[bool]] = []
    buckets = [Bucket(k, (600,)) for k in range(BUCKETS)]
    for step in range(12):
        straight.append([])
        if step % 3 == 2:
            changed = step % BUCKETS
            buckets[changed] = Bucket(changed, (20 + step, 600 // (20 + step)))
        futures, expected = [], []
        for k, bucket in enumerate(buckets):
            n = bucket.values.numel()
            inputs = [
                torch.randn(n, generator=torch.Generator().manual_seed(1000 * step + 10 * k + r))
                for r in range(world)
            ]
            expected.append(reference_mean(inputs, "gloo"))
            bucket.values.copy_(inputs[rank])
            time.sleep(0.003 * ((step + k + rank) % world))
            futures.append(ddp_hook(state, bucket))
            straight[-1].append(state._goes_straight)
        for future, mean in zip(futures, expected, strict=True):
            assert torch.equal(future.wait(), mean)
        assert state.stats().steps == step + 1
    return straight


def test_ranks_change_threads_at_the_same_bucket() -> None:
    results = successes(run_ranks(check_order, 3))
    assert results[0] == results[1] == results[2]
    for step, straight in enumerate(results[0]):
        known = 0 if step == 0 else step % BUCKETS if step % 3 == 2 else BUCKETS
        assert straight == [True] * known + [False] * (BUCKETS - known)


def check_arrivals(rank: int, world: int) -> None:
    """The last bucket is the first to arrive: the step ends with the other one."""
    state, ddp_hook = hook("none")
    buckets = [Bucket(k, (10,)) for k in range(BUCKETS)]
    for _ in range(2):
        for future in [ddp_hook(state, bucket) for bucket in buckets]:
            future.wait()
    held: list[Arrival] = []
    take = state._straight._announce
    go_on = threading.Event()

    def hold_the_first(arrival: Arrival) -> None:
        held.append(arrival)
        if arrival.job.index == 0:
            go_on.wait(60)
        take(arrival)

    state._straight._announce = hold_the_first
    futures = [ddp_hook(state, bucket) for bucket in buckets]
    for future in futures[1:]:
        future.wait()
    assert not futures[0].done()
    go_on.set()
    futures[0].wait()
    assert len(held) == BUCKETS
    assert state.stats().steps == 3


def test_a_step_ends_with_the_bucket_that_arrives_last() -> None:
    successes(run_ranks(check_arrivals, 2))


def check_overtaken(rank: int, world: int) -> None:
    """A step begins while another one is under way, as DDP lets no one do."""
    state, ddp_hook = hook("none")
    buckets = [Bucket(k, (10,)) for k in range(BUCKETS)]
    take, go_on = state._straight._announce, threading.Event()
    for step in range(3):
        if step == 2:
            state._straight._announce = lambda arrival: (go_on.wait(60), take(arrival))
        futures = [ddp_hook(state, bucket) for bucket in buckets]
        if step < 2:
            torch.futures.wait_all(futures)
    with pytest.raises(gradwire.TransportError, match="bucket 0 came where the end of a step"):
        ddp_hook(state, buckets[0])
    go_on.set()
    with pytest.raises(RuntimeError, match="cut short"):
        futures[-1].wait()


def test_a_step_in_the_middle_of_another_is_refused() -> None:
    successes(run_ranks(check_overtaken, 2))


def fail(_: Any) -> None:
    raise ValueError("boom")


def check_failure(rank: int, world: int) -> str:
    """Rank 1 fails between two buckets; the others have begun collectives that it never makes."""
    state, ddp_hook = hook("none")
    buckets = [Bucket(k, (1000,)) for k in range(BUCKETS)]
    for _ in range(2):
        for future in [ddp_hook(state, bucket) for bucket in buckets]:
            future.wait()
    futures = [ddp_hook(state, bucket) for bucket in buckets[:3]]
    if rank == 1:
        state._straight.post = fail
    futures += [ddp_hook(state, bucket) for bucket in buckets[3:]]
    with pytest.raises(RuntimeError, match="no gradient of this step is valid"):
        torch.futures.wait_all(futures)
    with pytest.raises(RuntimeError, match="no gradient of this step is valid"):
        ddp_hook(state, buckets[0]).wait()
    return str(state.error)


def test_a_failure_between_buckets_reaches_every_rank() -> None:
    for message in successes(run_ranks(check_failure, 3)):
        assert "step 2, bucket 3: ValueError: boom" in message
