"""The command line, run as its users run it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from model.checkpoints import FORMATS
from model.pretrained import BUILT_IN, open_model
from model.task import Task
from service.cli import main
from service.settings import Settings, option, variable
from service.tasks import TaskRegistry

SMALL = Path(__file__).parents[1] / "golden" / "allennlp" / "small"
DOCS = Path(__file__).parents[2] / "docs" / "checkpoints.md"
TAKES_ANY = {"cache", "model", "host", "tasks"}
SENTENCES = [["The", "cat", "sat", "."], [], ["", "Zürich", "x" * 60]]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The golden pair, without the test data beside it."""
    folder = tmp_path / "published"
    folder.mkdir()
    for name in ("options.json", "weights.hdf5"):
        (folder / name).write_bytes((SMALL / name).read_bytes())
    return folder


def elmo(*arguments: object, **environment: str) -> Result:
    clean = {name: None for name in os.environ if name.startswith("ELMO_")}
    return CliRunner().invoke(main, list(map(str, arguments)), env={**clean, **environment})


def vectors(path: Path) -> list[np.ndarray]:
    return [each.numpy() for each in open_model(path).embed(SENTENCES)]


def assert_equal_to_the_bit(left: Path, right: Path) -> None:
    one, two = open_model(left).state_dict(), open_model(right).state_dict()
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    for mine, theirs in zip(vectors(left), vectors(right), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("elmo")

    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)

    assert run.stdout.startswith("elmo, version ")


def test_help_waits_for_nothing_heavy() -> None:
    code = (
        "import sys; from service.cli import main; main(['--help'], standalone_mode=False);"
        "print(sorted({'torch', 'fastapi', 'pydantic', 'numpy', 'rich'} & sys.modules.keys()))"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert all(name in run.stdout for name in ("serve", "info", "convert"))
    assert run.stdout.splitlines()[-1] == "[]"


def test_help_of_serve_documents_every_setting() -> None:
    text = " ".join(elmo("serve", "--help").output.split())

    for name, field in Settings.model_fields.items():
        assert f"{option(name)} " in text
        assert f"[env var: {variable(name)}]" in text
        assert str(field.description) in text


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - TAKES_ANY))
def test_a_wrong_variable_or_option_stops_the_start_with_one_line(name: str) -> None:
    wrong = "é,"

    by_variable = elmo("serve", **{variable(name): wrong})
    by_option = elmo("serve", f"{option(name)}={wrong}")

    for result, called in ((by_variable, variable(name)), (by_option, option(name))):
        assert result.exit_code == 2
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"elmo: {called}")
        assert "is not allowed: " in line


def test_an_option_wins_over_its_variable() -> None:
    result = elmo("serve", "--port=x", ELMO_PORT="1")

    assert result.stderr.startswith("elmo: --port='x' is not allowed")


def test_a_folder_of_tasks_that_is_none_stops_the_start_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")

    for place in (path, path / "below"):
        result = elmo("serve", "--tasks", place)

        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"elmo: --tasks='{place}' is not allowed: ")


def test_a_secret_never_reaches_the_terminal() -> None:
    assert "hunter" not in elmo("serve", ELMO_API_KEYS="hunter two").output
    assert "hunter" not in elmo("serve", "--help", ELMO_API_KEYS="hunter").output


def test_a_misspelt_variable_is_named_with_the_one_that_was_meant() -> None:
    result = elmo("serve", "--port=x", ELMO_PROT="1", ELMO_SERVICE_HOST="10.0.0.1")

    assert result.stderr.splitlines()[0] == (
        "elmo: ELMO_PROT is no setting; did you mean ELMO_PORT?"
    )
    assert "ELMO_SERVICE_HOST" not in result.stderr


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


def test_a_checkpoint_converted_and_back_is_the_same_to_the_bit(
    published: Path, tmp_path: Path
) -> None:
    native, again = tmp_path / "small.safetensors", tmp_path / "again"

    first = elmo("convert", published, native)
    second = elmo("convert", native, again)

    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    assert first.stdout.startswith(f"Wrote {native}: published, native, ")
    assert {path.name for path in again.iterdir()} == {"options.json", "weights.hdf5"}
    assert_equal_to_the_bit(published, native)
    assert_equal_to_the_bit(published, again)
    revisions = {open_model(path).origin.revision for path in (published, native, again)}
    assert len(revisions) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again",
        "published",
        "small.safetensors",
    ]


