"""The network of learned compression (lgc): values to a code of fewer floats, and back.

In: sequences of values near 1, or the bytes of a network. Out: codes, values, bytes. Assumes:
float32 on the CPU. Abrahamyan et al. 2021, Learned Gradient Compression (LGC); the layers' widths
are theirs, and the code layer is left linear, as codes of both signs are averaged.

PyTorch trains it, the C++ library computes with it: docs/exchange.md defines its bytes. No random
state of the user's is drawn from, and neither default dtype nor default device matter.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gradwire.errors import ArgumentError, CorruptError, UnsupportedError

_MAGIC = 0x4E4C5747  # "GWLN"
_VERSION = 1
_HEAD = struct.Struct("<IBB")
_SLOPE = 0.01  # of negative values
_MOST_HALVINGS = 8
_MOST_WIDTH = 4096
# A layer on the meta device draws nothing from the user's generator.
_UNSET: dict[str, Any] = {"device": "meta", "dtype": torch.float32}


@dataclass(frozen=True)
class Widths:
    """Channels behind each layer. Encoder layers halve a sequence, decoder layers double it."""

    encoder: tuple[int, ...] = (64, 128, 256, 64)
    code: int = 4
    decoder: tuple[int, ...] = (32, 64, 128, 32)

    def __post_init__(self) -> None:
        if len(self.encoder) != len(self.decoder):
            raise ArgumentError(f"{self}: as many layers must halve a sequence as double it")
        if not 1 <= self.halvings <= _MOST_HALVINGS:
            raise ArgumentError(f"{self}: 1 to {_MOST_HALVINGS} layers may halve a sequence")
        if not all(1 <= width <= _MOST_WIDTH for width in self.all()):
            raise ArgumentError(f"{self}: a width must be 1 to {_MOST_WIDTH}")

    @property
    def halvings(self) -> int:
        return len(self.encoder)

    def all(self) -> tuple[int, ...]:
        """In the order of layers, as a network's bytes have them."""
        return (*self.encoder, self.code, *self.decoder)

    def network_bytes(self) -> int:
        """How long the bytes of such a network are."""
        kernels = [*[3] * self.halvings, 1, *[3] * self.halvings, 1]
        pairs = itertools.pairwise((1, *self.all(), 1))
        floats = sum((kernel * a + 1) * b for kernel, (a, b) in zip(kernels, pairs, strict=True))
        return _HEAD.size + 2 * len(self.all()) + 4 * floats


class Autoencoder(nn.Module):  # type: ignore[misc]
    """Encoder and decoder; each sequence is coded by itself."""

    def __init__(self, widths: Widths | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.widths = widths = widths or Widths()
        numbers = [1, *widths.encoder]
        self.halving = nn.ModuleList(
            nn.Conv1d(*pair, 3, stride=2, padding=1, **_UNSET)
            for pair in itertools.pairwise(numbers)
        )
        self.to_code = nn.Conv1d(numbers[-1], widths.code, 1, **_UNSET)
        numbers = [widths.code, *widths.decoder]
        self.doubling = nn.ModuleList(
            nn.ConvTranspose1d(*pair, 3, stride=2, padding=1, output_padding=1, **_UNSET)
            for pair in itertools.pairwise(numbers)
        )
        self.to_values = nn.Conv1d(numbers[-1], 1, 1, **_UNSET)
        self.to_empty(device="cpu")
        self._draw(torch.Generator(device="cpu").manual_seed(seed))

    def encode(self, values: Any) -> Any:
        """Code (sequences, 1, length) values, length a multiple of 2^halvings."""
        for layer in self.halving:
            values = functional.leaky_relu(layer(values), _SLOPE)
        return self.to_code(values)

    def decode(self, code: Any) -> Any:
        """Return (sequences, 1, length) values of a (sequences, channels, positions) code."""
        for layer in self.doubling:
            code = functional.leaky_relu(layer(code), _SLOPE)
        return self.to_values(code)

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(_MAGIC, _VERSION, self.widths.halvings)
        numbers = [np.array(self.widths.all(), "<u2")]
        numbers += [p.detach().numpy().astype("<f4") for p in self.parameters()]
        return head + b"".join(part.tobytes() for part in numbers)

    @classmethod
    def from_bytes(cls, data: bytes) -> Autoencoder:
        """Read a network. Raises CorruptError or UnsupportedError for bytes that are none."""
        widths, offset = _read_widths(data)
        if len(data) != widths.network_bytes():
            raise CorruptError(
                f"network: {len(data)} bytes found, {widths.network_bytes()} are due by its widths"
            )
        network = cls(widths)
        weights = np.frombuffer(data, "<f4", offset=offset).astype(np.float32)
        if not np.isfinite(weights).all():
            raise CorruptError("network: a weight is not finite")
        with torch.no_grad():
            for parameter in network.parameters():
                own, weights = np.split(weights, [parameter.numel()])
                parameter.copy_(torch.from_numpy(own).view(parameter.shape))
        return network

    def _draw(self, random: Any) -> None:
        """Draw what layers begin with, in PyTorch's ranges but from a generator of our own."""
        with torch.no_grad():
            for layer in self.modules():
                if isinstance(layer, (nn.Conv1d, nn.ConvTranspose1d)):
                    bound = (layer.weight.shape[1] * layer.kernel_size[0]) ** -0.5
                    layer.weight.uniform_(-bound, bound, generator=random)
                    layer.bias.uniform_(-bound, bound, generator=random)


def _read_widths(data: bytes) -> tuple[Widths, int]:
    """The widths of a network, and where its weights begin."""
    if len(data) < _HEAD.size:
        raise CorruptError(f"network: {len(data)} bytes found, its head alone has {_HEAD.size}")
    magic, version, halvings = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptError("network at byte 0: these are no bytes of a network")
    if version != _VERSION:
        raise UnsupportedError(f"network at byte 4: version {version} found, known is {_VERSION}")
    offset = _HEAD.size + 2 * (2 * halvings + 1)
    if len(data) < offset:
        raise CorruptError(f"network: it ends at byte {len(data)}, inside its widths")
    numbers = tuple(int(n) for n in np.frombuffer(data[_HEAD.size : offset], "<u2"))
    try:
        return Widths(numbers[:halvings], numbers[halvings], numbers[halvings + 1 :]), offset
    except ArgumentError as error:
        raise CorruptError(f"network: {error}") from None
