"""Failures: every rank gets an error that says what happened, and none hangs.

No test measures time. What hangs is ended by ``run_ranks``, whose limit is far above what a loaded
machine needs, and is then a failure of kind "hung".
"""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import _peers, _transport, attach, hook  # noqa: E402
from ranks import LIMIT_S, Failure, run_ranks, successes  # noqa: E402
from torch import distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(600)

SHORT_TIMEOUT_S = 3.0  # where it is the time-out that is tested; no step that succeeds has it
BAD_RANK = 1


def model_and_state(spec: str = "lossless") -> Any:
    torch.manual_seed(1)
    layers = [nn.Linear(60, 60) for _ in range(6)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.02)
    return model, attach(model, spec)


def train_step(model: Any, rank: int, step: int) -> None:
    x = torch.randn(8, 60, generator=torch.Generator().manual_seed(step + rank))
    model.zero_grad()
    model(x).pow(2).mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad


def train(model: Any, rank: int, steps: int) -> None:
    for step in range(steps):
        train_step(model, rank, step)


def failing_step(model: Any, rank: int, before: Any) -> tuple[str, int]:
    """The error, and how many steps ended before it."""
    for step in range(6):
        try:
            before(step)
            train_step(model, rank, step)
        except Exception as error:
            with pytest.raises(RuntimeError, match="no gradient of this step is valid"):
                train(model, rank, 1)  # from now on, at once
            return str(error), step
    raise AssertionError("no step failed")


def check_killed(rank: int, world: int, spec: str) -> Any:
    model, _ = model_and_state(spec)

    def die(step: int) -> None:
        if step == 3 and rank == BAD_RANK:
            os.kill(os.getpid(), signal.SIGKILL)

    return failing_step(model, rank, die)


@pytest.mark.parametrize(("world", "spec"), [(2, "lossless"), (3, "lossless"), (3, "none")])
def test_a_killed_rank_is_an_error_on_the_others(world: int, spec: str) -> None:
    results = run_ranks(check_killed, world, spec)
    assert isinstance(results[BAD_RANK], Failure)
    assert results.pop(BAD_RANK).kind == "killed"
    for message, ended in successes(results):
        assert "bucket" in message
        assert "A rank has died" in message
        assert ended == 3


def check_raises(rank: int, world: int) -> Any:
    model, state = model_and_state()

    def break_the_thread(step: int) -> None:
        if step == 3 and rank == BAD_RANK:
            state._exchange = _raise

    return failing_step(model, rank, break_the_thread)


def _raise(*_: Any) -> None:
    raise ValueError("boom")


@pytest.mark.parametrize("world", [2, 3])
def test_an_exception_in_the_thread_reaches_every_rank(world: int) -> None:
    for message, ended in successes(run_ranks(check_raises, world)):
        assert "ValueError: boom" in message
        assert ended == 3


def check_corrupt(rank: int, world: int, at: int, bucket: int) -> Any:
    model, _ = model_and_state()
    harm = {"left": 0}

    def tampering_run(self: Any, exchange: Any) -> None:
        harm["left"] -= 1
        if harm["left"] == 0:
            exchange = Tampered(exchange, at)
        run(self, exchange)

    run = _transport.Transport.run
    _transport.Transport.run = tampering_run

    def start(step: int) -> None:
        if step == 3 and rank == BAD_RANK:
            harm["left"] = bucket

    return failing_step(model, rank, start)


class Tampered:
    """An exchange that hears one wrong bit, in its first message."""

    def __init__(self, exchange: Any, at: int) -> None:
        self._exchange, self._at = exchange, at

    def complete(self, number: int, received: Any) -> None:
        if number == 0:
            received = received.copy()
            received[self._at] ^= 4
        self._exchange.complete(number, received)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    ("at", "bucket", "words"),
    [
        (60, 1, "checksum"),  # payload: the step is ended in order, so all know at its end
        (60, 2, "checksum"),
        (0, 1, "header is damaged"),  # magic: rank 1 cannot follow any more
        (4, 2, "header is damaged"),
    ],
)
def test_corrupt_bytes_reach_every_rank_as_an_error(
    world: int, at: int, bucket: int, words: str
) -> None:
    for message, ended in successes(run_ranks(check_corrupt, world, at, bucket)):
        assert words in message
        assert ended == 3


def check_specs(rank: int, world: int, specs: list[str]) -> Any:
    with pytest.raises(gradwire.ArgumentError) as caught:
        hook(specs[rank])
    return str(caught.value)


