"""Names of parameters, under which lossy methods keep what is not sent.

In: a model's parameters as ``describe`` tells them. Out: the name of each. Assumes: names last over
restarts; a tied parameter goes by its first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.utils.weak import WeakTensorKeyDictionary

from gradwire.errors import ArgumentError
from gradwire.torch._roles import Described


class Names:
    """The name of each parameter of one model, which it does not keep alive."""

    def __init__(self, parameters: Sequence[Described] = ()) -> None:
        self._names: Any = WeakTensorKeyDictionary()
        for parameter in parameters:
            self._names[parameter.tensor] = parameter.names[0]

    def of(self, parameter: Any) -> str:
        """Raises ArgumentError for a parameter that the model did not have."""
        name: str | None = self._names.get(parameter)
        if name is None:
            raise ArgumentError(
                f"a parameter of shape {tuple(parameter.shape)} was not in the model when the hook "
                "was made: a lossy method keeps what is not sent by parameter name"
            )
        return name
