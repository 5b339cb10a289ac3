"""Lossy methods under DDP: the bits of all ranks in one process; what is refused."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import Lossy, Rule, Stats, attach, hook, stats  # noqa: E402
from gradwire.torch._layout import BucketTensor, Layout  # noqa: E402
from gradwire.torch._options import make_options  # noqa: E402
from gradwire.torch._roles import describe  # noqa: E402
from gradwire.torch._spec import parse_spec  # noqa: E402
from lossy_training import (  # noqa: E402
    SPECS,
    WAYS,
    Loopback,
    bits,
    loss_of,
    make_module,
    sgd,
    train,
    wrapped,
)
from ranks import run_ranks, successes  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = pytest.mark.timeout(300)

# --- bits ---------------------------------------------------------------------------------------


def check_values(rank: int, world: int) -> list[list[bytes]]:
    """Also with other cuts into buckets, which DDP makes anew after the first step."""
    found = []
    for k, (spec, plain) in enumerate(SPECS.items()):
        model = wrapped([0.01, 25.0, 0.02][k], gradient_as_bucket_view=k == 1)
        state = attach(model, spec)
        train(model, rank, range(10), plain=plain)
        found.append(bits(model))
        assert found[-1] == Loopback(spec, world).train(10, plain=plain), spec
        check_stats(state.stats(), parse_spec(spec).text, world)
    for spec in WAYS:
        model = wrapped(0.02)
        attach(model, spec)
        train(model, rank, range(4), plain=False)
        found.append(bits(model))
        assert found[-1] == Loopback(spec, world).train(4, plain=False), spec
    return found


def check_stats(sent: Stats, spec: str, world: int) -> None:
    lossy = sent.lossy
    weights = 32 * 64 + 64 * 64 + 64 * 8
    assert (sent.steps, sent.from_owners.sent_bytes, sent.plain_bytes) == (10, 0, 0)
    assert lossy.elements == 10 * weights
    assert lossy.exact_bytes > 0  # biases and norms
    coded = lossy.index_bytes + lossy.value_bytes + lossy.frame_bytes + lossy.exact_bytes
    lengths = sent.payload_bytes - (world - 1) * coded
    assert 0 < lengths < 10 * 8 * 3 * (world - 1)  # a body says how long it is
    assert list(sent.groups) == [spec]
    assert sent.groups[spec].payload_bytes == sent.payload_bytes
    if spec == "qsgd":
        assert (lossy.density, lossy.asked_density, lossy.index_bits) == (1, 1, 0)
        assert 1 < lossy.value_bits < 4
    else:
        assert lossy.asked_density == pytest.approx(0.05, rel=0.05)
        assert 0.8 < lossy.density / lossy.asked_density < 1.3
        assert 3 < lossy.index_bits < 8
        assert lossy.value_bits < 17


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_have_the_bits_of_one_process(world: int) -> None:
    first, *others = successes(run_ranks(check_values, world))
    assert all(found == first for found in others)


def check_rules_and_dtypes(rank: int, world: int) -> list[bytes]:
    """A rule keeps a parameter exact; float64 goes by an exact exchange; bfloat16 is coded."""
    spec = "topk(keep=0.05)"
    model = wrapped()
    attach(model, spec, rules=[Rule("5.weight", spec="lossless")])
    train(model, rank, range(4), plain=False)
    ours = Loopback(spec, world, exact=("5.weight",)).train(4, plain=False)
    assert bits(model) == ours

    narrow = wrapped(dtype=torch.bfloat16)
    attach(narrow, spec)
    train(narrow, rank, range(4), plain=False)
    assert bits(narrow) == Loopback(spec, world, dtype=torch.bfloat16).train(4, plain=False)

    double, plain = wrapped(dtype=torch.float64), wrapped(dtype=torch.float64)
    attach(double, spec)
    attach(plain, "lossless", order="rank")
    for one in (double, plain):
        train(one, rank, range(4), plain=False)
    assert bits(double) == bits(plain)
    assert stats(double).lossy == Lossy()
    return ours


def test_rules_and_wide_floats_go_exactly() -> None:
    one, other = successes(run_ranks(check_rules_and_dtypes, 2))
    assert one == other


def check_decay(rank: int, world: int) -> None:
    """Weight decay inside what is compressed, once a step whatever the micro-batches."""
    spec, decay = "dgc(keep=0.1)", 0.01
    model = wrapped()
    attach(model, spec)

    def add_decay(p: Any) -> None:
        if model.require_backward_grad_sync:
            p.grad.add_(p.detach(), alpha=decay)

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(add_decay)
    optimizer = sgd(model, plain=True)
    together = Loopback(spec, world)
    optimizers = [sgd(module, plain=True) for module in together.models]
    for step in range(4):
        optimizer.zero_grad()
        with model.no_sync():
            loss_of(model, rank, 2 * step).backward()
        loss_of(model, rank, 2 * step + 1).backward()
        optimizer.step()
        for r, module in enumerate(together.models):
            optimizers[r].zero_grad()
            for half in range(2):
                loss_of(module, r, 2 * step + half).backward()
            for p in module.parameters():
                p.grad.add_(p.detach(), alpha=decay)
        together.reduce_gradients()
        for one in optimizers:
            one.step()
    assert bits(model) == bits(together.models[rank])


def test_weight_decay_goes_into_the_gradient_once_a_step() -> None:
    assert successes(run_ranks(check_decay, 2)) == [None, None]


TRAINED = ["dgc(keep=0.05,warmup=8,schedule=0.5)", "topk(keep=0.05)", "randomk(keep=0.3)", "efsign",
           "sidco(keep=0.05)", "terngrad", "cast(values=e4m3)"]  # fmt: skip


def check_training(rank: int, _world: int) -> list[tuple[float, float]]:
    ends = []
    for spec in TRAINED:
        model = wrapped(25.0)
        attach(model, spec)
        losses = train(model, rank, range(50), plain=True)
        ends.append((sum(losses[:5]) / 5, sum(losses[-5:]) / 5))
    return ends


def test_training_gets_somewhere() -> None:
    for ends in successes(run_ranks(check_training, 2)):
        for spec, (first, last) in zip(TRAINED, ends, strict=True):
            assert last < 0.85 * first, spec


# --- refusals -----------------------------------------------------------------------------------


def check_refusals(rank: int, _world: int) -> str:
    with pytest.raises(gradwire.ArgumentError, match="kept by parameter name") as caught:
        hook("dgc" if rank == 1 else "topk")
    sharded = make_module()
    fully_shard(sharded)
    with pytest.raises(gradwire.ArgumentError, match="lossy methods keep what is not sent"):
        attach(sharded, "topk(keep=0.01)")
    module = make_module()
    model = DistributedDataParallel(module)
    state, ddp_hook = hook("topk(keep=0.02)", model=module)
    model.register_comm_hook(state, ddp_hook)
    loss_of(model, rank, 0).backward()
    assert state.stats().lossy.density == pytest.approx(0.02, rel=0.02)
    with contextlib.suppress(gradwire.ArgumentError):
        hook("topk(keep=0.5)" if rank == 1 else "topk(keep=0.25)", model=module)
        raise AssertionError("ranks with other specs have agreed")
    return str(caught.value)


def test_what_cannot_be_done_is_refused() -> None:
    one, other = successes(run_ranks(check_refusals, 2))
    assert one.startswith("spec 'topk'")
    assert other.startswith("spec 'dgc'")


def check_alone(rank: int, world: int) -> float:
    """A rank alone gets what it would send."""
    model = wrapped()
    state = attach(model, "topk(keep=0.05)")
    train(model, 0, range(3), plain=False)
    assert bits(model) == Loopback("topk(keep=0.05)", 1).train(3, plain=False)
    return state.stats().lossy.density


def test_a_rank_alone_gets_what_it_would_send() -> None:
    assert successes(run_ranks(check_alone, 1)) == [pytest.approx(0.05, rel=0.02)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topk(keep=2)", "keep"),
        ("dgc(keeps=0.1)", "keeps"),
        ("bf16+dgc", "takes no cast before it"),
    ],
)
def test_bad_specs_are_refused(text: str, words: str) -> None:
    with pytest.raises(gradwire.ArgumentError) as caught:
        parse_spec(text)
    assert str(caught.value).startswith(f"spec {text!r}: ")
    assert words in str(caught.value)


def test_options_that_say_nothing_for_a_lossy_spec_are_refused(monkeypatch: Any) -> None:
    for order, exchange, words in [("gloo", "auto", "order"), (None, "two_shot", "own way")]:
        with pytest.raises(gradwire.ArgumentError, match=words):
            make_options("qsgd", order, exchange, None)
    options = make_options(" topk( keep = 0.010, values = f32 )", None, "auto", None)
    assert (options.spec.text, options.order, options.asks_for_link) == ("topk", "rank", False)
    monkeypatch.setenv("GRADWIRE_DISABLE", "1")
    assert make_options("qsgd", None, "auto", None).spec.text == "none"


def test_a_rule_says_only_what_goes_exactly() -> None:
    parameters = partial(describe, make_module())
    for spec, words in [("none", "parameters go exactly"), ("dgc", "a lossy method is for the mo")]:
        with pytest.raises(gradwire.ArgumentError, match=words):
            make_options("topk", None, "auto", None, [Rule("*", spec=spec)], parameters)


def test_layouts_name_what_a_lossy_method_keeps() -> None:
    layout = Layout(1, "float32", (BucketTensor((3, 4)), BucketTensor((2,), 1)), True, ("a.w", "b"))
    assert layout.lines()[:2] == [
        "tensor 0, 'a.w', of shape (3, 4)",
        "tensor 1, 'b', of shape (2,), by rule 1",
    ]
