"""Rules: which parameters are coded in another way than the model's spec says.

In: rules as a user wrote them, the parameters that they are for. Out: ``Rules``, checked. Assumes:
nothing of the rules. A rule chooses how tensors are coded inside an exchange, never whether they
are exchanged: an element's place in its bucket decides in which order ranks are added.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from torch.utils.weak import WeakTensorKeyDictionary

from gradwire import _core
from gradwire.errors import ArgumentError
from gradwire.torch._roles import ROLES, Described
from gradwire.torch._spec import Spec, parse_spec

Parameters = Callable[[], Sequence[Described]]

_STORED = "lossless(coder=stored)"
_MAX_SHOWN = 4  # names in an error


@dataclass(frozen=True)
class Rule:
    """How the parameters that meet all its conditions are coded.

    pattern: for the parameter's name, as ``named_parameters`` gives it without wrappers: ``*``,
    ``?``, ``[abc]``; ``*`` takes dots as well; ``a|b`` is one or the other. A tied parameter meets
    it by any of its names. spec: "lossless" with its options, or "none", which is
    "lossless(coder=stored)". role: "embedding", "norm", "bias" or "head" (docs/training.md says
    what each is). min_elements, max_elements: of the whole parameter, both included.

    It is checked by ``attach`` or ``hook``, so that other ranks are told.

    >>> str(Rule("*.weight", spec="lossless(level=3)", min_elements=4096))
    '*.weight, min_elements=4096'
    """

    pattern: str | None = None
    _: KW_ONLY
    spec: str
    role: str | None = None
    min_elements: int | None = None
    max_elements: int | None = None

    def __str__(self) -> str:
        """Its conditions: the name under which ``stats`` counts it."""
        names = ("role", "min_elements", "max_elements")
        given = [(name, getattr(self, name)) for name in names]
        parts = [f"{name}={value}" for name, value in given if value is not None]
        return ", ".join(parts if self.pattern is None else [str(self.pattern), *parts]) or "*"

    def matches(self, parameter: Described) -> bool:
        """Tell whether a parameter meets all conditions."""
        return (
            (self.pattern is None or _any_matches(parameter.names, self.pattern))
            and (self.role is None or self.role in parameter.roles)
            and (self.min_elements is None or parameter.elements >= self.min_elements)
            and (self.max_elements is None or parameter.elements <= self.max_elements)
        )


class Rules:
    """The rules of one model, checked, and the group of each of its parameters.

    Group 0 is coded as the model's spec says, group k as rule k says, the first one being rule 1.
    """

    def __init__(self, rules: Sequence[Rule] = (), parameters: Sequence[Described] = ()) -> None:
        """Raises ArgumentError for a rule that none of the parameters meets."""
        self._rules = tuple(rules)
        self._groups: Any = WeakTensorKeyDictionary()
        for k, rule in enumerate(self._rules, 1):
            if not any(rule.matches(parameter) for parameter in parameters):
                raise ArgumentError(f"{_name(k, rule)}: {_no_match(rule, parameters)}")
        for parameter in parameters:
            self._groups[parameter.tensor] = next(
                (k for k, rule in enumerate(self._rules, 1) if rule.matches(parameter)), 0
            )

    def __bool__(self) -> bool:
        return bool(self._rules)

    def group_of(self, parameter: Any) -> int:
        """The group of a parameter; 0 for one that was not there when the rules were checked."""
        return self._groups.get(parameter, 0) if self._rules else 0

    def labels(self) -> list[str]:
        """The names of groups 1, 2, ..."""
        return [str(rule) for rule in self._rules]

    def specs(self) -> list[str]:
        """The specs of groups 1, 2, ..."""
        return [rule.spec for rule in self._rules]

    def lines(self) -> list[str]:
        """What ranks compare."""
        return [
            f"{_name(k, rule)} with spec {rule.spec!r}" for k, rule in enumerate(self._rules, 1)
        ]

    def compress_options(self) -> list[_core.CompressOptions]:
        """The codec's options of groups 1, 2, ..."""
        texts = [_STORED if rule.spec == "none" else rule.spec for rule in self._rules]
        return [parse_spec(text).compress_options() for text in texts]


