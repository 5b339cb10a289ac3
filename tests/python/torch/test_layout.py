"""Specs, layouts and references, without process groups."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

torch = pytest.importorskip("torch", reason="gradwire.torch needs PyTorch")

import gradwire  # noqa: E402
import gradwire.torch  # noqa: E402
from gradwire.torch._layout import bucket_tensors, memory_shape  # noqa: E402
from gradwire.torch._options import make_options  # noqa: E402
from gradwire.torch._spec import parse_spec  # noqa: E402
from gradwire.torch.reference import gloo_chunk_elements  # noqa: E402

MODULES = [module.name for module in pkgutil.iter_modules(gradwire.torch.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"gradwire.torch.{name}")).failed == 0


def test_public_names_have_docstrings() -> None:
    assert all(getattr(gradwire.torch, name).__doc__ for name in gradwire.torch.__all__)


def test_hooks_have_the_signature_that_ddp_asks_for() -> None:
    from gradwire.torch._hook import _make_hook

    signature = inspect.signature(_make_hook())
    assert list(signature.parameters) == ["state", "bucket"]
    assert all(p.annotation is inspect.Parameter.empty for p in signature.parameters.values())


@pytest.mark.parametrize(
    ("text", "cast", "method"),
    [
        ("none", None, None),
        ("lossless", None, "lossless"),
        (" lossless( level = 3 ) ", None, "lossless(level=3)"),
        ("bf16", "bfloat16", None),
        ("fp16 + lossless(coder=ans)", "float16", "lossless(coder=ans)"),
    ],
)
def test_specs_are_parsed(text: str, cast: str | None, method: str | None) -> None:
    spec = parse_spec(text)
    assert (spec.cast, spec.method) == (cast, method)
    assert parse_spec(spec.text) == spec


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lossles", "did you mean 'lossless'"),
        ("auto(every=x)", "every=n"),
        ("", "unknown"),
        ("bf16+none", "unknown"),
        ("bf16+", "unknown"),
        ("lossless+bf16", "lossless+bf16"),
        ("lossless(coder=zip)", "coder"),
        ("lossless(level=9)", "level: 9 given, 1 to 3 allowed"),
        ("bf16+lossless(level=0)", "level: 0 given, 1 to 3 allowed"),
        ("lossless(threads=0)", "threads"),
        ("lossless(levle=3)", "levle"),
        (3, "must be a string"),
    ],
)
def test_bad_specs_are_refused_with_a_hint(text: object, words: str) -> None:
    with pytest.raises(gradwire.ArgumentError) as caught:
        parse_spec(text)
    assert words in str(caught.value)
    if isinstance(text, str):
        assert str(caught.value).startswith(f"spec {text!r}: ")


def test_bad_options_are_refused() -> None:
    for order, exchange, piece in [("ring", "auto", 9), ("gloo", "x", 9), ("gloo", "auto", 0)]:
        with pytest.raises(gradwire.ArgumentError):
            make_options("lossless", order, exchange, piece)


def test_a_hook_needs_a_process_group() -> None:
    with pytest.raises(gradwire.ArgumentError, match="init_process_group"):
        gradwire.torch.hook("lossless")
    with pytest.raises(gradwire.ArgumentError, match="spec 'lossless"):
        gradwire.torch.hook("lossless(level=9)")


@pytest.mark.parametrize("shape", [(8, 3, 5, 2), (1, 3, 4, 4), (6, 1, 2, 2), (4, 4, 1, 1)])
def test_channels_last_shapes_are_in_memory_order(shape: tuple[int, ...]) -> None:
    weight = torch.empty(shape).to(memory_format=torch.channels_last)
    found = memory_shape(shape, weight.stride())
    moved = weight.permute(0, 2, 3, 1)
    assert [n for n in found if n > 1] == [n for n in moved.shape if n > 1]
    assert memory_shape(shape, torch.empty(shape).stride()) == shape


def test_pieces_follow_the_link() -> None:
    options = make_options("lossless", "gloo", "auto", None)
    assert options.asks_for_link
    pieces = [options.for_link(rate).piece_of("bf16") for rate in (1e3, 12.5e6, 50e6, float("inf"))]
    assert pieces == [48 * 1024, 48 * 1024, 150_000, 512 * 1024]
    assert not make_options("none", "gloo", "auto", None).asks_for_link
    fixed = make_options("lossless", "gloo", "auto", 1000)
    assert (fixed.asks_for_link, fixed.for_link(50e6).piece_of("f32")) == (False, 1000)


def test_parameters_that_do_not_fill_the_bucket_are_one_run() -> None:
    parameters = [torch.empty(3, 4), torch.empty(())]
    groups = {12: 2, 1: 0}
    found = bucket_tensors(parameters, 13, lambda parameter: groups[parameter.numel()])
    assert found == (((3, 4), 2), ((), 0))
    assert bucket_tensors(parameters, 14, lambda _: 2) == (((14,), 0),)
    holes = torch.empty(4, 10)[:, :5]
    assert bucket_tensors([holes], 20, lambda _: 1) == (((4, 5), 1),)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_chunks_cover_the_bucket(world: int) -> None:
    for elements in [1, 7, 1000, 65537, 786433, 5_000_011]:
        assert gloo_chunk_elements(elements, 4, world) * world >= elements
