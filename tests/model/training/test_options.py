"""The options of `elmo train` are checked; steps, sizes and the learning rate follow from them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load, save
from elmo_model.errors import ElmoError
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.training.command import train
from tests.support import golden
from tests.support.checkpoints import write_pair, write_word_pair
from tests.support.training import options


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"samples": 30}, "samples is 30, expected fewer than the 30 words"),
        ({"weights": "english", "shape": None, "cell": 8}, "weights and cell"),
        ({"weights": "nowhere", "shape": None}, "nowhere: does not exist"),
        ({"softmax_steps": 3}, "softmax_steps without weights"),
        ({"tokens": 100}, "steps and tokens"),
        ({"shape": "huge"}, "shape is 'huge', expected tiny, half"),
        ({"average": 1.5}, r"average is 1\.5, expected less than 1"),
        ({"decay": float("nan")}, "decay is nan"),
        ({"rows": "4"}, "rows is '4', expected a valid integer"),
        ({"fresh": 1}, "fresh is 1, expected a valid boolean"),
        ({"schedule": "linear"}, "schedule is 'linear', expected 'constant' or 'constant-decay'"),
        ({"text": ("nowhere*.txt",)}, "nowhere.*: no such file"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        train(options(tmp_path, "run", **changed))


def of_characters(folder: Path) -> Path:
    return golden.GOLDEN / "elmoformanylangs" / "char_only"


def of_words_and_characters(folder: Path) -> Path:
    return golden.GOLDEN / "elmoformanylangs" / "word_and_char"


def of_words(folder: Path) -> Path:
    return write_word_pair(folder, ("<S>", "</S>", "<UNK>", "cat"))


def aligned(folder: Path) -> Path:
    torch.save(np.eye(8), write_pair(folder) / "align.pth")
    return folder


def with_another_forget_bias(folder: Path) -> Path:
    network = load(write_pair(folder / "pair"))
    lstm = replace(network.config.lstm, forget_bias=0.0)
    network.config = replace(network.config, lstm=lstm)
    return saved(network, folder)


def saved(network: ElmoNetwork, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    save(network, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("option", ["weights", "shape"])
@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (of_characters, "has a lexicon of its own"),
        (of_words_and_characters, "has a lexicon of its own"),
        (of_words, "has a lexicon of its own"),
        (aligned, "is aligned to another language"),
        (with_another_forget_bias, r"has lstm\.forget_bias 0\.0"),
    ],
)
def test_a_checkpoint_that_a_run_cannot_export_is_refused(
    tmp_path: Path, made: Callable[[Path], Path], fault: str, option: str
) -> None:
    """Before the text is read: a run of hours would fail at its end."""
    path = str(made(tmp_path / "given"))
    chosen = options(tmp_path, "run", **{"shape": None, option: path})
    with pytest.raises(ElmoError, match=rf"^{option} is .*, which {fault}; expected a"):
        train(chosen)
    assert not chosen.run.exists()


def test_steps_follow_from_tokens_or_epochs_and_sizes_from_options(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", steps=None, tokens=110, shape="tiny", cell=6, projection=4)
    assert chosen.tokens_per_step == 20 and chosen.steps_of(3) == 5
    lstm = chosen.config().lstm
    assert (lstm.cell, lstm.projection) == (6, 4)
    of_epochs = replace(chosen, tokens=None, epochs=2)
    assert (of_epochs.steps_of(105), of_epochs.steps_of(3)) == (10, 1)