def make_rules(rules: object, parameters: Parameters) -> Rules:
    """Check rules for parameters, which are asked for only if there are rules.

    Raises ArgumentError, naming the rule by its number from 1.
    """
    if rules is None:
        return Rules()
    if not isinstance(rules, list | tuple):
        raise ArgumentError(f"rules must be a list of gradwire.torch.Rule, got {rules!r}")
    checked = [_checked(k, rule) for k, rule in enumerate(rules, 1)]
    labels = [str(rule) for rule in checked]
    for k, label in enumerate(labels):
        if label in labels[:k]:
            first = labels.index(label) + 1
            raise ArgumentError(f"rule {k + 1} ({label!r}) has the conditions of rule {first}")
    return Rules(checked, parameters() if checked else ())


def unknown_parameters() -> Sequence[Described]:
    """The parameters of a hook that has not been told the module."""
    raise ArgumentError(
        "rules are for parameters by name and role, which a hook is not told: use "
        "gradwire.torch.attach(model, spec, rules=...), or give hook(...) the module as model="
    )


def _checked(k: int, rule: object) -> Rule:
    if not isinstance(rule, Rule):
        raise ArgumentError(f"rule {k} must be a gradwire.torch.Rule, got {rule!r}")
    try:
        _check_conditions(rule)
        return replace(rule, spec=_rule_spec(rule.spec).text)
    except ArgumentError as error:
        raise ArgumentError(f"{_name(k, rule)}: {error}") from None


def _check_conditions(rule: Rule) -> None:
    if rule.pattern is not None and not isinstance(rule.pattern, str):
        raise ArgumentError(f"pattern must be a string, got {rule.pattern!r}")
    if rule.role is not None and rule.role not in ROLES:
        raise ArgumentError(f"role {rule.role!r} is unknown; known are {', '.join(ROLES)}")
    for name in ("min_elements", "max_elements"):
        value = getattr(rule, name)
        if value is not None and (type(value) is not int or value < 0):
            raise ArgumentError(f"{name} must be a whole number from 0, got {value!r}")


def _rule_spec(text: object) -> Spec:
    spec = parse_spec(text)
    if spec.is_lossy:
        raise ArgumentError(
            f"spec {text!r}: a lossy method is for the model, where rules say what goes exactly: "
            f"attach(model, {spec.text!r}, rules=[Rule(..., spec='lossless')])"
        )
    if spec.cast:
        raise ArgumentError(
            f"spec {text!r}: a bucket travels in one dtype, so a cast is for the whole model; say "
            "it in the model's spec, as in attach(model, 'bf16+lossless', rules=...)"
        )
    if spec.is_auto:
        raise ArgumentError(
            f"spec {text!r}: auto chooses by the time of whole steps, so it is for the whole "
            "model; say it in the model's spec, as in attach(model, 'auto', rules=...)"
        )
    return spec


def _any_matches(names: Sequence[str], pattern: str) -> bool:
    return any(fnmatchcase(name, part.strip()) for part in pattern.split("|") for name in names)


def _no_match(rule: Rule, parameters: Sequence[Described]) -> str:
    names = [name for parameter in parameters for name in parameter.names]
    near = difflib.get_close_matches(rule.pattern or "", names, _MAX_SHOWN, 0.3)
    shown = ", ".join(repr(name) for name in near or names[:_MAX_SHOWN]) or "none"
    roles = {role for parameter in parameters for role in parameter.roles}
    return (
        f"no parameter of the model meets it; its {len(parameters)} parameters are such as "
        f"{shown}; roles that it has: {', '.join(r for r in ROLES if r in roles) or 'none'}"
    )


def _name(k: int, rule: Rule) -> str:
    return f"rule {k} ({str(rule)!r})"
