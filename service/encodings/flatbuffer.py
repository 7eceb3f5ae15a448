"""FlatBuffers, as much of the format as the headers of Arrow need: tables written front to back.

A table names its fields by their slots: in it stand numbers, and distances to what is longer, which
follows it. Each begins with the distance back to its vtable, which says where each slot is; every
number lies at a multiple of its own size, little-endian (FlatBuffers, "Internals").
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """A number as `struct` calls its type: "B", "h", "i" or "q"."""

    type: str
    value: int


@dataclass(frozen=True, slots=True)
class Structs:
    """A vector of structs of two 64-bit numbers each."""

    rows: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Table:
    """Fields by their slots; None is one that is left out."""

    fields: tuple[Number | str | Structs | Table | Sequence[Table] | None, ...] = ()


def write(root: Table) -> bytes:
    """Return a buffer whose root is this table."""
    buffer = bytearray(4)
    _point(buffer, 0, _table(buffer, root))
    return bytes(buffer)


def _table(buffer: bytearray, table: Table) -> int:
    """Append a table and what it refers to; return its place."""
    _align(buffer, 2)
    vtable = len(buffer)
    buffer += bytes(4 + 2 * len(table.fields))
    _align(buffer, 4)
    place = len(buffer)
    buffer += struct.pack("<i", place - vtable)
    ahead = []
    for slot, field in enumerate(table.fields):
        if field is None:
            continue
        number = field if isinstance(field, Number) else Number("i", 0)
        _align(buffer, struct.calcsize(number.type))
        struct.pack_into("<H", buffer, vtable + 4 + 2 * slot, len(buffer) - place)
        if not isinstance(field, Number):
            ahead.append((len(buffer), field))
        buffer += struct.pack("<" + number.type, number.value)
    struct.pack_into("<HH", buffer, vtable, 4 + 2 * len(table.fields), len(buffer) - place)
    for at, field in ahead:
        _point(buffer, at, _long(buffer, field))
    return place


def _long(buffer: bytearray, field: str | Structs | Table | Sequence[Table]) -> int:
    match field:
        case Table():
            return _table(buffer, field)
        case str():
            return _string(buffer, field)
        case Structs(rows):
            return _structs(buffer, rows)
        case _:
            return _tables(buffer, field)


def _string(buffer: bytearray, text: str) -> int:
    data = text.encode()
    place = _count(buffer, len(data), 4)
    buffer += data + b"\0"
    return place


def _structs(buffer: bytearray, rows: Sequence[tuple[int, int]]) -> int:
    place = _count(buffer, len(rows), 8)
    for row in rows:
        buffer += struct.pack("<qq", *row)
    return place


def _tables(buffer: bytearray, tables: Sequence[Table]) -> int:
    place = _count(buffer, len(tables), 4)
    buffer += bytes(4 * len(tables))
    for index, table in enumerate(tables):
        _point(buffer, place + 4 + 4 * index, _table(buffer, table))
    return place


def _count(buffer: bytearray, count: int, size: int) -> int:
    """Append the count of a vector whose members, right after it, are aligned to `size`."""
    while (len(buffer) + 4) % size or len(buffer) % 4:
        buffer += b"\0"
    buffer += struct.pack("<I", count)
    return len(buffer) - 4


def _point(buffer: bytearray, at: int, place: int) -> None:
    struct.pack_into("<I", buffer, at, place - at)


def _align(buffer: bytearray, size: int) -> None:
    buffer += bytes(-len(buffer) % size)
