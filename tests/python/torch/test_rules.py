"""Rules by parameter: who is matched, what travels, and that no bit depends on it."""

from __future__ import annotations

import gc
import pathlib
import re
import weakref
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
from gradwire.torch import Group, Rule, attach, hook, stats  # noqa: E402
from gradwire.torch._options import make_options  # noqa: E402
from gradwire.torch._roles import describe  # noqa: E402
from gradwire.torch._rules import make_rules  # noqa: E402
from ranks import run_ranks, successes  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

STORED = "lossless(coder=stored)"


class OwnNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return x * self.weight


class Reader(nn.Module):
    """Parameters of all roles; the head has a weight of its own, or the embedding's."""

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(96, 32)
        self.norm = nn.LayerNorm(32)
        self.wide, self.own = nn.Linear(32, 160), OwnNorm(160)
        if tied:  # then it need not be the last one
            self.out = nn.Linear(32, 96)
            self.out.weight = self.table.weight
        self.narrow = nn.Linear(160, 32)
        if not tied:
            self.out = nn.Linear(32, 96)

    def forward(self, x: Any) -> Any:
        return self.out(self.narrow(torch.relu(self.own(self.wide(self.norm(self.table(x)))))))


def matched(rules: list[Rule], model: Any) -> dict[str, int]:
    checked = make_rules(rules, partial(describe, model))
    return {one.names[0]: checked.group_of(one.tensor) for one in describe(model)}


# --- who is matched ----------------------------------------------------------------------------


def test_roles_follow_from_modules_and_names() -> None:
    roles = {one.names[0]: one.roles for one in describe(Reader())}
    assert roles == {
        "table.weight": {"embedding"},
        "norm.weight": {"norm"},
        "norm.bias": {"norm", "bias"},
        "wide.weight": set(),
        "wide.bias": {"bias"},
        "own.weight": {"norm"},
        "narrow.weight": set(),
        "narrow.bias": {"bias"},
        "out.weight": {"head"},
        "out.bias": {"head", "bias"},
    }
    others = nn.ModuleList([nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.MultiheadAttention(4, 2)])
    assert [one.roles for one in describe(others)] == [
        {"norm"}, {"norm", "bias"}, {"norm"}, {"norm", "bias"},
        set(), {"bias"}, {"head"}, {"head", "bias"},
    ]  # fmt: skip


def test_a_tied_parameter_has_all_its_names_and_roles() -> None:
    model = Reader(tied=True)
    first = describe(model)[0]
    assert (first.names, first.roles) == (["table.weight", "out.weight"], {"embedding", "head"})
    assert {one.names[0] for one in describe(model) if "head" in one.roles} == {
        "table.weight",
        "out.bias",
    }
    for rule in (Rule("out.weight", spec="none"), Rule(role="head", spec="none")):
        assert matched([rule], model)["table.weight"] == 1


def test_the_first_rule_whose_conditions_are_all_met_holds() -> None:
    rules = [
        Rule("*.bias | own.*", spec="none", max_elements=96),
        Rule(role="norm", spec=STORED),
        Rule("*.weight", spec="lossless(level=1)", min_elements=3072),
    ]
    assert matched(rules, Reader()) == {
        "table.weight": 3, "norm.weight": 2, "norm.bias": 1, "wide.weight": 3, "wide.bias": 0,
        "own.weight": 2, "narrow.weight": 3, "narrow.bias": 1, "out.weight": 3, "out.bias": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"bias": "none"}, "must be a list of gradwire.torch.Rule"),
        (["*.bias"], "rule 1 must be a gradwire.torch.Rule, got '*.bias'"),
        ([Rule("*.bias", spec="bf16")], "'bf16': a bucket travels in one dtype"),
        ([Rule("*.bias", spec="bf16+lossless")], "a cast is for the whole model"),
        ([Rule("*.bias", spec="auto")], "auto chooses by the time of whole steps"),
        ([Rule("*.bias", spec="lossles")], "did you mean 'lossless'"),
        ([Rule("*", spec="none"), Rule(role="haed", spec="none")], "rule 2 ('role=haed'): role"),
        ([Rule(min_elements=-1, spec="none")], "min_elements must be a whole number from 0"),
        ([Rule(3, spec="none")], "pattern must be a string"),
        ([Rule("*.bais", spec="none")], "rule 1 ('*.bais'): no parameter of the model meets it"),
        ([Rule("*.bais", spec="none")], "'norm.bias'"),
        ([Rule(max_elements=5, spec="none")], "roles that it has: embedding, norm, bias, head"),
        ([Rule("*", spec="none")] * 2, "rule 2 ('*') has the conditions of rule 1"),
    ],
)
def test_bad_rules_are_refused(rules: Any, words: str) -> None:
    with pytest.raises(gradwire.ArgumentError) as caught:
        make_rules(rules, partial(describe, Reader()))
    assert words in str(caught.value)


