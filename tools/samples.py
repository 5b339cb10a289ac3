"""Read .safetensors files as raw bits, for the demo and the benchmarks.

In: paths of .safetensors files. Out: their tensors as unsigned integers, hashes, shares of zeros.
Assumes: files that `gradwire compress` takes, so their headers are not checked here.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Tensor(NamedTuple):
    """A tensor's values as raw bits."""

    name: str
    dtype: str  # in safetensors' spelling, such as "BF16"
    shape: tuple[int, ...]
    bits: NDArray[Any]  # unsigned integers of the element's size, of `shape`


def sample_files(folder: Path) -> list[Path]:
    """Return the .safetensors files of a folder, sorted."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise SystemExit(f"{folder}: no .safetensors files there")
    return files


def read_tensors(path: Path) -> list[Tensor]:
    """Read all tensors of a file, in the order of its header."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    return [
        _tensor(name, entry, data, 8 + length)
        for name, entry in header.items()
        if name != "__metadata__"
    ]


def _tensor(name: str, entry: dict[str, Any], data: bytes, start: int) -> Tensor:
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    n = math.prod(shape)
    unsigned = UNSIGNED[(end - begin) // n if n else 1]
    bits = np.frombuffer(data, unsigned, n, start + begin).reshape(shape)
    return Tensor(name, entry["dtype"], shape, bits)


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def dtypes_of(tensors: list[Tensor]) -> str:
    return "+".join(sorted({tensor.dtype.lower() for tensor in tensors}))


def write_repeated(path: Path, out: Path, least_bytes: int) -> None:
    """Write the tensors of a file again and again under new names, up to this many bytes."""
    tensors = read_tensors(path)
    copies = math.ceil(least_bytes / max(1, sum(tensor.bits.nbytes for tensor in tensors)))
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    offset = 0
    for copy in range(copies):
        for tensor in tensors:
            end = offset + tensor.bits.nbytes
            header[f"{tensor.name}#{copy}"] = {
                "dtype": tensor.dtype,
                "shape": tensor.shape,
                "data_offsets": [offset, end],
            }
            parts.append(tensor.bits.tobytes())
            offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    out.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
