"""Failures of sharded training: every rank gets an error that says what happened, and none hangs.

No test measures time. What hangs is ended by ``run_ranks``, and is then a failure of kind "hung".
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import _collectives, attach  # noqa: E402
from ranks import LIMIT_S, Failure, run_ranks, successes  # noqa: E402
from torch import distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

pytestmark = pytest.mark.timeout(300)

SHORT_TIMEOUT_S = 3.0
BAD_RANK = 1
BAD_STEP = 3


def sharded(width: int = 60) -> Any:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(60, width), nn.Linear(width, 61), nn.Linear(61, 60))
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def train_step(model: Any, optimizer: Any, rank: int, step: int) -> None:
    x = torch.randn(8, 60, generator=torch.Generator().manual_seed(step + rank))
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()


def failing_step(model: Any, rank: int, before: Callable[[int], None]) -> tuple[str, int]:
    """The error, and how many steps ended before it; later passes fail at once."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(BAD_STEP + 2):
        try:
            before(step)
            train_step(model, optimizer, rank, step)
        except gradwire.GradwireError as error:
            with pytest.raises(gradwire.GradwireError, match="are not valid"):
                model(torch.ones(8, 60))
            return str(error), step
    raise AssertionError("no step failed")


def check_specs(rank: int, world: int, specs: list[str]) -> str:
    with pytest.raises(gradwire.ArgumentError) as caught:
        attach(sharded(), specs[rank])
    return str(caught.value)


def test_different_specs_are_refused_on_every_rank() -> None:
    specs = ["lossless", "lossless", "lossless(level=3)"]
    for message in successes(run_ranks(check_specs, 3, specs)):
        assert "rank 2 has spec 'lossless(level=3)'" in message
        assert "rank 0 has spec 'lossless'" in message


def test_a_bad_spec_on_one_rank_is_named_on_the_others() -> None:
    one, other = successes(run_ranks(check_specs, 2, ["lossles", "lossless"]))
    assert one.startswith("spec 'lossles': ")
    assert "did you mean 'lossless'?" in other


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


def tamper(patch: Any, way: str, number: int, at: int) -> Callable[[], None]:
    """From the call of what is returned on, the number-th exchange of a way is damaged once."""
    left = {"count": 0}
    make, run = _collectives.Collectives._make, _collectives.Transport.run

    def counting_make(self: Any, layout: Any, data: Any) -> None:
        if layout.way == way and left["count"]:
            left["count"] -= 1
            left["now"] = left["count"] == 0
        make(self, layout, data)

    def tampering_run(self: Any, exchange: Any) -> None:
        run(self, Tampered(exchange, at) if left.pop("now", False) else exchange)

    patch.setattr(_collectives.Collectives, "_make", counting_make)
    patch.setattr(_collectives.Transport, "run", tampering_run)
    return lambda: left.update(count=number)


def check_corrupt(rank: int, world: int, way: str, number: int, at: int) -> Any:
    model = sharded()
    state = attach(model, "lossless")
    with pytest.MonkeyPatch.context() as patch:
        arm = tamper(patch, way, number, at)
        result = failing_step(
            model, rank, lambda step: arm() if (rank, step) == (BAD_RANK, BAD_STEP) else None
        )
    assert isinstance(state.error, gradwire.GradwireError)
    return result


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    ("way", "number", "at", "words"),
    [
        ("all_gather", 1, 60, "checksum"),
        ("all_gather", 4, 60, "checksum"),
        ("reduce_scatter", 1, 60, "checksum"),
        ("reduce_scatter", 3, 60, "checksum"),  # the last exchange of the step
        ("all_gather", 2, 0, "header is damaged"),  # rank 1 cannot follow any more
        ("reduce_scatter", 3, 4, "header is damaged"),
    ],
)
def test_corrupt_bytes_reach_every_rank_as_an_error(
    world: int, way: str, number: int, at: int, words: str
) -> None:
    for message, ended in successes(run_ranks(check_corrupt, world, way, number, at)):
        assert words in message
        assert ended == BAD_STEP


def check_corrupt_evaluation(rank: int, world: int) -> str:
    """The last all-gather of a pass without gradients: its result reaches nobody."""
    model = sharded()
    attach(model, "lossless")
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        arm = tamper(patch, "all_gather", 3, 60)
        model(torch.ones(8, 60))
        if rank == BAD_RANK:
            arm()
        with pytest.raises(gradwire.GradwireError) as caught:
            model(torch.ones(8, 60))
    return str(caught.value)


def test_a_corrupt_parameter_is_noticed_before_its_output_is_used() -> None:
    for message in successes(run_ranks(check_corrupt_evaluation, 3)):
        assert "checksum" in message


def check_killed(rank: int, world: int) -> Any:
    model = sharded()
    attach(model, "lossless")

    def die(step: int) -> None:
        if (rank, step) == (BAD_RANK, BAD_STEP):
            os.kill(os.getpid(), signal.SIGKILL)

    return failing_step(model, rank, die)


@pytest.mark.parametrize("world", [2, 3])
def test_a_killed_rank_is_an_error_on_the_others(world: int) -> None:
    results = run_ranks(check_killed, world)
    assert isinstance(results.pop(BAD_RANK), Failure)
    for message, ended in successes(results):
        assert "A rank has died" in message
        assert ended == BAD_STEP


def check_stalled(rank: int, world: int) -> Any:
    """Rank 1 comes to its step only when rank 0 has given it up."""
    model = sharded()
    attach(model, "lossless")
    store = dist.distributed_c10d._get_default_store()

    def stall(step: int) -> None:
        if (rank, step) == (BAD_RANK, BAD_STEP):
            store.wait(["given up"], timedelta(seconds=LIMIT_S))

    result = failing_step(model, rank, stall)
    store.set("given up", "1")
    return result


def test_a_rank_that_stalls_is_an_error_after_the_time_out() -> None:
    first, second = successes(run_ranks(check_stalled, 2, group_timeout_s=SHORT_TIMEOUT_S))
    assert "time-out" in first[0]
    assert second[0]


def check_models(rank: int, world: int) -> str:
    model = sharded(60 if rank == 0 else 90)
    attach(model, "lossless")
    with pytest.raises(gradwire.ArgumentError, match="models differ") as caught:
        model(torch.ones(8, 60))
    return str(caught.value)


def test_ranks_whose_models_differ_are_told_where() -> None:
    for message in successes(run_ranks(check_models, 2)):
        assert "rank 0 has tensor 0 of shape (30, 60)" in message
        assert "rank 1 has tensor 0 of shape (45, 60)" in message


def check_raises(rank: int, world: int) -> Any:
    """An exception of ours that is no GradwireError."""
    model = sharded()
    attach(model, "lossless")

    def break_it(step: int) -> None:
        if (rank, step) == (BAD_RANK, BAD_STEP):
            patch.setattr(_collectives.Collectives, "_judge", _raise)

    with pytest.MonkeyPatch.context() as patch:
        return failing_step(model, rank, break_it)


def _raise(*_: Any) -> None:
    raise ValueError("boom")


def test_an_exception_on_one_rank_reaches_every_rank() -> None:
    for message, ended in successes(run_ranks(check_raises, 3)):
        assert "ValueError: boom" in message
        assert ended == BAD_STEP
