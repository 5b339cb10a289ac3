"""Failures: every rank gets an error that says what happened, within the time-out."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import _peers, _transport, attach, hook  # noqa: E402
from ranks import Failure, run_ranks  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(120)

TIMEOUT_S = 6.0
BAD_RANK = 1


def model_and_state(spec: str = "lossless") -> Any:
    torch.manual_seed(1)
    layers = [nn.Linear(60, 60) for _ in range(6)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.02)
    return model, attach(model, spec)


def train(model: Any, rank: int, steps: int, before: Any = None) -> None:
    """Steps; ``before(step)`` may do harm. Each one that ends has equal weights on all ranks."""
    for step in range(steps):
        if before is not None:
            before(step)
        x = torch.randn(8, 60, generator=torch.Generator().manual_seed(step + rank))
        model.zero_grad()
        model(x).pow(2).mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad


def failing_step(model: Any, rank: int, before: Any) -> tuple[str, int, float]:
    """The error, how many steps ended before it, and how long the failing step took."""
    for step in range(6):
        start = time.monotonic()
        try:
            train(model, rank, 1, lambda _, step=step: before(step))
        except Exception as error:
            with pytest.raises(RuntimeError, match="no gradient of this step is valid"):
                train(model, rank, 1)  # from now on, at once
            return str(error), step, time.monotonic() - start
    raise AssertionError("no step failed")


def check_killed(rank: int, world: int) -> Any:
    model, _ = model_and_state()

    def die(step: int) -> None:
        if step == 3 and rank == BAD_RANK:
            os.kill(os.getpid(), signal.SIGKILL)

    return failing_step(model, rank, die)


@pytest.mark.parametrize("world", [2, 3])
def test_a_killed_rank_is_an_error_on_the_others(world: int) -> None:
    results = run_ranks(check_killed, world, group_timeout_s=TIMEOUT_S)
    assert isinstance(results[BAD_RANK], Failure)
    assert results.pop(BAD_RANK).kind == "killed"
    for message, ended, seconds in results:
        assert "bucket" in message
        assert "A rank has died" in message
        assert ended == 3
        assert seconds < TIMEOUT_S + 3


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
    results = run_ranks(check_raises, world, group_timeout_s=TIMEOUT_S)
    for result in results:
        assert not isinstance(result, Failure), result
        message, ended, seconds = result
        assert "ValueError: boom" in message
        assert ended == 3
        assert seconds < TIMEOUT_S


def check_corrupt(rank: int, world: int, at: int, bucket: int) -> Any:
    model, _ = model_and_state()
    harm = {"left": 0}

    def tampering_run(self: Any, exchange: Any) -> int:
        harm["left"] -= 1
        if harm["left"] == 0:
            exchange = Tampered(exchange, at)
        return run(self, exchange)

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
    results = run_ranks(check_corrupt, world, at, bucket, group_timeout_s=TIMEOUT_S)
    for result in results:
        assert not isinstance(result, Failure), result
        message, ended, seconds = result
        assert words in message
        assert ended == 3
        assert seconds < TIMEOUT_S + 3


def check_specs(rank: int, world: int, specs: list[str]) -> Any:
    start = time.monotonic()
    with pytest.raises(gradwire.ArgumentError) as caught:
        hook(specs[rank])
    assert time.monotonic() - start < TIMEOUT_S
    return str(caught.value)


def test_different_specs_are_refused_on_every_rank() -> None:
    specs = ["lossless", "lossless", "lossless(level=3)"]
    for message in run_ranks(check_specs, 3, specs, group_timeout_s=TIMEOUT_S):
        assert "rank 2 has spec 'lossless(level=3)'" in message
        assert "rank 0 has spec 'lossless'" in message


def test_a_bad_spec_on_one_rank_is_named_on_the_others() -> None:
    one, other = run_ranks(check_specs, 2, ["lossles", "lossless"], group_timeout_s=TIMEOUT_S)
    assert one.startswith("spec 'lossles'")
    assert "did you mean 'lossless'?" in one
    assert "did you mean 'lossless'?" in other


def check_stalled(rank: int, world: int) -> Any:
    model, _ = model_and_state()

    def stall(step: int) -> None:
        if step == 3 and rank == BAD_RANK:
            time.sleep(TIMEOUT_S * 0.5 + 3)

    return failing_step(model, rank, stall)


def test_a_rank_that_stalls_is_an_error_after_the_time_out() -> None:
    results = run_ranks(check_stalled, 2, group_timeout_s=TIMEOUT_S * 0.5)
    assert not isinstance(results[0], Failure), results[0]
    message, ended, seconds = results[0]
    assert ended == 3
    assert "time-out" in message
    assert seconds < TIMEOUT_S
    assert not isinstance(results[1], Failure), results[1]
    assert results[1][0]


def check_hanging(rank: int, world: int) -> Any:
    """The exchange of a rank hangs in its own thread: the watch ends its futures."""
    model, state = model_and_state()

    def hang(step: int) -> None:
        if step == 3 and rank == BAD_RANK:
            state._exchange = lambda *_: time.sleep(60)

    return failing_step(model, rank, hang)


def test_no_future_stays_open_when_the_thread_hangs() -> None:
    results = run_ranks(check_hanging, 2, group_timeout_s=3.0)
    for result in results:
        assert not isinstance(result, Failure), result
        assert result[1] == 3
        assert result[2] < 8


class Bucket:
    """A bucket that DDP hands over out of turn."""

    def __init__(self, index: int) -> None:
        self._index = index

    def index(self) -> int:
        return self._index

    def buffer(self) -> Any:
        return torch.ones(100)

    def parameters(self) -> list[Any]:
        return [torch.ones(100)]

    def is_last(self) -> bool:
        return False


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
    for message in run_ranks(check_cut_short, 2, group_timeout_s=TIMEOUT_S):
        assert "cut short" in message


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
