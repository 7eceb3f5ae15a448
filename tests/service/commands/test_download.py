"""`elmo download`: fetching, listing, and refusals in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo_model.checkpoints import allennlp
from elmo_model.models.catalogue import CATALOGUE
from elmo_model.models.opening import open_model
from elmo_serve.commands.serve_settings import with_resolved_models
from elmo_serve.settings.text import from_strings
from tests.support.command_line import elmo
from tests.support.mirror import Mirror, serving


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with serving() as mirror:
        yield mirror


def test_a_published_model_is_served_by_its_name(mirror: Mirror, tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    allennlp.write(open_model("random-small"), pair)  # of the size of `small`
    for file, name in zip(CATALOGUE["small"].files, ("options.json", "weights.hdf5"), strict=True):
        mirror.files[f"/mirror/{file.path}"] = (pair / name).read_bytes()
    places = {"ELMO_CACHE": str(tmp_path / "cache"), "ELMO_MIRROR": mirror.address}

    fetched = elmo("download", "small", **places)
    again = elmo("info", "small", "--json", **places, ELMO_OFFLINE="1")

    assert fetched.exit_code == 0, fetched.output
    assert fetched.stdout == f"{tmp_path / 'cache' / 'small'}\n"
    facts = json.loads(again.stdout)
    assert facts["name"] == "elmo_2x1024_128_2048cnn_1xhighway"
    assert facts["revision"] == open_model("random-small").origin.revision
    settings = from_strings({"model": "small", "cache": places["ELMO_CACHE"], "offline": "true"})
    assert with_resolved_models(settings).specs[0].source == str(tmp_path / "cache" / "small")
    assert len(mirror.requests) == 2


def test_a_name_is_found_in_any_case(mirror: Mirror, tmp_path: Path) -> None:
    places = {"ELMO_CACHE": str(tmp_path), "ELMO_MIRROR": mirror.address, "ELMO_OFFLINE": "1"}

    result = elmo("download", "5.5B", **places)

    assert result.exit_code == 1
    assert str(tmp_path / "5.5b") in result.stderr


def test_a_misspelt_name_is_corrected() -> None:
    result = elmo("download", "orignal")

    assert result.exit_code == 2
    assert result.stderr.startswith("elmo: 'orignal' is no published model; did you mean original?")


def test_without_a_name_the_list_of_models_is_named() -> None:
    result = elmo("download")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("elmo: NAME is missing; `elmo models` lists the models")


def test_a_model_that_cannot_be_had_is_one_line(mirror: Mirror, tmp_path: Path) -> None:
    places = {"ELMO_CACHE": str(tmp_path), "ELMO_MIRROR": mirror.address}
    unknown = elmo("download", "big", **places)
    offline = [
        elmo(*command, **places, ELMO_OFFLINE="true")
        for command in (
            ["download", "original"],
            ["info", "original"],
            ["convert", "original", tmp_path / "a.safetensors"],
            ["tasks", "original", tmp_path / "tasks"],
            ["serve", "--model", "original"],
        )
    ]
    wrong = [
        elmo("info", "original", ELMO_OFFLINE="perhaps"),
        elmo("download", "small", "--mirror=x"),
    ]
    built_in = elmo("download", "English")

    assert (unknown.exit_code, [each.exit_code for each in offline]) == (2, [1] * 5)
    assert "'big' is no published model; `elmo models` lists them" in unknown.stderr
    assert built_in.stderr == "elmo: 'English' comes with the program: there is nothing to fetch\n"
    assert all("expected it there as ELMO_OFFLINE is set" in each.stderr for each in offline)
    assert wrong[0].stderr == "elmo: ELMO_OFFLINE='perhaps' is not allowed: true or false\n"
    assert wrong[1].stderr.startswith("elmo: --mirror='x' is not allowed: an address that starts")
    for each in (unknown, *offline, *wrong):
        assert each.stdout == "" and len(each.stderr.splitlines()) == 1
