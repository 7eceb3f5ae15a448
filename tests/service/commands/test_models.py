"""`elmo models`: every model that has a name, as a table and as JSON."""

import json
from pathlib import Path

from elmo_model.models.catalogue import BUILT_IN, CATALOGUE, published_models
from tests.support.command_line import elmo


def test_every_model_is_a_row(tmp_path: Path) -> None:
    heading, *lines = elmo("models", "--cache", tmp_path).stdout.splitlines()

    names = [line.split()[0] for line in lines]
    assert heading.split() == [
        *("name", "language", "tokenizer", "size", "cached", "licence", "text"),
    ]
    assert names == [*BUILT_IN, *(model.name for model in published_models())]
    assert {*CATALOGUE, "nlpl:209", "efml:nl"} <= {*names}
    column = heading.index("cached")
    assert {line[column:].split()[0] for line in lines} == {"built", "no"}


def test_json_has_the_same_members_for_every_model(tmp_path: Path) -> None:
    rows = json.loads(elmo("models", "--json", ELMO_CACHE=str(tmp_path)).stdout)["models"]

    by_name = {row["name"]: row for row in rows}
    assert by_name["original"] == {
        "name": "original",
        "language": "en",
        "tokenizer": "moses",
        "size": 374_403_392,
        "cached": "no",
        "licence": "",
        "text": "1 Billion Word Benchmark",
    }
    assert by_name["english"]["tokenizer"] == "ptb"
    assert by_name["seqvec"]["tokenizer"] == "characters"
    assert (by_name["efml:nl"]["language"], by_name["efml:nl"]["licence"]) == ("nl", "CC BY 4.0")
    assert len({frozenset(row) for row in rows}) == 1


def test_what_the_cache_has_is_shown(tmp_path: Path) -> None:
    for name, files in (
        ("small", CATALOGUE["small"].files),
        ("medium", CATALOGUE["medium"].files[:1]),
    ):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file.name).touch()
    (tmp_path / "nlpl-209").mkdir()
    (tmp_path / "nlpl-209" / "209.zip").touch()

    rows = json.loads(elmo("models", "--json", "--cache", tmp_path).stdout)["models"]

    cached = {row["name"]: row["cached"] for row in rows}
    names = ("small", "medium", "nlpl:209", "original", "english")
    assert [cached[name] for name in names] == ["yes", "part", "yes", "no", "built in"]
