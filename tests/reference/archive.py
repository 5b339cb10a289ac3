"""Archive bodies (section 8 of format.md): source, directory, footer.

In: payloads of the archive's sections. Out: names and lengths, the first bytes of the source file.
Assumes: the frame has been split into sections; nothing about their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .entropy import read_integers
from .wire import Reader, corrupt, features_seen, unsupported

SOURCE_KINDS = {1: "safetensors", 2: "npy", 3: "raw"}
MAX_SOURCE_BYTES = 2**30 - 1
MAX_NAME_BYTES = 65535

NamedArray = tuple[str, str, tuple[int, ...], bytes]
TakeBudget = Callable[[int, str], None]


# 8.1 Source


def read_source(
    payload: bytes, tensors: Sequence[NamedArray], take_budget: TakeBudget
) -> tuple[str, bytes]:
    """The kind, and the bytes that the source file has before its data."""
    reader = Reader(payload, "source")
    kind = reader.u8("kind")
    if kind not in SOURCE_KINDS:
        raise unsupported(f"source: kind {kind}")
    derived = reader.u8("form", 0, 1 if SOURCE_KINDS[kind] == "safetensors" else 0)
    features_seen.add("source/" + ("derived" if derived else "verbatim"))
    byte_count = reader.varint("prefix_bytes" if derived else "raw_bytes", 0, MAX_SOURCE_BYTES)
    take_budget(byte_count, "source")
    octets = bytes(read_integers(reader, byte_count, 0, 255, "source", (0, 3, 4)))
    if derived:
        header = render_header(octets, tensors, reader.varint("spaces", 0, 65535))
        take_budget(len(header) - byte_count, "source")
        octets = header
    reader.finish()
    return SOURCE_KINDS[kind], octets


def render_header(prefix: bytes, tensors: Sequence[NamedArray], spaces: int) -> bytes:
    entries, begin = [], 0
    for name, dtype, shape, octets in tensors:
        end = begin + len(octets)
        dims = ",".join(map(str, shape))
        entries.append(
            f'"{name}":{{"dtype":"{dtype.upper()}","shape":[{dims}],"data_offsets":[{begin},{end}]}}'
        )
        begin = end
    text = b"{" + prefix + ",".join(entries).encode() + b"}" + b" " * spaces
    return len(text).to_bytes(8, "little") + text


# Directory


def read_directory(payload: bytes) -> list[tuple[str, int]]:
    """Name and body length of each tensor."""
    reader = Reader(payload, "directory")
    count, raw_bytes = reader.varint("count"), reader.varint("raw_bytes")
    if raw_bytes > 8 * reader.left or 3 * count > raw_bytes:
        message = f"{count} entries, raw_bytes {raw_bytes}, {reader.left} bytes are left"
        raise corrupt(f"directory: {message}")
    octets = bytes(read_integers(reader, raw_bytes, 0, 255, "directory", (0, 3, 4)))
    reader.finish()
    entries, names, name = Reader(octets, "directory"), set(), b""
    directory = []
    for _ in range(count):
        shared = entries.varint("shared bytes of a name", 0, len(name))
        rest = entries.take(entries.varint("name length", 0, MAX_NAME_BYTES - shared), "name")
        name = name[:shared] + rest
        if name in names:
            raise corrupt(f"directory: two tensors have the name {name!r}")
        names.add(name)
        try:
            directory.append((name.decode("utf-8"), entries.varint("body length")))
        except UnicodeDecodeError:
            raise corrupt(f"directory: name {name!r} is not UTF-8") from None
    entries.finish()
    return directory