def test_different_specs_are_refused_on_every_rank() -> None:
    specs = ["lossless", "lossless", "lossless(level=3)"]
    for message in successes(run_ranks(check_specs, 3, specs)):
        assert "rank 2 has spec 'lossless(level=3)'" in message
        assert "rank 0 has spec 'lossless'" in message


@pytest.mark.parametrize(
    ("spec", "words"),
    [("lossles", "did you mean 'lossless'?"), ("lossless(level=9)", "9 given, 1 to 3 allowed")],
)
def test_a_bad_spec_on_one_rank_is_named_on_the_others(spec: str, words: str) -> None:
    one, other = successes(run_ranks(check_specs, 2, [spec, "lossless"]))
    assert one.startswith(f"spec {spec!r}: ")
    assert words in one
    assert words in other


def shorten_timeout(state: Any) -> None:
    """For the watch alone: a group cannot change its own, and the start may need a longer one."""
    state._peers.timeout = timedelta(seconds=SHORT_TIMEOUT_S)


def check_stalled(rank: int, world: int, spec: str) -> Any:
    """Rank 1 comes to its step only when rank 0 has given it up."""
    model, state = model_and_state(spec)
    store = dist.distributed_c10d._get_default_store()

    def stall(step: int) -> None:
        if step == 3 and rank != BAD_RANK:
            shorten_timeout(state)
        if step == 3 and rank == BAD_RANK:
            store.wait(["given up"], timedelta(seconds=LIMIT_S))

    result = failing_step(model, rank, stall)
    if rank != BAD_RANK:
        store.set("given up", "1")
    return result


@pytest.mark.parametrize("spec", ["lossless", "none"])
def test_a_rank_that_stalls_is_an_error_after_the_time_out(spec: str) -> None:
    first, second = successes(run_ranks(check_stalled, 2, spec))
    assert "no progress for" in first[0]
    assert first[1] == 3
    # A plain step is right for whoever has got all buckets, though another rank has given up.
    assert second[1] in ((3, 4) if spec == "none" else (3,))


def check_hanging(rank: int, world: int) -> Any:
    """The exchange of a rank hangs in its own thread: the watch ends its futures."""
    model, state = model_and_state()

    def hang(step: int) -> None:
        if step == 3:
            shorten_timeout(state)
        if step == 3 and rank == BAD_RANK:
            state._exchange = lambda *_: time.sleep(2 * LIMIT_S)

    return failing_step(model, rank, hang)


def test_no_future_stays_open_when_the_thread_hangs() -> None:
    for message, ended in successes(run_ranks(check_hanging, 2)):
        assert "no gradient of this step is valid" in message
        assert ended == 3


class Bucket:
    """A bucket that DDP hands over out of turn, or in another shape than on the other ranks."""

    def __init__(
        self, index: int, *shapes: Any, dtype: Any = torch.float32, last: bool = False
    ) -> None:
        self._index, self._last = index, last
        self._parameters = [torch.ones(shape, dtype=dtype) for shape in shapes or [(100,)]]
        self._buffer = torch.cat([p.reshape(-1) for p in self._parameters])

    def index(self) -> int:
        return self._index

    def buffer(self) -> Any:
        return self._buffer

    def parameters(self) -> list[Any]:
        return self._parameters

    def is_last(self) -> bool:
        return self._last


def check_cut_short(rank: int, world: int) -> Any:
    """Rank 1 leaves a backward pass after its first bucket and begins another one."""
    state, ddp_hook = hook("lossless")
    ddp_hook(state, Bucket(0)).wait()
    if rank == BAD_RANK:
        with pytest.raises(gradwire.TransportError, match="bucket 0 came where bucket 1 was due"):
            ddp_hook(state, Bucket(0))
        return str(state.error)
    with pytest.raises(RuntimeError):
        ddp_hook(state, Bucket(1)).wait()
    return str(state.error)


def test_a_backward_pass_that_was_cut_short_is_noticed() -> None:
    for message in successes(run_ranks(check_cut_short, 2)):
        assert "cut short" in message


OTHERS = {
    "shape": (((30, 40), (7,)), ((30, 41), (7,)), "tensor 0 of shape (30, 41)"),
    "size": (((5000, 40),), ((5000, 20),), "tensor 0 of shape (5000, 20)"),
    "small": (((3,),), ((900,),), "tensor 0 of shape (900,)"),
    "more": (((30, 40),), ((30, 40), (7,)), "tensor 1 of shape (7,)"),
}


