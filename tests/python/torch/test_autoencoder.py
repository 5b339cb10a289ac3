"""The network of learned compression: its bytes, and training on what looks like gradients."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

from gradwire.errors import ArgumentError, CorruptError, UnsupportedError  # noqa: E402
from gradwire.torch._autoencoder import Autoencoder, Widths  # noqa: E402
from gradwire.torch._trainer import AutoencoderTrainer, blocks_of, server_loss  # noqa: E402

SMALL = Widths((16, 32, 16), 2, (16, 32, 16))
WORLD = 3


def sample(step: int, places: int = 700, world: int = WORLD) -> tuple[int, Any]:
    """One rank's largest values, heavy-tailed; the others' are part of them, and noise."""
    random = np.random.default_rng(step)
    leader = step % world
    signs = np.repeat(random.choice([-1.0, 1.0], places // 4 + 1), 4)[:places]
    largest = signs * (1 + random.exponential(size=places))
    values = 0.5 * largest + 0.5 * random.standard_normal((world, places))
    values[leader] = largest
    return leader, (values / np.sqrt(np.square(largest).mean())).astype(np.float32)


def trained(steps: range, trainer: Any = None, ring: bool = True) -> Any:
    trainer = trainer or AutoencoderTrainer(ring, seed=7, passes=2, widths=SMALL)
    for step in steps:
        trainer.learn([sample(step), sample(1000 + step, places=90)])
    return trainer


def decoded(data: bytes, values: Any, leader: int | None) -> Any:
    """What all ranks decode: of the mean of codes, or of the leader's."""
    network = Autoencoder.from_bytes(data)
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % 8)))
    with torch.no_grad():
        codes = network.encode(torch.from_numpy(padded)[:, None])
        code = codes.mean(0, keepdim=True) if leader is None else codes[leader : leader + 1]
        return network.decode(code.half().float())[0, 0, : values.shape[1]].numpy()


def error(data: bytes, *, ring: bool) -> float:
    """Of samples that it was not trained on, relative to sending nothing."""
    errors = []
    for step in range(5000, 5004):
        leader, values = sample(step)
        mean = values.mean(0)
        left = decoded(data, values, None if ring else leader) - mean
        errors.append(float(np.linalg.norm(left) / np.linalg.norm(mean)))
    return sum(errors) / len(errors)


# --- bytes --------------------------------------------------------------------------------------


def test_bytes_have_widths_and_then_weights_layer_by_layer() -> None:
    network = Autoencoder(Widths((5, 6), 2, (3, 4)), seed=3)
    data = network.to_bytes()
    assert data[:4] == b"GWLN"
    assert struct.unpack_from("<BB5H", data, 4) == (1, 2, 5, 6, 2, 3, 4)
    weights = np.frombuffer(data, "<f4", offset=16)
    layers = [network.halving[0], network.halving[1], network.to_code]
    layers += [network.doubling[0], network.doubling[1], network.to_values]
    for layer in layers:
        for own in (layer.weight, layer.bias):
            found, weights = np.split(weights, [own.numel()])
            np.testing.assert_array_equal(found, own.detach().numpy().reshape(-1))
    assert not len(weights)


def test_a_network_comes_back_from_its_bytes() -> None:
    for widths in (SMALL, Widths(), Widths((1,), 1, (1,))):
        data = Autoencoder(widths, seed=5).to_bytes()
        assert len(data) == widths.network_bytes()
        again = Autoencoder.from_bytes(data)
        assert again.widths == widths
        assert again.to_bytes() == data


def test_a_code_has_a_quarter_of_the_floats() -> None:
    network = Autoencoder()
    values = torch.randn(3, 1, 1024)
    code = network.encode(values)
    assert code.shape == (3, 4, 64)
    assert network.decode(code).shape == values.shape


def test_bytes_that_are_no_network_are_refused() -> None:
    data = Autoencoder(SMALL).to_bytes()
    for cut in (0, 5, 6, 12, 100, len(data) - 1):
        with pytest.raises(CorruptError, match="network"):
            Autoencoder.from_bytes(data[:cut])
    nan = struct.pack("<f", float("nan"))
    for bad in (data + b"\0", b"x" + data[1:], data[:-4] + nan, data[:6] + bytes(2) + data[8:]):
        with pytest.raises(CorruptError, match="network"):
            Autoencoder.from_bytes(bad)
    with pytest.raises(UnsupportedError, match="version 2"):
        Autoencoder.from_bytes(data[:4] + b"\2" + data[5:])