def test_a_name_is_kept_in_the_file(published: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"

    elmo("convert", published, path, "--name", "my model")

    assert json.loads(elmo("info", path, "--json").stdout)["name"] == "my model"
    assert "--name" in elmo("convert", published, tmp_path / "b", "--name", "x").stderr


def test_what_is_there_is_replaced_only_by_force(published: Path, tmp_path: Path) -> None:
    file, folder = tmp_path / "a.safetensors", tmp_path / "pair"
    file.write_text("mine")
    folder.mkdir()
    (folder / "options.json").write_text("mine")

    for path in (file, folder):
        refused = elmo("convert", published, path)
        assert refused.exit_code == 2
        assert refused.stderr == f"elmo: {path} exists; --force replaces it\n"
    assert file.read_text() == (folder / "options.json").read_text() == "mine"

    for path in (file, folder):
        assert elmo("convert", published, path, "--force").exit_code == 0
        assert_equal_to_the_bit(published, path)
    assert len(list(tmp_path.iterdir())) == 3


def test_force_takes_no_strangers_along(published: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    (tmp_path / "a.safetensors").mkdir()
    (tmp_path / "file").write_text("mine")

    results = [
        elmo("convert", published, tmp_path / name, "--force")
        for name in ("home", "a.safetensors", "file", "missing/a.safetensors")
    ]

    assert [result.exit_code for result in results] == [2, 2, 2, 2]
    assert "thesis.tex" in results[0].stderr
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert (tmp_path / "file").read_text() == "mine"


def test_every_kind_of_model_is_described_and_converted(tmp_path: Path) -> None:
    golden = SMALL.parents[1]
    kinds = {
        "elmoformanylangs": golden / "elmoformanylangs" / "word_and_char",
        "bilm-tf": golden / "tensorflow" / "bilm_tf",
        "tf-hub": golden / "tensorflow" / "tf_hub",
    }
    for kind, place in kinds.items():
        target = tmp_path / f"{kind}.safetensors"

        described = elmo("info", place)
        converted = elmo("convert", place, target)

        assert described.exit_code == converted.exit_code == 0, converted.output
        assert f"format {kind}" in " ".join(described.stdout.split())
        assert_equal_to_the_bit(place, target)
        assert open_model(target).tasks == open_model(place).tasks


def test_what_the_files_leave_open_is_said(tmp_path: Path) -> None:
    module = SMALL.parents[1] / "tensorflow" / "tf_hub"

    command = Path(sys.executable).with_name("elmo")
    arguments = [command, "convert", module, tmp_path / "pair"]

    run = subprocess.run(arguments, capture_output=True, text=True, check=True)

    first, second = run.stderr.splitlines()
    assert "says no rules; clips of 3, relu and 50 characters a token were taken" in first
    assert second == (
        "elmo: a pair keeps no tasks, these are left out: elmo; "
        f"`elmo tasks {module} FOLDER` writes them"
    )


def test_trained_mixes_become_task_files(tmp_path: Path) -> None:
    module, folder = SMALL.parents[1] / "tensorflow" / "tf_hub", tmp_path / "tasks"
    native = tmp_path / "module.safetensors"
    elmo("convert", module, native)

    written = [elmo("tasks", source, folder) for source in (module, native)]

    assert [each.stdout for each in written] == [f"Wrote {folder / 'elmo.json'}\n"] * 2
    (task,) = TaskRegistry(folder, 3).list()
    assert (task,) == open_model(native).tasks


def test_tasks_of_other_makers_are_replaced_only_by_force(tmp_path: Path) -> None:
    module, folder = SMALL.parents[1] / "tensorflow" / "tf_hub", tmp_path
    mine = Task("elmo", (1.0, 2.0, 3.0))
    TaskRegistry(folder, 3).put(mine)

    refused = elmo("tasks", module, folder)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == (
        f"elmo: {folder / 'elmo.json'} exists; --force replaces it"
    )
    assert TaskRegistry(folder, 3).list() == (mine,)
    assert elmo("tasks", module, folder, "--force").exit_code == 0
    assert TaskRegistry(folder, 3).list() != (mine,)


def test_a_model_without_mixes_has_no_tasks_to_write(published: Path, tmp_path: Path) -> None:
    for source in (published, "random-small"):
        result = elmo("tasks", source, tmp_path / "tasks")
        assert result.exit_code == 1
        assert result.stderr == f"elmo: {source}: holds no trained mixes\n"


@pytest.mark.parametrize("command", ["info", "convert"])
def test_a_wrong_checkpoint_is_refused_in_one_line(
    published: Path, tmp_path: Path, command: str
) -> None:
    weights = published / "weights.hdf5"
    weights.write_bytes(weights.read_bytes()[:1000])
    target = [tmp_path / "out.safetensors"] if command == "convert" else []

    for source in (published, tmp_path / "nowhere", __file__):
        result = elmo(command, source, *target)
        assert result.exit_code == 1
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("elmo: ")
        assert Path(source).name in line
    assert [path.name for path in tmp_path.iterdir()] == ["published"]


def test_the_documentation_names_every_format_and_built_in_model() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    first = [line.split("`")[1] for line in rows]

    assert first[: len(FORMATS) + len(BUILT_IN)] == [*FORMATS, *BUILT_IN]


def test_the_documentation_shows_what_info_prints() -> None:
    printed = elmo("info", "random-small").stdout.splitlines()
    text = DOCS.read_text().splitlines()
    start = text.index("$ elmo info random-small") + 1

    assert text[start : start + 7] == printed[:7]