def test_rules_need_a_spec_that_codes_and_names() -> None:
    rules = [Rule("*.bias", spec="none")]
    for spec, instead in [("none", f"'{STORED}'"), ("bf16", f"'bf16+{STORED}'")]:
        with pytest.raises(gradwire.ArgumentError) as caught:
            make_options(spec, "gloo", "auto", None, rules, partial(describe, Reader()))
        assert instead in str(caught.value)
    with pytest.raises(gradwire.ArgumentError, match=r"torch\.attach"):
        make_options("lossless", "gloo", "auto", None, rules)
    with pytest.raises(gradwire.ArgumentError, match="the module that DDP wraps"):
        describe("Reader")


def test_the_kill_switch_drops_rules(monkeypatch: Any) -> None:
    monkeypatch.setenv("GRADWIRE_DISABLE", "1")
    rules = [Rule("*", spec="none")]
    options = make_options("lossless", "gloo", "auto", None, rules, partial(describe, Reader()))
    assert (options.spec.text, bool(options.rules)) == ("none", False)


def test_rules_do_not_keep_a_model() -> None:
    model = Reader()
    rules = make_rules([Rule("*.bias", spec="none")], partial(describe, model))
    gone = weakref.ref(model.out.bias)
    assert rules.group_of(model.out.bias) == 1
    del model
    gc.collect()
    assert gone() is None


# --- what travels ------------------------------------------------------------------------------

RULES = [
    Rule("*.bias|*norm*", spec="none"),
    Rule(role="embedding", spec=STORED),
    Rule(role="head", spec="lossless(level=1)"),
]


def batch(rank: int, step: int) -> tuple[Any, Any]:
    random = torch.Generator().manual_seed(1000 * step + rank)
    return tuple(torch.randint(96, (64,), generator=random) for _ in range(2))


def bits(tensor: Any) -> bytes:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def train(model: Any, rank: int, steps: int = 4) -> list[Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = batch(rank, step)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, *(bits(t) for p in model.parameters() for t in (p, p.grad))]


def wrapped() -> Any:
    return DistributedDataParallel(Reader(), bucket_cap_mb=0.03)


def groups_of(rank: int, plain: list[Any], spec: str, rules: Any, **options: Any) -> Any:
    """Train with a spec, demand the bits of plain DDP, and tell what each group has sent."""
    model = wrapped()
    state = attach(model, spec, rules=rules, **options)
    assert train(model, rank) == plain, options
    assert state.error is None
    sent = stats(model)
    assert sum(group.original_bytes for group in sent.groups.values()) == sent.original_bytes
    assert sum(group.payload_bytes for group in sent.groups.values()) == sent.payload_bytes
    return sent.groups


def check_bits_and_bytes(rank: int, world: int) -> None:
    plain = train(wrapped(), rank)
    labels = [str(rule) for rule in RULES]
    for exchange in ("two_shot", "gather_merge"):
        options = {"exchange": exchange, "piece_elements": 1500}
        found = groups_of(rank, plain, "lossless", RULES, **options)
        assert list(found) == ["lossless", *labels]
        rest, vectors, table, head = found.values()
        assert vectors.size_fraction >= 1 > max(rest.size_fraction, head.size_fraction)

        same = [Rule(r.pattern, spec="lossless", role=r.role) for r in RULES]  # in one way, counted
        one = groups_of(rank, plain, "lossless", same, **options)
        whole = groups_of(rank, plain, "lossless", None, **options)["lossless"]
        assert sum(one.values(), Group()) == whole
        assert one["lossless"] == rest
        assert [one[label].original_bytes for label in labels] == [
            group.original_bytes for group in (vectors, table, head)
        ]
        assert one[labels[0]].payload_bytes < vectors.payload_bytes
        assert one[labels[1]].size_fraction < 1 <= table.size_fraction
        assert one[labels[2]].payload_bytes < head.payload_bytes

    stored = groups_of(rank, plain, STORED, [Rule("*.weight", spec="lossless")], order="gloo")
    assert stored[STORED].size_fraction >= 1 > stored["*.weight"].size_fraction


def check_casts_and_state(rank: int, world: int) -> None:
    """A cast is the model's, and its rules code what has been cast; totals go on after a load."""
    cast, by_rule = wrapped(), wrapped()
    attach(cast, "bf16")
    rules = [Rule(role="bias", spec="none"), Rule("*", spec="lossless(level=1)")]
    state, ddp_hook = hook("bf16+lossless", rules=rules, model=by_rule)
    by_rule.register_comm_hook(state, ddp_hook)
    assert train(by_rule, rank) == train(cast, rank)
    sent = state.stats().groups
    assert sent["bf16+lossless"] == Group()
    assert sent["role=bias"].size_fraction >= 1 > sent["*"].size_fraction
    state.load_state_dict(state.state_dict())
    train(by_rule, rank, 1)
    assert state.stats().groups["*"].original_bytes == 5 * sent["*"].original_bytes // 4


