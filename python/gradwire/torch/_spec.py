"""What a spec string asks for: "lossless(level=3)", "none", "auto", "dgc(keep=0.001)", ...

In: the string. Out: a ``Spec``. Assumes: nothing of the string.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from gradwire import _core
from gradwire._lossy import lossy_methods
from gradwire._options import compress_options
from gradwire.errors import ArgumentError

_CASTS = {"bf16": "bfloat16", "fp16": "float16"}
_WORDS = ["lossless", "auto", "none", "bf16", "fp16", "bf16+lossless", "fp16+lossless"]
_AUTO = re.compile(r"auto(?:\(every=([0-9]{1,9})\))?")
_EVERY = 2000  # steps between measurements of "auto"


@dataclass(frozen=True)
class Spec:
    """A parsed spec; ``text`` is the same for the same spec, whatever its blanks."""

    text: str
    cast: str | None = None  #: name of the torch dtype that wider floats are sent in
    method: str | None = None  #: of the codec; None: a plain all-reduce; "auto": see candidates
    every: int = 0  #: steps between measurements, for "auto"
    is_lossy: bool = False  #: ``method`` is lossy; what it does not take goes losslessly

    @property
    def is_plain(self) -> bool:
        """Tell whether it is DDP's own all-reduce, of what DDP hands over."""
        return self.cast is None and self.method is None

    @property
    def is_auto(self) -> bool:
        return self.method == "auto"

    def candidates(self, order: str) -> list[str]:
        """The specs that may be in use, all of the same bits; the first is what others must beat.

        In rank order a plain all-reduce would give other bits than an exchange.
        """
        if not self.is_auto:
            return [self.text]
        head, plus, _ = self.text.rpartition("+")
        plain = head or "none" if order == "gloo" else f"{head}{plus}lossless(coder=stored)"
        return [plain, f"{head}{plus}lossless(level=1)", f"{head}{plus}lossless"]

    def compress_options(self) -> _core.CompressOptions:
        """Options of the codec. Raises ArgumentError for unknown words or numbers out of range."""
        method = "lossless" if self.is_lossy else self.method or "none"
        return compress_options(method, 2, "auto", "hybrid", 1, True)


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
    if _core.is_lossy_method(method):
        return _lossy_spec(text, method, cast)
    if method == "none" and not cast:
        return Spec(compact)
    if auto := _AUTO.fullmatch(method):
        return Spec(compact, cast, "auto", int(auto[1] or _EVERY))
    if method.partition("(")[0] != "lossless":
        raise ArgumentError(_refusal(text, method))
    spec = Spec(compact, cast, method)
    try:
        spec.compress_options()
    except ArgumentError as error:
        raise ArgumentError(f"spec {text!r}: {error}") from None
    return spec


def _lossy_spec(text: str, method: str, cast: str | None) -> Spec:
    if cast:
        raise ArgumentError(
            f"spec {text!r}: a lossy method rounds by itself (values=f16 and the like), so it "
            "takes no cast before it"
        )
    try:
        canonical = _core.canonical_method(method)
    except ArgumentError as error:
        raise ArgumentError(f"spec {text!r}: {error}") from None
    return Spec(canonical, method=canonical, is_lossy=True)


def _refusal(text: str, word: str) -> str:
    name = word.partition("(")[0]
    lossy = lossy_methods()
    if name == "auto":
        return f"spec {text!r}: auto takes every=n only, steps between measurements"
    near = difflib.get_close_matches(name, [*_WORDS, *lossy], 1)
    hint = f"did you mean {near[0]!r}? Known are" if near else "known are"
    return f"spec {text!r}: {name!r} is unknown; {hint} {', '.join([*_WORDS, *lossy])}"
