"""FlatBuffers: what is written is read by the library's own reader."""

from flatbuffers import encode, packer
from flatbuffers import number_types as numbers
from flatbuffers.table import Table as Reader

from elmo_serve.http.media_types.flatbuffer import Number, Structs, Table, write


def root(data: bytes) -> Reader:
    buffer = bytearray(data)
    return Reader(buffer, encode.Get(packer.uoffset, buffer, 0))


def place(reader: Reader, slot: int) -> int:
    """Return the position of a field; 0 for a field that was left out."""
    offset = int(reader.Offset(4 + 2 * slot))
    return reader.Pos + offset if offset else 0


def test_fields_lie_in_their_slots() -> None:
    inner = Table((Number("i", 64),))
    table = Table((Number("h", 4), None, "name", inner, (inner, inner), Structs([(1, 2), (3, 4)])))

    reader = root(write(table))

    assert reader.Get(numbers.Int16Flags, place(reader, 0)) == 4
    assert place(reader, 1) == 0
    assert reader.String(place(reader, 2)) == b"name"
    other = Reader(reader.Bytes, reader.Indirect(place(reader, 3)))
    assert other.Get(numbers.Int32Flags, place(other, 0)) == 64
    assert reader.VectorLen(place(reader, 4) - reader.Pos) == 2
    start = reader.Vector(place(reader, 5) - reader.Pos)
    found = [reader.Get(numbers.Int64Flags, start + 8 * index) for index in range(4)]
    assert found == [1, 2, 3, 4]


def test_a_number_that_is_0_is_written_as_well() -> None:
    reader = root(write(Table((Number("q", 0),))))

    assert place(reader, 0)
