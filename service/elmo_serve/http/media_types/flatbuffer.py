"""FlatBuffers written from a description of their tables: the headers of Arrow messages.

The usual way is code that is generated from Arrow's schema files, which would be larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flatbuffers import Builder
from flatbuffers import number_types as numbers

_TYPES = {
    "B": numbers.Uint8Flags,
    "h": numbers.Int16Flags,
    "i": numbers.Int32Flags,
    "q": numbers.Int64Flags,
}
_STRUCT_BYTES, _OFFSET_BYTES = 16, 4


@dataclass(frozen=True, slots=True)
class Number:
    """A number; `type` is its letter in the module `struct`: "B", "h", "i" or "q"."""

    type: str
    value: int


@dataclass(frozen=True, slots=True)
class Structs:
    """A vector of structs of two 64-bit numbers each."""

    rows: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Table:
    """Fields in the order of their slots; None leaves a field out."""

    fields: tuple[Number | str | Structs | Table | Sequence[Table] | None, ...] = ()


def write(root: Table) -> bytes:
    """Return a buffer with `root` as its root table."""
    builder = Builder()
    builder.Finish(_table(builder, root))
    return bytes(builder.Output())


def _table(builder: Builder, table: Table) -> int:
    # Strings, vectors and tables lie outside of the table that refers to them, written before it.
    fields = [
        field if field is None or isinstance(field, Number) else _long(builder, field)
        for field in table.fields
    ]
    builder.StartObject(len(fields))
    for slot, field in enumerate(fields):
        match field:
            case Number(kind, value):
                builder.PrependSlot(_TYPES[kind], slot, value, None)  # None: also where it is 0
            case int():
                builder.PrependUOffsetTRelativeSlot(slot, field, 0)
    return _place(builder.EndObject())


def _long(builder: Builder, field: str | Structs | Table | Sequence[Table]) -> int:
    match field:
        case Table():
            return _table(builder, field)
        case str():
            return _place(builder.CreateString(field))
        case Structs(rows):
            builder.StartVector(_STRUCT_BYTES, len(rows), 8)
            for first, second in reversed(rows):
                builder.PrependInt64(second)
                builder.PrependInt64(first)
            return _place(builder.EndVector())
        case _:
            places = [_table(builder, table) for table in field]
            builder.StartVector(_OFFSET_BYTES, len(places), _OFFSET_BYTES)
            for place in reversed(places):
                builder.PrependUOffsetTRelative(place)
            return _place(builder.EndVector())


def _place(offset: int) -> int:
    """Return an offset with its type: flatbuffers itself is not typed."""
    return offset
