"""The manifest of an index: whole, of this version, of an index."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elmo_model.neighbours.manifest import FILE, Manifest
from elmo_model.neighbours.store import part_folder
from elmo_model.neighbours.text import IndexFolderError, PartFacts
from tests.support.neighbours import manifest_of

PART = PartFacts(5, 2, 3, 2, "0f", {"words.bin": 7})


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = replace(manifest_of(), parts=(PART, PART), words={"numbers.npy": 3})
    manifest.write(tmp_path)

    assert Manifest.read(tmp_path) == manifest
    assert (manifest.tokens, manifest.known_words) == (10, 6)
    assert part_folder(tmp_path, 1) == tmp_path / "part-00001"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no JSON"),
        ("[]", "is no index of uses"),
        ("[" * 100_000, "is no JSON"),
        ('{"format": "other"}', "is no index of uses"),
        ('{"format": "elmo-serve index of uses", "version": 1}', "version 1, expected 2"),
        ('{"format": "elmo-serve index of uses", "version": 2, "parts": []}', "is damaged"),
        ('{"format": "elmo-serve index of uses", "version": 2}', "is damaged"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / FILE).write_text(text)

    with pytest.raises(IndexFolderError, match=reason) as error:
        Manifest.read(tmp_path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"words": 5}, "damaged: words is 5, expected an object"),
        ({"words": {"numbers.npy": "a"}}, r"damaged: words.numbers.npy is 'a', expected"),
        ({"layers": "3"}, "damaged: layers is '3', expected a whole number"),
        ({"parts": [5]}, "is damaged"),
        ({"parts": []}, "damaged: it is finished and has no part"),
    ],
)
def test_members_of_another_type_are_named(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    replace(manifest_of(), parts=(PART,), words={"numbers.npy": 3}).write(tmp_path)
    facts = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**facts, **change}))

    with pytest.raises(IndexFolderError, match=reason):
        Manifest.read(tmp_path)


def test_a_folder_without_one_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="is no index of uses"):
        Manifest.read(tmp_path)


def test_it_is_json_that_people_can_read(tmp_path: Path) -> None:
    manifest_of("corpus.txt").write(tmp_path)

    facts = json.loads((tmp_path / FILE).read_text())
    assert (facts["text"], facts["model"], facts["revision"]) == ("corpus.txt", "tiny", "abc")