def check_auto(rank: int, world: int) -> None:
    """All that auto tries keeps to the rules; in rank order it makes exchanges from the start."""
    fixed, measured = wrapped(), wrapped()
    attach(fixed, "lossless", order="rank")
    state = attach(measured, "auto", order="rank", rules=[Rule("*.bias", spec="none")])
    assert train(measured, rank, 10) == train(fixed, rank, 10)
    sent = state.stats().groups
    assert list(sent) == ["auto", "*.bias"]
    assert sent["*.bias"].size_fraction >= 1


def check_document(rank: int, world: int) -> None:
    document = (pathlib.Path(__file__).parents[3] / "docs/training.md").read_text()
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", document, re.S) if "Rule(" in block
    )
    model = wrapped()
    exec(code, {"gradwire": gradwire, "model": model})
    assert train(model, rank) == train(wrapped(), rank)
    sent = stats(model).groups
    assert len(sent) == 4
    assert sent["*.bias|*norm*"].size_fraction >= 1 > sent["lossless"].size_fraction


@pytest.mark.parametrize(
    "check", [check_bits_and_bytes, check_casts_and_state, check_auto, check_document]
)
def test_bits_do_not_depend_on_rules_and_bytes_do(check: Any) -> None:
    successes(run_ranks(check, 2))


def test_three_ranks_have_the_bits_of_ddp_and_wrappers_do_not_change_names() -> None:
    successes(run_ranks(check_three, 3))


def check_three(rank: int, world: int) -> None:
    found = groups_of(rank, train(wrapped(), rank), "lossless", RULES)
    assert all(group.original_bytes for group in found.values())
    compiled = nn.Sequential(torch.compile(nn.Linear(3, 4), backend="eager"))
    assert [one.names for one in describe(compiled)] == [["0.weight"], ["0.bias"]]


class Named(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.add_module("first", nn.Linear(8, 8))
        self.add_module(name, nn.Linear(8, 8))

    def forward(self, x: Any) -> Any:
        for child in self.children():
            x = child(x)
        return x


def check_differences(rank: int, world: int) -> list[str]:
    bias, other = Rule("*.bias", spec="none"), Rule("*.bias", spec="lossless(level=1)")
    typo = Rule("*.bais", spec="none")
    errors = []
    for rules in ([[bias], [other]], [[bias], None], [[bias], [typo]], [[bias, typo]] * 2):
        with pytest.raises(gradwire.ArgumentError) as caught:
            attach(wrapped(), "lossless", rules=rules[rank])
        errors.append(str(caught.value))
    model = DistributedDataParallel(Named("second" if rank else "other"))
    rules = [Rule("first.*", spec="none"), Rule("other.*|first.weight", spec="none")]
    state = attach(model, "lossless", rules=rules)
    with pytest.raises(RuntimeError, match="differ"):
        model(torch.ones(2, 8)).sum().backward()
    return [*errors, str(state.error)]


def test_other_rules_on_one_rank_are_refused_on_all() -> None:
    for rank, errors in enumerate(successes(run_ranks(check_differences, 2))):
        spec, missing, typo, both, groups = errors
        assert "rank 0 has rule 1 ('*.bias') with spec 'none'; rank 1 has rule 1" in spec
        assert "with spec 'lossless(level=1)'" in spec
        assert "rank 0 has rule 1 ('*.bias') with spec 'none'; rank 1 has nothing more" in missing
        assert ("rank 1 has an error" in typo) == (rank == 0)
        assert "rule 1 ('*.bais'): no parameter of the model meets it" in typo
        assert both.startswith("rule 2 ('*.bais'): no parameter of the model meets it")
        assert "by rule 2" in groups


def sharded() -> Any:
    model = Reader()
    fully_shard(model.wide)
    return fully_shard(model)


def check_sharded(rank: int, world: int) -> None:
    plain = train(sharded(), rank)
    model = sharded()
    attach(model, "lossless", rules=RULES)
    assert train(model, rank) == plain
    sent = stats(model)
    assert list(sent.groups) == ["lossless", *(str(rule) for rule in RULES)]
    vectors = sent.groups[str(RULES[0])]
    assert vectors.size_fraction >= 1 > sent.groups["lossless"].size_fraction
    # Both ways of each parameter: its gradients once a step, itself in both passes or in one.
    elements = sum(p.numel() for name, p in Reader().named_parameters() if "wide.weight" in name)
    assert sent.groups["lossless"].original_bytes >= 4 * 4 * elements * (world - 1) // world * 2
    assert sum(group.payload_bytes for group in sent.groups.values()) == sent.payload_bytes

    with pytest.raises(gradwire.ArgumentError, match="FSDP1 hands over gradients as one flat"):
        attach(FullyShardedDataParallel(Reader(), device_id="cpu"), "lossless", rules=RULES)


def test_sharded_models_take_rules() -> None:
    successes(run_ranks(check_sharded, 2))
