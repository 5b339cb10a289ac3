"""A learned method (lgc) under DDP: rank 0 trains, all ranks get its network; resumed, failing."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import _trainer, attach  # noqa: E402
from gradwire.torch._autoencoder import Autoencoder, Widths  # noqa: E402
from lossy_training import bits, loss_of, sgd, train, wrapped  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402

pytestmark = pytest.mark.timeout(300)

SPEC = "lgc(keep=0.01,learn=5,dense_below=64)"
SMALL = Widths((8, 16), 2, (8, 8))
FAILED = "rank 0 could not train the network of a learned method"


def check_learned(rank: int, world: int, spec: str, bucket_mb: float) -> Any:
    model = wrapped(bucket_mb)
    state = attach(model, spec)
    optimizer = sgd(model, plain=False)
    random = torch.get_rng_state()
    losses = train(model, rank, range(4), plain=False, optimizer=optimizer)
    assert state.network == b""
    assert ("training" in state.state_dict()) == (rank == 0)
    losses += train(model, rank, range(4, 5), plain=False, optimizer=optimizer)
    network = state.network
    assert Autoencoder.from_bytes(network).widths == Widths()
    assert "training" not in state.state_dict()
    losses += train(model, rank, range(5, 10), plain=False, optimizer=optimizer)
    assert state.network == network
    assert torch.equal(torch.get_rng_state(), random)
    assert state.stats().steps == 10
    assert losses[-1] < losses[0]
    return [*bits(model), network]


@pytest.mark.parametrize(
    ("world", "mode", "bucket_mb"), [(2, "ring", 25.0), (2, "server", 0.01), (3, "ring", 0.01)]
)
def test_ranks_learn_one_network_and_go_on_by_it(world: int, mode: str, bucket_mb: float) -> None:
    spec = SPEC.replace("learn", f"mode={mode},learn")
    first, *others = successes(run_ranks(check_learned, world, spec, bucket_mb))
    assert others == [first] * (world - 1)


def check_resumed(rank: int, world: int, stops: list[int]) -> Any:
    """Also where the network has just come, or has been in use."""
    whole = wrapped(find_unused_parameters=True)
    attach(whole, SPEC)
    train(whole, rank, range(8), plain=False)
    for stop in stops:
        before, after = (wrapped(find_unused_parameters=True) for _ in range(2))
        state = attach(before, SPEC)
        optimizer = sgd(before, plain=False)
        train(before, rank, range(stop), plain=False, optimizer=optimizer)
        file = io.BytesIO()
        torch.save([before.module.state_dict(), optimizer.state_dict(), state.state_dict()], file)
        file.seek(0)
        module, momenta, kept = torch.load(file, weights_only=True)
        resumed = attach(after, SPEC)
        after.module.load_state_dict(module)
        optimizer = sgd(after, plain=False)
        optimizer.load_state_dict(momenta)
        resumed.load_state_dict(kept)
        train(after, rank, range(stop, 8), plain=False, optimizer=optimizer)
        assert bits(after) == bits(whole), stop
    return bits(whole)


def test_a_job_that_learns_goes_on_as_if_it_had_not_stopped() -> None:
    one, other = successes(run_ranks(check_resumed, 2, [3, 5, 6]))
    assert one == other


def check_given(rank: int, world: int) -> Any:
    """A network given by hand ends the learning, whatever its widths."""
    data = Autoencoder(SMALL, seed=3).to_bytes()
    model = wrapped()
    state = attach(model, SPEC)
    train(model, rank, range(2), plain=False)
    with pytest.raises(gradwire.GradwireError, match="bias at byte"):
        state.set_network(data[:-1])
    assert state.network == b""
    state.set_network(data)
    train(model, rank, range(2, 8), plain=False)
    assert state.network == data
    assert "training" not in state.state_dict()
    for spec in ("topk(keep=0.01)", "lossless"):
        other = attach(wrapped(), spec)
        assert other.network == b""
        with pytest.raises(gradwire.ArgumentError):
            other.set_network(data)
    return bits(model)


def test_a_network_can_be_given() -> None:
    one, other = successes(run_ranks(check_given, 2))
    assert one == other


# --- failures -----------------------------------------------------------------------------------


def failing_learn(*_: Any) -> float:
    raise MemoryError("no room")


def check_training_fails(rank: int, world: int, failing_step: int) -> Any:
    """The step behind the one whose sample could not be learned fails on all ranks; when training
    works again, or a network is given, they go on."""
    model = wrapped()
    state = attach(model, SPEC)
    optimizer = sgd(model, plain=False)
    train(model, rank, range(failing_step), plain=False, optimizer=optimizer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_trainer.AutoencoderTrainer, "learn", failing_learn)
        train(model, rank, [failing_step], plain=False, optimizer=optimizer)
        assert state.error is None or failing_step == 4
        with pytest.raises(RuntimeError, match=FAILED):
            loss_of(model, rank, 9).backward()
        message = str(state.error)
        with pytest.raises(RuntimeError, match="no gradient of this step is valid"):
            loss_of(model, rank, 9).backward()
        state.reset()
    assert state.network == b""
    train(model, rank, range(10, 16), plain=False, optimizer=optimizer)
    assert state.network
    return message, [*bits(model), state.network]


@pytest.mark.parametrize("failing_step", [1, 4])
def test_training_that_fails_is_an_error_on_all_ranks(failing_step: int) -> None:
    one, other = successes(run_ranks(check_training_fails, 2, failing_step))
    assert one[1] == other[1]
    for message, _ in (one, other):
        assert "MemoryError: no room" in message
        assert "set_network" in message


def bad_network(_: Any) -> bytes:
    return b"no network"


def check_no_network(rank: int, world: int) -> list[str]:
    """What rank 0 hands over is no network."""
    model = wrapped()
    state = attach(model, SPEC)
    errors = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_trainer.AutoencoderTrainer, "network", bad_network)
        train(model, rank, range(5), plain=False)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=FAILED):
                loss_of(model, rank, 5).backward()
            errors.append(str(state.error))
            state.reset()
            train(model, rank, range(6, 7), plain=False)  # which tries again
    with pytest.raises(RuntimeError, match=FAILED):
        loss_of(model, rank, 5).backward()
    state.reset()
    state.set_network(Autoencoder(SMALL).to_bytes())
    train(model, rank, range(8, 10), plain=False)
    return errors + list(map(bytes.hex, bits(model)))


def test_a_network_that_is_none_is_an_error_on_all_ranks() -> None:
    one, other = successes(run_ranks(check_no_network, 2))
    assert one == other
    assert "no bytes of a network" in one[0]
