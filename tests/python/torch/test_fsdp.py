"""Sharded training, FSDP2 and FSDP1: the same losses and parameters, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import attach, reference_reduce_scatter, stats  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import (  # noqa: E402
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

STEPS = 10


class Model(nn.Module):
    """Layers whose first dimension no number of ranks divides, one frozen, one kernel."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.kernel = nn.Conv1d(1, 5, 3, padding=1)
        self.first, self.second = nn.Linear(5 * 40, 61), nn.Linear(61, 37)
        self.frozen = nn.Linear(37, 37).requires_grad_(False)
        self.last = nn.Linear(37, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.kernel(x.unsqueeze(1))).flatten(1)
        return self.last(self.frozen(torch.relu(self.second(torch.relu(self.first(x))))))


def shard(model: Any, **options: Any) -> Any:
    for layer in (model.first, model.second, model.frozen):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def batch(rank: int, step: int) -> tuple[Any, Any]:
    random = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(16, 40, generator=random), torch.randint(10, (16,), generator=random)


def bits(tensor: Any) -> bytes:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def state_bits(model: Any) -> list[bytes]:
    """Parameters of this rank and their gradients, frozen ones without."""
    both = [t for p in model.parameters() for t in (p, p.grad) if t is not None]
    return [bits(local(t)) for t in both if local(t).numel()]


def loss_of(model: Any, rank: int, step: int) -> Any:
    x, y = batch(rank, step)
    dtype = next(model.parameters()).dtype
    return nn.functional.cross_entropy(model(x.to(dtype)).float(), y)


def train(model: Any, rank: int, steps: int = STEPS) -> list[Any]:
    """Losses of some steps, and the bits after them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        loss = loss_of(model, rank, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, *state_bits(model)]


POLICIES = {
    "f32": {},
    "mixed": {
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    },
    "bf16 sums": {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16)},
    "kept": {"reshard_after_forward": False},
}


def check_equal(rank: int, world: int, names: list[str]) -> None:
    for name in names:
        plain = train(shard(Model(), **POLICIES[name]), rank)
        model = shard(Model(), **POLICIES[name])
        state = attach(model, "lossless")
        assert train(model, rank) == plain, name
        assert state.error is None
        sent = stats(model)
        assert sent.steps == STEPS
        for way in (sent.reduce_scatter, sent.all_gather):
            assert 0 < way.payload_bytes < way.original_bytes, name
        assert (sent.to_owners.sent_bytes, sent.plain_bytes) == (0, 0)
        assert sent.exchanged == sent.reduce_scatter + sent.all_gather


@pytest.mark.parametrize("world", [2, 3, 4])
def test_ten_steps_have_the_bits_of_fsdp2(world: int) -> None:
    names = list(POLICIES) if world == 3 else ["f32", "bf16 sums"]
    successes(run_ranks(check_equal, world, names))


def check_dtypes(rank: int, world: int) -> None:
    """Parameters that are themselves narrow or wide; float16 and float64 are divided apart."""
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        plain = train(shard(Model().to(dtype)), rank, 3)
        model = shard(Model().to(dtype))
        attach(model, "lossless(level=3)", order="gloo", piece_elements=1000)
        assert train(model, rank, 3) == plain, dtype


def accumulate(model: Any, rank: int, steps: int) -> list[bytes]:
    """Two micro-batches a step; sent once, or each time in every third step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        model.set_requires_gradient_sync(step % 3 == 2)
        loss_of(model, rank, 2 * step).backward()
        model.set_requires_gradient_sync(True)
        loss_of(model, rank, 2 * step + 1).backward()
        optimizer.step()
        optimizer.zero_grad()
    return state_bits(model)


def check_accumulation(rank: int, world: int) -> None:
    plain = accumulate(shard(Model()), rank, STEPS)
    model = shard(Model())
    attach(model, "lossless")
    assert accumulate(model, rank, STEPS) == plain