@pytest.mark.parametrize(
    "widths", [((), 1, ()), ((4,), 1, (4, 4)), ((4, 0), 1, (4, 4)), ((4,), 5000, (4,))]
)
def test_widths_that_no_network_has_are_refused(widths: Any) -> None:
    with pytest.raises(ArgumentError):
        Widths(*widths)


# --- training -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", [True, False])
def test_training_takes_the_error_well_below_that_of_sending_nothing(ring: bool) -> None:
    begun = AutoencoderTrainer(ring, seed=7, widths=SMALL)
    assert 0.9 < error(begun.network(), ring=ring) < 1.2
    assert error(trained(range(100), ring=ring).network(), ring=ring) < 0.7


def test_a_loss_is_returned_and_falls() -> None:
    trainer = AutoencoderTrainer(True, widths=SMALL)
    assert trainer.learn([]) == 0.0
    losses = [trainer.learn([sample(step)]) for step in range(40)]
    assert 0 < sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_the_same_seed_and_samples_give_the_same_bytes() -> None:
    one = trained(range(5)).network()
    assert one == trained(range(5)).network()
    assert one != AutoencoderTrainer(True, seed=8, widths=SMALL).network()


def test_what_is_global_is_neither_used_nor_changed() -> None:
    wanted = trained(range(3)).network()
    random = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            assert trained(range(3)).network() == wanted
            assert not torch.is_grad_enabled()
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), random)


def test_a_training_goes_on_as_if_it_had_not_stopped() -> None:
    whole = trained(range(12))
    resumed = AutoencoderTrainer(True, seed=99, passes=2, widths=SMALL)
    resumed.load(trained(range(7)).state())
    assert trained(range(7, 12), resumed).network() == whole.network()
    with pytest.raises(ArgumentError, match="training state"):
        resumed.load(b"no state")
    with pytest.raises(ArgumentError, match="training state"):
        resumed.load(AutoencoderTrainer(True, widths=Widths()).state())


def test_samples_are_not_modified_and_bad_ones_refused() -> None:
    leader, values = sample(1, places=2100)
    kept = values.copy()
    trainer = AutoencoderTrainer(True, passes=1, widths=SMALL)
    trainer.learn([(leader, values)])
    np.testing.assert_array_equal(values, kept)
    before = trainer.network()
    values[1, 3] = np.inf
    with pytest.raises(ArgumentError, match="not finite"):
        trainer.learn([(leader, values)])
    with pytest.raises(ArgumentError, match="the loss is"):
        AutoencoderTrainer(True, widths=SMALL).learn([(leader, kept * np.float32(1e30))])
    assert trainer.network() == before


def test_samples_are_cut_as_they_are_coded() -> None:
    _, values = sample(0, places=2100)
    blocks = blocks_of(2, values, 16)
    assert [(block.leader, block.values.shape) for block in blocks] == [(2, (WORLD, 1024))] * 2
    np.testing.assert_array_equal(blocks[1].values.numpy(), values[:, 1024:2048])
    (short,) = blocks_of(0, values[:, :35], 16)
    assert short.values.shape == (WORLD, 48)
    assert not short.values[:, 35:].any()
    assert blocks_of(0, values[:, :0], 16) == []


def test_what_is_kept_of_samples_is_bounded() -> None:
    trainer = AutoencoderTrainer(True, passes=1, widths=Widths((2,), 1, (2,)))
    for step in range(4):
        trainer.learn([sample(step, places=2**17)])
    held = sum(block.values.numel() for block in trainer._memory)
    assert 2**20 - WORLD * 1024 < held <= 2**20


def test_codes_of_a_server_are_drawn_together_by_pairs() -> None:
    network = Autoencoder(SMALL, seed=1)
    values = torch.randn(2, WORLD, 64)
    leaders = torch.tensor([2, 0])
    codes = [network.encode(v[:, None]) for v in values]
    fit = [
        (network.decode(c[r : r + 1])[0] - v).square().mean()
        for v, c, r in zip(values, codes, [2, 0], strict=True)
    ]
    pairs = [(i, j) for i in range(WORLD) for j in range(WORLD) if i != j]
    apart = [(c[i] - c[j]).square().mean() for c in codes for i, j in pairs]
    wanted = 0.5 * sum(fit) / 2 + 0.5 * sum(apart) / len(apart)
    assert server_loss(network, leaders, values).item() == pytest.approx(wanted.item(), rel=1e-5)
