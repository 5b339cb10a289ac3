"""Longer runs: fifty steps that converge, jobs that stop and go on, compiled modules."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

from gradwire.torch import attach  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(300)

CONTEXT = 8  #: bytes from which the next one is told


def text() -> Any:
    document = pathlib.Path(__file__).parents[3] / "docs/format.md"
    return torch.frombuffer(bytearray(document.read_bytes()), dtype=torch.uint8).long()


def reader() -> Any:
    torch.manual_seed(11)
    hidden = 48
    return nn.Sequential(
        nn.Embedding(256, 16), nn.Flatten(), nn.Linear(16 * CONTEXT, hidden), nn.Tanh(),
        nn.Linear(hidden, 256),
    )  # fmt: skip


class Job:
    """A model, its optimizer and where it is in its batches."""

    def __init__(self, rank: int, *, is_ours: bool, bucket_mb: float = 0.02) -> None:
        self.rank = rank
        self.text = text()
        self.model = DistributedDataParallel(reader(), bucket_cap_mb=bucket_mb)
        self.state = attach(self.model, "lossless") if is_ours else None
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def train(self, steps: range) -> list[float]:
        losses = []
        for step in steps:
            random = torch.Generator().manual_seed(100 * step + self.rank)
            starts = torch.randint(0, len(self.text) - CONTEXT, (32,), generator=random)
            rows = torch.stack([self.text[i : i + CONTEXT + 1] for i in starts.tolist()])
            loss = nn.functional.cross_entropy(self.model(rows[:, :-1]), rows[:, -1])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def save(self, path: pathlib.Path) -> None:
        assert self.state is not None
        parts = [self.model.module, self.optimizer, self.state]
        if self.rank == 0:
            torch.save([part.state_dict() for part in parts], path)

    def load(self, path: pathlib.Path) -> None:
        model, optimizer, state = torch.load(path, weights_only=True)
        self.model.module.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)
        if self.state is not None:
            self.state.load_state_dict(state)


def fifty_steps(rank: int, _world: int) -> list[float]:
    plain = Job(rank, is_ours=False).train(range(50))
    assert Job(rank, is_ours=True).train(range(50)) == plain
    return plain


def test_fifty_steps_converge_to_the_same_losses() -> None:
    for losses in successes(run_ranks(fifty_steps, 2)):
        assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def start_and_save(rank: int, _world: int, path: pathlib.Path) -> list[float]:
    job = Job(rank, is_ours=True)
    losses = job.train(range(10))
    job.save(path)
    return losses


def load_and_go_on(rank: int, _world: int, path: pathlib.Path, is_ours: bool) -> list[float]:
    job = Job(rank, is_ours=is_ours)
    job.load(path)
    losses = job.train(range(10, 20))
    assert job.state is None or job.state.stats().steps == 20
    return losses


def never_stopped(rank: int, _world: int) -> list[float]:
    return Job(rank, is_ours=True).train(range(20))


def test_a_job_goes_on_in_new_processes_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    path = tmp_path / "checkpoint"
    started = successes(run_ranks(start_and_save, 2, path))
    resumed = successes(run_ranks(load_and_go_on, 2, path, True))
    whole = successes(run_ranks(never_stopped, 2))
    assert [a + b for a, b in zip(started, resumed, strict=True)] == whole


def test_a_job_goes_on_with_another_number_of_ranks(tmp_path: Any) -> None:
    path = tmp_path / "checkpoint"
    successes(run_ranks(start_and_save, 2, path))
    ours = successes(run_ranks(load_and_go_on, 3, path, True))
    assert ours == successes(run_ranks(load_and_go_on, 3, path, False))


def compiled(rank: int, _world: int) -> list[list[float]]:
    both = []
    for is_ours in (False, True):
        job = Job(rank, is_ours=False, bucket_mb=2.0)  # dynamo wants no less than the first one
        job.model = torch.compile(job.model, backend="aot_eager")
        if is_ours:
            attach(job.model, "lossless")
        both.append(job.train(range(4)))
    return both


def test_a_compiled_model_trains_to_the_same_losses() -> None:
    for plain, ours in successes(run_ranks(compiled, 2)):
        assert plain == ours