class Forked(nn.Module):
    """Uses its second branch in some steps only: fewer gradients are reduced in the others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first, self.second = nn.Linear(40, 13), nn.Linear(40, 13)

    def forward(self, x: Any, branch: bool) -> Any:
        return self.first(x) + self.second(x) if branch else self.first(x)


def check_unused(rank: int, world: int) -> None:
    plain, ours = fully_shard(Forked()), fully_shard(Forked())
    attach(ours, "lossless")
    for step in range(6):
        found = []
        for model in (plain, ours):
            model.zero_grad()
            model(batch(rank, step)[0], step % 2 == 1).pow(2).mean().backward()
            found.append(state_bits(model))
        assert found[0] == found[1], step


def check_forward_only(rank: int, world: int) -> None:
    plain, ours = shard(Model()), shard(Model())
    attach(ours, "lossless")
    with torch.no_grad():
        for step in range(2):
            x, _ = batch(rank, step)
            assert bits(ours(x)) == bits(plain(x))
    assert stats(ours).steps == 0


@pytest.mark.parametrize(
    "check",
    [check_dtypes, check_accumulation, check_unused, check_forward_only],
    ids=lambda check: check.__name__,
)
def test_other_ways_to_train_have_the_bits_of_fsdp2(check: Any) -> None:
    successes(run_ranks(check, 3))


def check_rank_order(rank: int, world: int) -> None:
    """The reduce-scatter itself, against the reference; whole runs, against themselves."""
    model = shard(Model())
    comm = ours_of(model, order="rank")
    for step, dtype in enumerate([torch.float32, torch.bfloat16] * 2):
        inputs = [
            torch.randn(world * 501, generator=torch.Generator().manual_seed(9 * step + r)).to(
                dtype
            )
            for r in range(world)
        ]
        found = torch.empty(501, dtype=dtype)
        with collecting_backward(comm):
            comm(found, inputs[rank].clone(), dist.group.WORLD, dist.ReduceOp.AVG)
        assert bits(found) == bits(reference_reduce_scatter(inputs, rank, "rank")), dtype
    runs = []
    for _ in range(2):
        model = shard(Model())
        attach(model, "lossless", order="rank")
        runs.append(train(model, rank))
    assert runs[0] == runs[1]


def ours_of(model: Any, **options: Any) -> Any:
    attach(model, "lossless", **options)
    return model._get_fsdp_state()._fsdp_param_groups[0]._reduce_scatter_comm


def collecting_backward(comm: Any) -> Any:
    """Outside a backward pass there is no end of one to wait for."""
    patch = pytest.MonkeyPatch()
    patch.setattr(comm._state, "settle_after_backward", comm._state.settle)
    return patch.context()


def test_rank_order_is_the_references() -> None:
    successes(run_ranks(check_rank_order, 3))


def check_replicas(rank: int, world: int) -> None:
    """Two nodes of two ranks: native HSDP, and fully_shard in a node with our slow hop."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    plain = train(shard(Model(), mesh=mesh), rank)
    native = shard(Model(), mesh=mesh)
    attach(native, "lossless")
    assert train(native, rank) == plain
    model = shard(Model(), mesh=mesh["shard"])
    attach(model, "lossless", replicate_group=mesh["replicate"].get_group())
    assert train(model, rank) == plain
    sent = stats(model)
    assert 0 < sent.to_owners.payload_bytes < sent.to_owners.original_bytes
    assert sent.steps == STEPS


def test_the_slow_hop_of_hsdp_has_the_bits_of_native_hsdp() -> None:
    successes(run_ranks(check_replicas, 4))


def wrap(model: Any, strategy: Any) -> Any:
    for name in ("first", "second"):
        inner = FullyShardedDataParallel(
            getattr(model, name), sharding_strategy=strategy, device_id=torch.device("cpu")
        )
        setattr(model, name, inner)
    model.frozen.requires_grad_(True)  # FSDP1 wants one answer for what lies in one flat tensor
    return FullyShardedDataParallel(
        model, sharding_strategy=strategy, device_id=torch.device("cpu")
    )


