"""The examples in the package's docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import gradwire
import pytest

MODULES = ["gradwire"] + [
    f"gradwire.{module.name}"
    for module in pkgutil.iter_modules(gradwire.__path__)
    if module.name not in ("_core", "torch")  # torch: see tests/python/torch
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_names_have_docstrings() -> None:
    bare = [
        name
        for name in gradwire.__all__
        if not name.startswith("__") and not getattr(gradwire, name).__doc__
    ]
    assert not bare
