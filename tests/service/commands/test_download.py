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
