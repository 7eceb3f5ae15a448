"""Models by name or path."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from elmo_model.allennlp.module import Elmo
from elmo_model.checkpoints import CheckpointError, load, save
from elmo_model.models.catalogue import CATALOGUE
from elmo_model.models.opening import BUILT_IN, open_model
from elmo_model.network.description import Description
from tests.support.golden import SMALL


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(CheckpointError, match="nglish"):
        open_model("nglish")


def test_a_file_states_its_tokenizer_whatever_its_name_is(tmp_path: Path) -> None:
    elmo, path = load(SMALL), tmp_path / "seqvec.safetensors"
    elmo.origin = replace(elmo.origin, name="seqvec", description=Description("moses", "sl"))

    save(elmo, path)

    assert load(path).origin.description == open_model(path).origin.description
    assert open_model(path).origin.description == Description("moses", "sl")


def test_a_file_that_does_not_state_its_tokenizer_is_known_by_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elmo, path = load(SMALL), tmp_path / "model.safetensors"
    found, lines = [], []

    for name in ("mine", "english", "japanese"):
        elmo.origin = replace(elmo.origin, name=name)
        save(elmo, path)
        caplog.clear()
        description = open_model(path).origin.description
        found.append((description.tokenizer, description.language))
        lines.append(len(caplog.records))

    # anybody may call a model `english`; the built-in one is known by its weights
    assert found == [("moses", "en"), ("moses", "en"), ("whitespace", "ja")]
    assert lines == [0, 0, 1] and "whitespace" in caplog.text


def test_the_built_in_model_is_known_by_its_name_and_by_its_weights(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert open_model("english").origin.description == Description("ptb", "en")
    assert not caplog.records
    assert open_model(BUILT_IN["english"]).origin.description == Description("ptb", "en")


PAIRS = [
    (model.name, options, weights)
    for model in CATALOGUE.values()
    if len(model.files) > 1
    for options in model.files[0].urls()
    for weights in model.files[1].urls()
]


def test_every_address_of_a_published_pair_is_that_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    assert len(PAIRS) > 4 * len(CATALOGUE) / 2

    for name, options, weights in PAIRS:
        model = CATALOGUE[name]
        with pytest.raises(CheckpointError, match=f"elmo download {name}`"):
            Elmo(options, weights, 1)
        (folder := tmp_path / model.folder).mkdir()
        for own, file in zip(("options.json", "weights.hdf5"), model.files, strict=False):
            shutil.copyfile(SMALL / own, folder / file.name)
        assert Elmo(options, weights, 1).get_output_dim() == 32
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["two models", "options alone", "a file beside", "unknown"])
def test_addresses_that_are_not_of_one_pair_are_refused(kind: str) -> None:
    small, original = (CATALOGUE[name].files for name in ("small", "original"))
    options = small[0].urls()[0]
    given = {
        "two models": (options, original[1].urls()[0]),
        "options alone": (options, None),
        "a file beside": (options, SMALL / "weights.hdf5"),
        "unknown": ("https://example.org/options.json", "https://example.org/weights.hdf5"),
    }

    with pytest.raises(CheckpointError, match="elmo download"):
        Elmo(*given[kind], 1)
