"""The sections of a body (section 1 of format.md).

In: the bytes of a frame, or of a body in an archive. Out: the payload of each section and where it
stands. Assumes: nothing about the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from .wire import Reader, corrupt, features_seen, unsupported

TENSOR, TABLES, DEAD, SCALES, SIGNS, TAPS, INDEX, CHUNKS, TRAILER = range(1, 10)
SELECTED, BUCKET_SCALES, VALUES, CHECK = range(10, 14)
SOURCE, SHARED_TABLES, TENSORS, DIRECTORY, FOOTER = range(32, 37)

EXACT = {TENSOR, TABLES, DEAD, SCALES, SIGNS, TAPS, INDEX, CHUNKS, TRAILER}
LOSSY = {TENSOR, SELECTED, BUCKET_SCALES, VALUES, CHECK}
ARCHIVE = {SOURCE, TENSORS, DIRECTORY, FOOTER}


@dataclass
class Section:
    payload: bytes = b""
    id_offset: int = 0
    offset: int = 0  # of the payload; 0 for an absent section
    present: bool = False


Sections = dict[int, Section]


def read_sections(data: bytes, start: int, known: set[int], name: str) -> Sections:
    """The sections by id, an empty one where it is absent. Offsets count from the start of data."""
    reader = Reader(data, f"{name} body")
    reader.take(start, "frame header")
    sections, previous = {section_id: Section() for section_id in known}, 0
    while reader.left:
        id_offset = reader.offset
        section_id = reader.u8("section id", 1)
        if section_id <= previous:
            raise corrupt(f"{name} body: section {section_id} behind section {previous}")
        previous = section_id
        if section_id not in known and section_id < 128:
            raise unsupported(f"{name} body: section {section_id} is unknown")
        if name == "archive" and section_id > FOOTER:
            raise corrupt("archive body: a section behind the footer")
        length = reader.varint(f"length of section {section_id}")
        offset = reader.offset
        payload = reader.take(length, f"section {section_id}")
        if section_id in known:
            sections[section_id] = Section(payload, id_offset, offset, present=True)
        else:
            features_seen.add("optional section")
    return sections


def refuse_unknown(sections: Sections, known: set[int], name: str) -> None:
    """For a body whose kind shows in its first section only."""
    for section_id, section in sections.items():
        if section.present and section_id not in known:
            raise unsupported(f"{name} body: section {section_id} is unknown")


def refuse_others(sections: Sections, allowed: set[int]) -> None:
    for section_id, section in sections.items():
        if section.present and section_id not in allowed:
            raise corrupt(f"tensor body: section {section_id} has no place here")
