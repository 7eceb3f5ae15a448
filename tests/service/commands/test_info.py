"""`elmo info`: the facts of a checkpoint, and the documents that repeat them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from elmo_model.checkpoints import FORMATS, native
from elmo_model.models.opening import BUILT_IN, open_model
from tests.support.command_line import elmo

DOCS = Path(__file__).parents[3] / "docs" / "models.md"


def test_json_has_the_facts_of_a_checkpoint(published: Path) -> None:
    options = json.loads((published / "options.json").read_text())

    facts = json.loads(elmo("info", published, "--json").stdout)

    assert facts["name"] == "published"
    assert facts["format"] == "allennlp"
    assert len(facts["revision"]) >= 8
    assert (facts["tokenizer"], facts["language"]) == ("moses", "en")
    assert facts["layers"] == options["lstm"]["n_layers"] + 1
    assert facts["dimension"] == 2 * options["lstm"]["projection_dim"]
    assert facts["parameters"] == open_model(published).config.parameter_count
    assert facts["configuration"]["lstm"]["cell"] == options["lstm"]["dim"]


def test_text_has_one_fact_a_line(published: Path) -> None:
    lines = elmo("info", published).stdout.splitlines()

    facts = dict(line.split(maxsplit=1) for line in lines)
    assert facts["name"] == "published"
    assert facts["lstm.skip"] in ("yes", "no")
    assert facts["char_cnn.filters"].startswith("1x")


def test_the_folder_of_a_run_is_its_model(published: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    before = elmo("info", run)
    native.save(open_model(published), run / "model.safetensors")
    shutil.copytree(published, run / "published")

    facts = json.loads(elmo("info", run, "--json").stdout)

    assert (facts["name"], facts["format"]) == ("published", "native")
    assert before.exit_code == 1
    assert before.stderr == (
        f"elmo: {run}: is a run of `elmo train` without a model.safetensors, which is written when "
        f"the training ends\n"
    )


def test_a_built_in_name_is_found_in_any_case() -> None:
    assert elmo("info", "English").stdout == elmo("info", "english").stdout


def test_the_documentation_names_every_format_and_built_in_model() -> None:
    section = DOCS.read_text().split("\n## Names, paths and formats\n")[1]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    first = [line.split("`")[1] for line in rows]

    assert first[: len(FORMATS)] == [*FORMATS]
    assert all(f"`{name}`" in section for name in BUILT_IN)


def test_the_documentation_shows_the_output() -> None:
    printed = elmo("info", "english").stdout.splitlines()
    text = DOCS.read_text().splitlines()
    start = text.index("$ elmo info english") + 1

    assert text[start : start + 7] == printed[:7]