def check_fsdp1(rank: int, world: int) -> None:
    for strategy in (
        ShardingStrategy.FULL_SHARD,
        ShardingStrategy.SHARD_GRAD_OP,
        ShardingStrategy.NO_SHARD,
    ):
        plain = train(wrap(Model(), strategy), rank)
        model = wrap(Model(), strategy)
        attach(model, "lossless")
        assert train(model, rank) == plain, strategy
        sent = stats(model)
        assert sent.steps == STEPS
        way = sent.to_owners if strategy is ShardingStrategy.NO_SHARD else sent.reduce_scatter
        assert 0 < way.payload_bytes < way.original_bytes
        assert sent.all_gather.sent_bytes == 0


@pytest.mark.parametrize("world", [2, 3])
def test_ten_steps_have_the_bits_of_fsdp1(world: int) -> None:
    successes(run_ranks(check_fsdp1, world))


def check_off(rank: int, world: int) -> Any:
    plain = train(shard(Model()), rank, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADWIRE_DISABLE", "1")
        model = shard(Model())
        state = attach(model, "lossless")
        heard: list[int] = []
        state.on_step(lambda totals: heard.append(totals.steps))
        assert train(model, rank, 3) == plain
    assert heard == [1, 2, 3]
    assert (state.stats().steps, state.stats().plain_bytes > 0) == (3, True)
    return state.stats().original_bytes


def test_the_kill_switch_sends_everything_plainly() -> None:
    assert successes(run_ranks(check_off, 2)) == [0, 0]


def check_alone(rank: int, world: int) -> None:
    """One rank has nobody to send to, but what is asked for is checked and can be saved."""
    plain = train(shard(Model()), rank, 2)
    with pytest.raises(gradwire.ArgumentError, match="losless"):
        attach(shard(Model()), "losless")
    model = shard(Model())
    state = attach(model, "lossless(level=3)")
    assert train(model, rank, 2) == plain
    saved = state.state_dict()
    assert (saved["spec"], saved["stats"]["steps"]) == ("lossless(level=3)", 0)


def test_one_rank_sends_nothing() -> None:
    successes(run_ranks(check_alone, 1))


def check_misuse(rank: int, world: int) -> None:
    model = shard(Model())
    with pytest.raises(gradwire.ArgumentError, match="MixedPrecisionPolicy"):
        attach(model, "bf16+lossless")
    with pytest.raises(gradwire.ArgumentError, match="only DDP models are measured"):
        attach(model, "auto")
    with pytest.raises(gradwire.ArgumentError, match="group: sharded models"):
        attach(model, "lossless", group=dist.group.WORLD)
    with pytest.raises(gradwire.ArgumentError, match="no hook"):
        stats(model)
    state = attach(model, "lossless")
    with pytest.raises(gradwire.ArgumentError, match="already"):
        attach(model, "lossless")
    train(model, rank, 2)
    resumed = attach(shard(Model()), "lossless")
    resumed.load_state_dict(state.state_dict())
    assert resumed.stats() == state.stats()
    model.set_gradient_divide_factor(7.0)
    with pytest.raises(gradwire.ArgumentError, match="set_force_sum_reduction_for_comms"):
        train(model, rank, 1)

    summed, plain = shard(Model()), shard(Model())
    attach(summed, "lossless")
    for each in (summed, plain):
        each.set_force_sum_reduction_for_comms(True)
        each.set_gradient_divide_factor(7.0)
    assert train(summed, rank, 2) == train(plain, rank, 2)
    hybrid = FullyShardedDataParallel(
        Model(),
        process_group=(dist.group.WORLD, dist.new_group([rank], use_local_synchronization=True)),
        sharding_strategy=ShardingStrategy.HYBRID_SHARD,
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )
    with pytest.raises(gradwire.ArgumentError, match="hybrid strategies"):
        attach(hybrid, "lossless")


def test_misuse_is_refused_and_state_resumes() -> None:
    successes(run_ranks(check_misuse, 2))
