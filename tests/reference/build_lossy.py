"""Puts lossy bodies together by hand, true ones and lying ones (format.md 11).

In: fields, symbols, scales. Out: bytes of a frame. Nothing is checked, as in builder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import xxhash

from .build_codes import u64, varint, zigzag
from .builder import CHECKSUMS, Chunk, TensorBody, frame, planes_tensor, section, tensor_head

LOSSY = 8  # the frame's flag
SELECTED, BUCKET_SCALES, VALUES, CHECK = range(10, 14)
ALL, FLAGS, GAPS, DRAWN = range(4)
FLOAT, LEVELS, OCTETS, TABLE = range(4)
E4M3, E5M2 = 5, 6


def lossy_tensor(
    dtype: int,
    shape: Sequence[int],
    selection: int,
    values: int,
    parameters: bytes,
    k: int | None = None,
    seed: int | None = None,
) -> bytes:
    return (
        tensor_head(dtype, shape)
        + bytes([5, selection | values << 3])
        + (b"" if k is None else varint(k))
        + (b"" if seed is None else u64(seed))
        + parameters
    )


def float_rule(dtype: int, shift: int = 0) -> bytes:
    return bytes([dtype]) + zigzag(shift)


def level_rule(step: int, offset: int, levels: int, width: int, bucket: int) -> bytes:
    return varint(step) + varint(offset) + varint(levels) + bytes([width]) + varint(bucket)


def octet_rule(dtype: int, bucket: int) -> bytes:
    return bytes([dtype]) + varint(bucket)


def table_rule(entries: Sequence[float], bucket: int) -> bytes:
    return bytes([len(entries) - 1]) + f32s(entries) + varint(bucket)


def f32s(values: Sequence[float]) -> bytes:
    return np.array(values, "<f4").tobytes()


def plain(octets: bytes) -> bytes:
    """A packed array, its elements as they are."""
    return b"\0" + octets


def nested(dtype: int, count: int | tuple[int, ...], chunk: Chunk) -> bytes:
    """A packed array as a body of pipeline planes, of one chunk; count: of elements, or dims."""
    dims = count if isinstance(count, tuple) else (count,)
    item_bytes = {1: 4, 2: 2, 3: 2, 10: 2}.get(dtype, 1)
    return b"\1" + TensorBody(planes_tensor(dtype, dims, bytes(item_bytes)), [chunk]).archive_body()


@dataclass
class LossyBody:
    """sections: those behind `tensor`; `check` is made unless it is one of them."""

    tensor: bytes
    sections: dict[int, bytes] = field(default_factory=dict)
    checksums: bool = False

    def body(self, head: bytes = b"", in_archive: bool = False) -> bytes:
        """head: the bytes before the body that the checksum covers."""
        sections = dict(sorted(({1: self.tensor} | self.sections).items()))
        written = b"".join(section(i, p) for i, p in sections.items() if i < CHECK)
        behind = b"".join(section(i, p) for i, p in sections.items() if i >= CHECK)
        if CHECK in sections or (in_archive and not self.checksums):
            return written + behind
        digest = xxhash.xxh3_64_intdigest(head + written) if self.checksums else 0
        return written + section(CHECK, u64(digest) + bytes(0 if in_archive else 8)) + behind

    def frame(self, flags: int = LOSSY) -> bytes:
        length = len(self.body())  # does not depend on what the checksum is
        head = frame(bytes(length), flags | CHECKSUMS * self.checksums)[:-length]
        return head + self.body(head)

    def with_sections(self, sections: dict[int, bytes]) -> LossyBody:
        return replace(self, sections=self.sections | sections)

    def without(self, section_id: int) -> LossyBody:
        return replace(self, sections={i: p for i, p in self.sections.items() if i != section_id})
