"""Parts are added whole: a killed writer is continued, and the index is the same to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_model.neighbours.store import open_index
from elmo_model.neighbours.text import IndexFolderError
from elmo_model.neighbours.writer import IndexWriter
from tests.support.neighbours import centre_of, made_up, manifest_of, write_index

PARTS = [[["a", "b"], ["c"]], [["b", "d", "a"]], [["e"], [], ["a", "d"]]]
VECTORS = made_up([sentence for part in PARTS for sentence in part])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def add(writer: IndexWriter, number: int) -> None:
    start = sum(map(len, PARTS[:number]))
    new = writer.new_part(PARTS[number])
    for row in range(len(PARTS[number])):
        new.write(row, VECTORS[start + row])
    writer.add(new, len(PARTS[number]), f"digest {number}")


def test_a_resumed_index_is_the_same(tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    write_index(whole, PARTS, VECTORS)
    writer = IndexWriter.begin(resumed, manifest_of(), centre_of(VECTORS))
    add(writer, 0)
    torn = writer.new_part(PARTS[1])  # killed while it is written
    torn.write(0, VECTORS[2])

    for number in (1, 2):
        add(IndexWriter.resume(resumed), number)
    IndexWriter.resume(resumed).finish()

    assert contents(resumed) == contents(whole)


def test_a_writer_killed_before_the_manifest_writes_its_part_again(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "index"
    write_index(whole, PARTS, VECTORS)
    writer = IndexWriter.begin(folder, manifest_of(), centre_of(VECTORS))
    add(writer, 0)
    before = (folder / "index.json").read_bytes()
    add(writer, 1)
    (folder / "index.json").write_bytes(before)

    writer = IndexWriter.resume(folder)
    add(writer, 1)
    add(writer, 2)
    writer.finish()

    assert contents(folder) == contents(whole)


def test_an_index_that_is_not_finished_is_not_opened(tmp_path: Path) -> None:
    writer = IndexWriter.begin(tmp_path / "index", manifest_of(), centre_of(VECTORS))
    add(writer, 0)

    with pytest.raises(IndexFolderError, match="is not finished: 3 tokens are indexed"):
        open_index(tmp_path / "index")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")

    with pytest.raises(IndexFolderError, match="is not empty"):
        IndexWriter.begin(tmp_path, manifest_of(), centre_of(VECTORS))

    assert contents(tmp_path) == {"thesis.txt": b"mine"}
