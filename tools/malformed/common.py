"""The sound frames that the cases break, and what a case is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reference import builder as b
from reference.builder import Chunk, ScaledFields, TensorBody

# What reaches beyond its section may be called truncated or corrupt.
SHORT = "corrupt truncated"


@dataclass
class Case:
    """kinds: the error kinds that are right, `accepted` for a frame that is sound though odd.

    word: stands in the message of the real decoder.
    """

    name: str
    frame: bytes
    kinds: str
    word: str
    rule: str


SYMBOLS = [3, 5, 4, 4, 6, 2, 3, 7, 0, 13, 5, 5, 4, 1, 9, 8] * 2
FLAT16 = b.flat_lengths(16)
TABLE16 = b.huffman_table(FLAT16, base=112)
RAW32 = b.records(range(32), 8)
STREAM32 = b.huffman_stream(SYMBOLS, FLAT16)
FREQUENCIES = {0: 96, 1: 500, 2: 1000, 3: 1500, 4: 1000}
ANS_SYMBOLS = [3, 2, 4, 1, 3, 3, 0, 2] * 4
ANS_STREAM = b.ans_payload(ANS_SYMBOLS, FREQUENCIES, alias=True)


def scaled(
    fields: ScaledFields | None = None,
    data: bytes | None = None,
    table: bytes = TABLE16,
    entry: Chunk | None = None,
    **sections: bytes,
) -> TensorBody:
    """A bf16 tensor of one coded chunk with 16 symbols."""
    if data is None:
        data = b.parts(RAW32, [STREAM32])
    chunk = entry or Chunk(b.CODED, data)
    by_id = {getattr(b, name.upper()): payload for name, payload in sections.items()}
    by_id.setdefault(b.TABLES, b.tables_section(table))
    return TensorBody((fields or ScaledFields()).tensor(), [chunk], by_id)


def plain(
    kind: int = b.STORED, data: bytes | None = None, shape: tuple[int, ...] = (4,)
) -> TensorBody:
    """A u8 tensor in pipeline planes, of one chunk."""
    data = bytes([1, 2, 3, 4]) if data is None else data
    return TensorBody(
        b.planes_tensor(b.U8, shape, b"\0"), [Chunk(kind, data, decoded=data)], checksums=False
    )


def with_section(body: TensorBody, section_id: int, payload: bytes) -> bytes:
    return body.with_sections({section_id: payload}).frame()


def without_section(body: TensorBody, section_id: int) -> bytes:
    sections = {i: p for i, p in body.all_sections().items() if i != section_id}
    return b.frame(b"".join(b.section(i, p) for i, p in sections.items()))


def raw_tensor(payload: bytes) -> bytes:
    """The body of `plain` with another payload of `tensor`."""
    return replace(plain(), tensor=payload).frame()
