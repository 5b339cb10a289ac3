"""Training with DistributedDataParallel: the same losses and gradients, bit for bit."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import HookState, attach, hook, stats  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(600)


def mlp() -> Any:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(40, 160), nn.ReLU(), nn.Linear(160, 80), nn.Linear(80, 10))


def batch(rank: int, step: int, width: int = 40) -> tuple[Any, Any]:
    random = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(16, width, generator=random), torch.randint(10, (16,), generator=random)


def train(model: Any, rank: int, steps: int) -> list[float]:
    """Losses of some steps; the last one is the first weight's sum, so that the end counts too."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = batch(rank, step)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, next(model.parameters()).double().sum().item()]


def gradients(model: Any) -> list[bytes]:
    return [
        p.grad.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        for p in model.parameters()
        if p.grad is not None
    ]


def bits_of_step(model: Any, loss: Any) -> list[bytes]:
    model.zero_grad()
    loss.backward()
    return gradients(model)


def check_losses(rank: int, world: int) -> None:
    # Buckets of a few kilobytes, so that DDP makes several and rebuilds them after step 0.
    plain = train(DistributedDataParallel(mlp(), bucket_cap_mb=0.02), rank, 20)
    model = DistributedDataParallel(mlp(), bucket_cap_mb=0.02)
    state = attach(model, "lossless")
    heard: list[int] = []
    state.on_step(lambda totals: heard.append(totals.steps))
    state.on_step(lambda totals: 1 // (3 - totals.steps))  # fails once, and is called no more
    assert train(model, rank, 20) == plain
    assert heard == list(range(1, 21))
    sent = stats(model)
    assert (sent.steps, state.error) == (20, None)
    assert sent.buckets > 30
    assert 0 < sent.payload_bytes < sent.original_bytes

    viewing = DistributedDataParallel(mlp(), gradient_as_bucket_view=True)
    viewing.register_comm_hook(*hook("lossless(level=3)", order="gloo", exchange="two_shot"))
    assert train(viewing, rank, 20) == train(DistributedDataParallel(mlp()), rank, 20)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_twenty_steps_have_equal_losses(world: int) -> None:
    successes(run_ranks(check_losses, world))


class Forked(nn.Module):
    """Uses its second branch on some inputs only, one weight twice, and keeps one frozen."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first, self.second = nn.Linear(40, 40), nn.Linear(40, 40)
        self.tied = nn.Linear(40, 40)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(40, 40).requires_grad_(False)

    def forward(self, x: Any, branch: bool) -> Any:
        x = self.tied(self.frozen(self.first(x)))
        return self.second(x) if branch else x


def same_gradients(make: Any, step: Any, steps: int, **options: Any) -> HookState:
    """Compare a model with a hook with one without, each step made by ``step(model, i)``."""
    plain, ours = (
        DistributedDataParallel(make(), **options),
        DistributedDataParallel(make(), **options),
    )
    state = attach(ours, "lossless")
    for i in range(steps):
        expected = step(plain, i)
        assert step(ours, i) == expected, i
        assert expected
    return state


def check_features(rank: int, world: int) -> None:
    def unused(model: Any, i: int) -> list[bytes]:
        return bits_of_step(model, model(batch(rank, i)[0], i % 2 == 1).pow(2).mean())

    def static(model: Any, i: int) -> list[bytes]:
        return bits_of_step(model, model(batch(rank, i)[0], True).pow(2).mean())

    def accumulate(model: Any, i: int) -> list[bytes]:
        model.zero_grad()
        with model.no_sync():
            model(batch(rank, 2 * i)[0]).pow(2).mean().backward()
        model(batch(rank, 2 * i + 1)[0]).pow(2).mean().backward()
        return gradients(model)

    same_gradients(Forked, unused, 4, find_unused_parameters=True)
    same_gradients(Forked, static, 4, static_graph=True)
    same_gradients(mlp, accumulate, 4, bucket_cap_mb=0.02)


def check_layouts(rank: int, world: int) -> None:
    def convolutions() -> Any:
        torch.manual_seed(7)
        model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.Flatten())
        return model.to(memory_format=torch.channels_last)

    def images(model: Any, i: int) -> list[bytes]:
        x = batch(rank, i, 3 * 100)[0].view(16, 3, 10, 10)
        return bits_of_step(model, model(x).pow(2).mean())

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(8)
            self.wide, self.narrow = nn.Linear(40, 40), nn.Linear(40, 40).bfloat16()

        def forward(self, x: Any) -> Any:
            return self.narrow(self.wide(x).bfloat16()).float()

    def dense(model: Any, i: int) -> list[bytes]:
        return bits_of_step(model, model(batch(rank, i)[0]).pow(2).mean())

    def embedding() -> Any:
        torch.manual_seed(9)
        return nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Linear(8, 4))

    def lookup(model: Any, i: int) -> list[bytes]:
        model.zero_grad()
        model(torch.arange(i, i + 9) * (rank + 1) % 50).pow(2).mean().backward()
        table = model.module[0].weight.grad.to_dense().view(torch.uint8).numpy().tobytes()
        return [table, model.module[1].weight.grad.view(torch.uint8).numpy().tobytes()]

    same_gradients(convolutions, images, 3)
    same_gradients(Mixed, dense, 3)
    state = same_gradients(embedding, lookup, 3)
    assert state.stats().plain_bytes > 0


def check_scaler(rank: int, world: int) -> list[float]:
    """An infinity on one rank must make all ranks skip the step."""
    model = DistributedDataParallel(mlp())
    attach(model, "lossless")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scales = []
    for step in range(3):
        x, y = batch(rank, step)
        loss = nn.functional.cross_entropy(model(x), y)
        if step == 1 and rank == 1:
            loss = loss * float("inf")
        before = next(model.parameters()).clone()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, next(model.parameters())) == (step == 1)
        scales.append(scaler.get_scale())
    return scales


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("check", [check_features, check_layouts], ids=lambda f: f.__name__)
def test_what_ddp_can_do_gives_the_same_gradients(check: Any, world: int) -> None:
    successes(run_ranks(check, world))


def test_an_infinity_reaches_the_scaler_of_every_rank() -> None:
    assert successes(run_ranks(check_scaler, 2)) == [[1024.0, 512.0, 512.0]] * 2


def check_state(rank: int, world: int) -> Any:
    model = DistributedDataParallel(mlp())
    state = attach(model, "lossless")
    train(model, rank, 2)
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    resumed = DistributedDataParallel(mlp())
    resumed_state = attach(resumed, "lossless")
    resumed_state.load_state_dict(loaded)
    train(resumed, rank, 2)
    assert resumed_state.stats().steps == 4
    assert resumed_state.stats().exchanged == state.stats().exchanged + state.stats().exchanged
    with pytest.raises(gradwire.ArgumentError, match="already"):
        attach(model, "lossless")
    with pytest.raises(gradwire.ArgumentError, match="no DistributedDataParallel"):
        attach(mlp(), "lossless")
    with pytest.raises(gradwire.ArgumentError, match="no hook"):
        stats(DistributedDataParallel(mlp()))
    return state.options.piece_bytes


def test_state_resumes_and_misuse_is_refused() -> None:
    first, second = successes(run_ranks(check_state, 2))
    assert first == second >= 96 * 1024, "pieces that differ between ranks"


def check_kill_switch(rank: int, world: int) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADWIRE_DISABLE", "1")
        model = DistributedDataParallel(mlp())
        state = attach(model, "lossless")
        assert train(model, rank, 3) == train(DistributedDataParallel(mlp()), rank, 3)
    return state.stats().original_bytes


def test_the_kill_switch_sends_everything_plainly() -> None:
    assert successes(run_ranks(check_kill_switch, 2)) == [0, 0]
