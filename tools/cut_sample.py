"""Cut the sample of tests/data out of the full set of captured gradients.

    tools/cut_sample.py SRC_DIR DST_DIR

Reads SRC_DIR/NAME.safetensors for each NAME below, keeps the chosen tensors whole, in the order of
the file's header, with dtype, shape and metadata as they are, and writes DST_DIR/NAME.safetensors.
Prints one Markdown table row a file, with its SHA-256, for tests/data/README.md. The same input
gives the same bytes.

A .safetensors file: u64 little-endian length of the header, the header (JSON, padded with spaces
to a multiple of 8), the tensors' bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

MAX_TOTAL_BYTES = 4_000_000

GPT_VECTORS = [
    *(f"blocks.{i}.{name}" for i in (0, 2) for name in ("fc.bias", "out.bias", "qkv.bias")),
    *(f"blocks.{i}.{name}" for i in (0, 2) for name in ("ln1.bias", "ln1.weight", "ln2.weight")),
    "ln.bias",
    "ln.weight",
]
GPT_F32 = [*GPT_VECTORS, "head.weight", "tok.weight"]
GPT_BF16 = [*GPT_VECTORS, "blocks.1.proj.weight", "head.weight", "pos.weight"]
RESNET = [
    "0.weight",
    "1.bias",
    "1.weight",
    "10.bn1.bias",
    "10.bn1.weight",
    "13.bias",
    "13.weight",
    "3.conv1.weight",
    "4.conv2.weight",
    "5.conv1.weight",
    "5.down.0.weight",
    "6.bn2.weight",
    "6.conv2.weight",
    "8.bn1.bias",
    "9.down.0.weight",
]
VGG = [
    *(f"{i}.bias" for i in (0, 2, 5, 7, 12, 14, 19, 28, 32, 38)),
    *(f"{i}.weight" for i in (0, 2, 5, 7, 14, 38)),
]

CHOSEN = {
    "gpt-fp32-mid": GPT_F32,
    "gpt-bf16amp-mid-r0": GPT_F32,
    "gpt-bf16-mid-r0": GPT_BF16,
    "gpt-weights-bf16": GPT_BF16,
    "resnet18-bf16-mid-r0": RESNET,
    "resnet18-f16-mid": RESNET,
    "vgg16-bf16-mid-r0": VGG,
}


def read_header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), memoryview(data)[8 + length :]


def cut(data: bytes, names: list[str]) -> bytes:
    """Keep the named tensors of a .safetensors file, in the order of its header."""
    header, payload = read_header(data)
    missing = set(names) - header.keys()
    if missing:
        raise SystemExit(f"not in the file: {', '.join(sorted(missing))}")
    kept: dict[str, Any] = {}
    parts: list[memoryview] = []
    offset = 0
    for name, entry in header.items():
        if name == "__metadata__":
            kept[name] = entry
        elif name in names:
            begin, end = entry["data_offsets"]
            parts.append(payload[begin:end])
            kept[name] = {**entry, "data_offsets": [offset, offset + end - begin]}
            offset += end - begin
    text = json.dumps(kept, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def main(src: Path, dst: Path) -> None:
    dst.mkdir(parents=True, exist_ok=True)
    total = 0
    for name, tensors in CHOSEN.items():
        sample = cut((src / f"{name}.safetensors").read_bytes(), tensors)
        total += len(sample)
        (dst / f"{name}.safetensors").write_bytes(sample)
        digest = hashlib.sha256(sample).hexdigest()
        print(f"| {name}.safetensors | {len(tensors)} | {len(sample):,} | `{digest}` |")
    if total > MAX_TOTAL_BYTES:
        raise SystemExit(f"{total} bytes, at most {MAX_TOTAL_BYTES} allowed: choose fewer tensors")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: cut_sample.py SRC_DIR DST_DIR")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
