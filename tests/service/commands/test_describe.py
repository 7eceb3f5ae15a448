"""`elmo info`: what a checkpoint is, and what the documents say of it."""

from __future__ import annotations

import json
from pathlib import Path

from elmo_model.checkpoints import FORMATS
from elmo_model.pretrained import BUILT_IN, open_model
from tests.support.command_line import elmo

DOCS = Path(__file__).parents[3] / "docs" / "checkpoints.md"


def test_info_says_what_a_checkpoint_is(published: Path) -> None:
    options = json.loads((published / "options.json").read_text())

    facts = json.loads(elmo("info", published, "--json").stdout)

    assert facts["name"] == "published"
    assert facts["format"] == "allennlp"
    assert len(facts["revision"]) >= 8
    assert facts["layers"] == options["lstm"]["n_layers"] + 1
    assert facts["dimension"] == 2 * options["lstm"]["projection_dim"]
    assert facts["parameters"] == open_model(published).parameter_count
    assert facts["configuration"]["lstm"]["cell"] == options["lstm"]["dim"]


def test_info_for_people_has_one_fact_a_line(published: Path) -> None:
    lines = elmo("info", published).stdout.splitlines()

    facts = dict(line.split(maxsplit=1) for line in lines)
    assert facts["name"] == "published"
    assert facts["lstm.skip"] in ("yes", "no")
    assert facts["char_cnn.filters"].startswith("1x")


def test_the_documentation_names_every_format_and_built_in_model() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    first = [line.split("`")[1] for line in rows]

    assert first[: len(FORMATS) + len(BUILT_IN)] == [*FORMATS, *BUILT_IN]


def test_the_documentation_shows_what_info_prints() -> None:
    printed = elmo("info", "random-small").stdout.splitlines()
    text = DOCS.read_text().splitlines()
    start = text.index("$ elmo info random-small") + 1

    assert text[start : start + 7] == printed[:7]
