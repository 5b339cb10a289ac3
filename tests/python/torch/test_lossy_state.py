"""What lossy methods keep between steps: resumed, dealt out anew, and safe from failures."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import attach, merge_states, stats  # noqa: E402
from lossy_training import SPECS, bits, loss_of, sgd, train, wrapped  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(300)

BAD_RANK = 1

# --- state --------------------------------------------------------------------------------------


def check_resumed(rank: int, world: int) -> Any:
    states = {}
    for spec, plain in SPECS.items():
        whole, before, after = wrapped(), wrapped(), wrapped(0.03)
        attach(whole, spec)
        train(whole, rank, range(8), plain=plain)

        state = attach(before, spec)
        optimizer = sgd(before, plain=plain)
        train(before, rank, range(5), plain=plain, optimizer=optimizer)
        file = io.BytesIO()
        torch.save([before.module.state_dict(), optimizer.state_dict(), state.state_dict()], file)
        file.seek(0)
        module, rates, kept = torch.load(file, weights_only=True)
        resumed = attach(after, spec.replace("0.05", " 0.050"))
        after.module.load_state_dict(module)
        optimizer = sgd(after, plain=plain)
        optimizer.load_state_dict(rates)
        resumed.load_state_dict(kept)
        train(after, rank, range(5, 8), plain=plain, optimizer=optimizer)
        assert bits(after) == bits(whole), spec
        assert resumed.stats().steps == 8
        assert resumed.stats().lossy == stats(whole).lossy
        assert bytes(resumed.state_dict()["lossy"]) == bytes(stats_of(whole).state_dict()["lossy"])
        states[spec] = kept
    refuse_other_states(states)
    return states["topk(keep=0.05,values=int8)"]


def stats_of(model: Any) -> Any:
    from gradwire.torch._hook import _states

    return _states[model]


def refuse_other_states(states: dict[str, Any]) -> None:
    state = attach(wrapped(), "topk(keep=0.05)")
    exact = attach(wrapped(), "lossless")
    with pytest.raises(gradwire.ArgumentError, match=r"this run's method is 'topk\(keep=0.05\)'"):
        state.load_state_dict(states["qsgd"])
    with pytest.raises(gradwire.ArgumentError, match="this run's spec is 'lossless'"):
        exact.load_state_dict(states["qsgd"])
    with pytest.raises(gradwire.ArgumentError, match="it is of 'lossless'"):
        state.load_state_dict(exact.state_dict())
    with pytest.raises(gradwire.ArgumentError, match="tensor of bytes"):
        state.load_state_dict({**states["qsgd"], "lossy": "x"})


def check_more_ranks(rank: int, world: int, states: list[Any]) -> list[bytes]:
    model = wrapped()
    state = attach(model, "topk(keep=0.05,values=int8)")
    with pytest.raises(gradwire.ArgumentError, match=r"merge\(\) makes states"):
        state.load_state_dict(states[rank % 2])
    state.load_state_dict(merge_states(states, rank, world))
    train(model, rank, range(2), plain=False)
    assert state.stats().steps == 7
    return bits(model)


def test_a_job_goes_on_as_if_it_had_not_stopped() -> None:
    states = successes(run_ranks(check_resumed, 2))
    one, *others = successes(run_ranks(check_more_ranks, 3, states))
    assert others == [one, one]
    for wrong in (states[::-1], states[:1], [{**states[0]}, {"version": 1}], []):
        with pytest.raises(gradwire.ArgumentError):
            merge_states(wrong, 0, 3)


# --- failures -----------------------------------------------------------------------------------


class Given(nn.Module):
    """Two parameters whose gradients are what is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Parameter(torch.zeros(40, 50)), nn.Parameter(torch.zeros(40, 60))

    def forward(self, a: Any, b: Any) -> Any:
        return (self.first * a).sum() + (self.last * b).sum()


def given(rank: int, step: int) -> list[Any]:
    random = torch.Generator().manual_seed(100 * step + rank)
    return [torch.randn(40, width, generator=random) for width in (50, 60)]