def check_models(rank: int, world: int, spec: str) -> list[str]:
    """Each case with a hook of its own, as a disagreement is final; ranks but the last agree."""
    errors = []
    is_other = rank == world - 1
    for ours, others, _ in OTHERS.values():
        state, ddp_hook = hook(spec)
        for bucket in (Bucket(0, (50,)), Bucket(1, *(others if is_other else ours), last=True)):
            future = ddp_hook(state, bucket)
        with pytest.raises(RuntimeError, match="no gradient of this step is valid"):
            future.wait()
        with pytest.raises(gradwire.TransportError, match="ended for good"):
            state.reset()
        assert type(state.error).__mro__[1] is gradwire.ArgumentError
        errors.append(str(state.error))
    state, ddp_hook = hook(spec)
    dtype = torch.float16 if is_other else torch.float32
    with pytest.raises(RuntimeError, match="differ"):
        ddp_hook(state, Bucket(0, (50,), dtype=dtype, last=True)).wait()
    assert "in float16" in str(state.error)
    return errors


@pytest.mark.parametrize(("world", "spec"), [(2, "lossless"), (3, "lossless"), (2, "none")])
def test_ranks_whose_models_differ_are_told_where(world: int, spec: str) -> None:
    for messages in successes(run_ranks(check_models, world, spec)):
        for message, (_, _, words) in zip(messages, OTHERS.values(), strict=True):
            assert "bucket 1: the ranks' models differ" in message
            assert f"rank {world - 1} has {words}" in message


def check_cuts(rank: int, world: int) -> str:
    """Models that are alike, cut into buckets of other sizes; DDP does not compare that."""
    torch.manual_seed(1)
    layers = [nn.Linear(60, 60) for _ in range(6)]
    model = DistributedDataParallel(
        nn.Sequential(*layers),
        bucket_cap_mb=0.02 if rank == 0 else 25,
        find_unused_parameters=True,  # else DDP makes the buckets of rank 0 everywhere
    )
    state = attach(model, "lossless")
    with pytest.raises(RuntimeError, match="how DDP cuts them into buckets"):
        train(model, rank, 1)
    return str(state.error)


def test_ranks_that_cut_other_buckets_are_told_so() -> None:
    one, other = successes(run_ranks(check_cuts, 2))
    assert one == other


def weights(model: Any) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def check_reset(rank: int, world: int) -> int:
    """A step that fails in each of two places is repeated; training ends in the same weights."""
    harm: dict[int, int] = {}
    count = {"buckets": 0}

    def tampering_run(self: Any, exchange: Any) -> None:
        at = harm.pop(count["buckets"], None)
        count["buckets"] += 1
        run(self, exchange if at is None else Tampered(exchange, at))

    plain, _ = model_and_state()
    train(plain, rank, 5)
    model, state = model_and_state()
    state.reset()  # nothing has failed
    run = _transport.Transport.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_transport.Transport, "run", tampering_run)
        for step in range(5):
            before = weights(model)
            if step in (1, 3) and rank == BAD_RANK:
                harm[count["buckets"] + step // 2] = 60
            if step in (1, 3):
                with pytest.raises(RuntimeError, match="checksum"):
                    train_step(model, rank, step)
                assert weights(model) == before
                state.reset()
                assert state.error is None
            train_step(model, rank, step)
    assert not harm
    assert weights(model) == weights(plain)
    return state.stats().steps


@pytest.mark.parametrize("world", [2, 3])
def test_a_failed_step_can_be_repeated(world: int) -> None:
    assert successes(run_ranks(check_reset, world)) == [7] * world


def check_refused(rank: int, world: int) -> None:
    state, ddp_hook = hook("lossless")
    with pytest.raises(gradwire.ArgumentError, match="python_reducer"):
        ddp_hook(state, (torch.ones(3), torch.ones(3)))


def test_a_hook_that_gets_no_bucket_says_why() -> None:
    assert run_ranks(check_refused, 1) == [None]


def check_other_order(rank: int, world: int) -> list[str]:
    """A Gloo that adds in another order than the one that is known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_peers, "reference_mean", lambda inputs, order: inputs[0] * 0)
        with pytest.raises(gradwire.ArgumentError, match="use order='rank'"):
            hook("lossless", order="gloo")
        state, _ = hook("lossless")
    return [state.options.order, hook("lossless")[0].options.order]


def test_an_unknown_gloo_makes_rank_order_the_default() -> None:
    assert run_ranks(check_other_order, 2) == [["rank", "gloo"]] * 2
