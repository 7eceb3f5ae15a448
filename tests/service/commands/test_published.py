"""Model names in commands: a name wins over a file or folder of that name."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from elmo_model.models.catalogue import CATALOGUE
from elmo_serve.cli import main
from elmo_serve.commands.options import resolve_model
from elmo_serve.commands.serve_settings import with_resolved_models
from elmo_serve.settings import variable
from elmo_serve.settings.text import default, from_strings
from tests.support.checkpoints import small_size_pair
from tests.support.command_line import elmo
from tests.support.download_server import serving
from tests.support.files import closed
from tests.support.servers import Running


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a cache folder into which `elmo download` has put a model like `small`."""
    folder = tmp_path_factory.mktemp("published")
    small_size_pair(folder / "pair")
    cache = {"ELMO_CACHE": str(folder / "cache")}
    files = zip(CATALOGUE["small"].files, ("options.json", "weights.hdf5"), strict=True)
    with serving() as mirror:
        for file, name in files:
            mirror.files[f"/mirror/{file.path}"] = (folder / "pair" / name).read_bytes()
        fetched = elmo("download", "small", **cache, ELMO_MIRROR=mirror.address)
    assert fetched.stdout == f"{folder / 'cache' / 'small'}\n", fetched.output
    assert len(mirror.requests) == 2
    return {**cache, "ELMO_OFFLINE": "1"}


def test_every_command_takes_published_names(places: dict[str, str], tmp_path: Path) -> None:
    results = [
        elmo("info", "small", **places),
        elmo("convert", "Small", tmp_path / "out.safetensors", **places),
    ]

    assert [result.exit_code for result in results] == [0, 0], results[1].output
    assert "elmo_2x1024_128_2048cnn_1xhighway" in results[0].stdout
    for name in ("small", "Small"):
        settings = from_strings({"model": name, "cache": places["ELMO_CACHE"], "offline": "true"})
        resolved = with_resolved_models(settings).sources[0].source
        assert resolved == f"{places['ELMO_CACHE']}/small"


def test_every_command_that_can_do_without_the_name_of_a_model_obeys_the_variable() -> None:
    parameters = {
        name: parameter
        for name, command in main.commands.items()
        if name != "serve"  # its own is a setting
        for parameter in command.params
        if parameter.name == "model" and not parameter.required
    }

    expected = {
        "embed",
        "fit",
        "index",
        "info",
        "look",
        "score",
        "tokenize",
    }
    assert parameters.keys() == expected
    for name, parameter in parameters.items():
        found = (parameter.opts, parameter.envvar, parameter.default)
        spelling = ["model"] if isinstance(parameter, click.Argument) else ["--model", "-m"]
        assert found == (spelling, variable("model"), default("model")), name


def test_the_variable_names_no_model_of_a_server(server: Running) -> None:
    texts = ("It rains.", "It pours.")

    result = elmo("look", *texts, "--server", server.url, ELMO_MODEL="nowhere")
    refused = elmo("look", *texts, "--server", server.url, "--model", "nowhere")

    assert result.exit_code == 0, result.output
    assert refused.exit_code == 1 and "nowhere" in refused.stderr


def test_a_path_with_a_slash_is_never_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: Path
) -> None:
    published.rename(tmp_path / "small")
    monkeypatch.chdir(tmp_path)

    facts = json.loads(elmo("info", "./small", "--json").stdout)

    assert facts["name"] == "small" and facts["dimension"] == 32


def test_a_name_needs_no_right_to_look_into_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with closed(tmp_path):
        assert resolve_model("english") == "english"
