"""Models by name or path."""

from dataclasses import replace
from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError, load, save
from elmo_model.models.opening import BUILT_IN, open_model
from elmo_model.network.description import Description
from tests.support.golden import SMALL


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(CheckpointError, match="nglish: does not exist"):
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