def check_not_finite(rank: int, world: int) -> Any:
    """One rank has a NaN in a step's second bucket: all get an error, and what the ranks had sent
    in the first one comes with later steps."""
    model = DistributedDataParallel(Given(), bucket_cap_mb=0.001)
    state = attach(model, "topk(keep=0.02)")
    applied = torch.zeros(40, 60)
    message = ""
    for step in range(5):
        model.zero_grad()
        a, b = given(rank, step)
        if step == 4:
            a, b = torch.zeros_like(a), torch.zeros_like(b)
            state.set_keep(1.0)
        if step == 2 and rank == BAD_RANK:
            a[3, 7] = float("nan")
        try:
            model(a, b).backward()
            applied += model.module.last.grad
        except RuntimeError as error:
            message = str(error)
            assert (step, state.stats().steps) == (2, 3)
            with pytest.raises(RuntimeError, match="no gradient of this step is valid"):
                model(a, b).backward()
            state.reset()
            assert state.error is None
    wanted = sum(given(r, step)[1] for r in range(world) for step in range(4)) / world
    assert (applied - wanted).abs().max() < 1e-5
    return message, applied.numpy().tobytes()


@pytest.mark.parametrize("world", [2, 3])
def test_a_gradient_that_is_not_finite_is_an_error_on_all_ranks(world: int) -> None:
    results = successes(run_ranks(check_not_finite, world))
    for message, applied in results:
        assert "first: element 157 of the gradient is nan" in message
        assert applied == results[0][1]


def check_facts(rank: int, world: int) -> list[str]:
    model = wrapped()
    state = attach(model, "dgc(keep=0.05)")
    optimizer = sgd(model, plain=True)
    errors = []
    for call in ("set_keep", "set_learning_rate_ratio"):
        train(model, rank, range(2), plain=True, optimizer=optimizer)
        getattr(state, call)(0.5 if rank == BAD_RANK else 0.25)
        with pytest.raises(RuntimeError, match="ranks differ in keep"):
            loss_of(model, rank, 2).backward()
        errors.append(str(state.error))
        state.reset()
        state.set_keep(0.1)
        train(model, rank, range(3, 5), plain=True, optimizer=optimizer)
        state.set_keep(None)
    weights = bits(model)
    for _ in range(2):  # exact parameters have momentum, too, which failed steps must not move
        state.set_keep(0.5 if rank == BAD_RANK else 0.25)
        with pytest.raises(RuntimeError):
            loss_of(model, rank, 2).backward()
        state.reset()
    state.set_keep(None)
    assert bits(model) == weights
    train(model, rank, range(3), plain=True, optimizer=optimizer)
    for bad in (0, 1.5, -1.0):
        with pytest.raises(gradwire.ArgumentError, match="above 0"):
            state.set_keep(bad)
    with pytest.raises(gradwire.ArgumentError, match="above 0"):
        state.set_learning_rate_ratio(float("inf"))
    with pytest.raises(gradwire.ArgumentError, match="'lossless' is not lossy"):
        attach(wrapped(), "lossless").set_keep(0.5)
    return [*errors, *map(bytes.hex, bits(model))]


def test_ranks_that_differ_in_facts_are_told() -> None:
    one, other = successes(run_ranks(check_facts, 2))
    assert one[2:] == other[2:]
    assert "keep 0.25" in one[0]
    assert "keep 0.5" in other[0]
    assert "learning_rate_ratio 0.25" in one[1]


def check_kept_rates(rank: int, world: int) -> None:
    """What is kept is scaled once by the ratio of the rates."""
    model = DistributedDataParallel(Given())
    state = attach(model, "topk(keep=0.1)")
    a, b = given(rank, 0)
    model(a, b).backward()
    sent = model.module.last.grad.clone()
    state.set_learning_rate_ratio(4.0)
    state.set_keep(1.0)
    for wanted in (4 * (sum(given(r, 0)[1] for r in range(world)) / world - sent), 0 * sent):
        model.zero_grad()
        model(0 * a, 0 * b).backward()
        assert (model.module.last.grad - wanted).abs().max() < 1e-5


def test_rates_scale_what_is_kept_once() -> None:
    assert successes(run_ranks(check_kept_rates, 2)) == [None, None]
