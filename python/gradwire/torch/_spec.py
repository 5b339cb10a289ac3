"""What a spec string asks for: "lossless(level=3)", "bf16+lossless", "none", ...

In: the string. Out: a ``Spec``. Assumes: nothing of the string.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gradwire import _core
from gradwire._options import compress_options
from gradwire.errors import ArgumentError

_CASTS = {"bf16": "bfloat16", "fp16": "float16"}
_WORDS = ["lossless", "none", "bf16", "fp16", "bf16+lossless", "fp16+lossless"]
_LATER = {"auto": "choosing by measurement is not there yet; name a method"}


@dataclass(frozen=True)
class Spec:
    """A parsed spec; ``text`` is the same for the same spec, whatever its blanks."""

    text: str
    cast: str | None = None  #: name of the torch dtype that wider floats are sent in
    method: str | None = None  #: of the codec; None: a plain all-reduce

    def compress_options(self) -> _core.CompressOptions:
        """Options of the codec. Raises ArgumentError for unknown words or numbers out of range."""
        return compress_options(self.method or "none", 2, "auto", "hybrid", 1, True)


def parse_spec(text: object) -> Spec:
    """Parse a spec. Raises ArgumentError, with words that are near, for what is none."""
    if not isinstance(text, str):
        raise ArgumentError(f"spec must be a string, got {text!r}")
    compact = "".join(text.split())
    head, plus, rest = compact.partition("+")
    cast = _CASTS.get(head)
    if cast and not plus:
        return Spec(compact, cast)
    method = rest if cast else compact
    if method == "none" and not cast:
        return Spec(compact)
    if method.partition("(")[0] != "lossless":
        raise ArgumentError(_refusal(text, method))
    spec = Spec(compact, cast, method)
    try:
        spec.compress_options()
    except ArgumentError as error:
        raise ArgumentError(f"spec {text!r}: {error}") from None
    return spec


def _refusal(text: str, word: str) -> str:
    name = word.partition("(")[0]
    if name in _LATER:
        return f"spec {text!r}: {_LATER[name]}"
    near = difflib.get_close_matches(name, _WORDS, 1)
    hint = f"did you mean {near[0]!r}? Known are" if near else "known are"
    return f"spec {text!r}: {name!r} is unknown; {hint} {', '.join(_WORDS)}"
