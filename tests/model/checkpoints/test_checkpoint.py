"""Checkpoints in memory: the revision, building without copies, networks that cannot be written."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load, read
from elmo_model.checkpoints.checkpoint import checkpoint_of, revision, tensors_of
from elmo_model.text.alphabets import Lexicon
from tests.support.checkpoints import write_pair


def test_a_built_network_shares_the_tensors(tmp_path: Path) -> None:
    checkpoint = read(write_pair(tmp_path / "pair"))

    elmo = checkpoint.build()

    for name, tensor in elmo.state_dict().items():
        assert tensor.data_ptr() == checkpoint.tensors[name].data_ptr()
        assert tensor.shape == tensors_of(checkpoint.config, checkpoint.alphabet)[name].shape
    assert not elmo.training


def test_the_revision_covers_configuration_numbers_and_dictionaries(tmp_path: Path) -> None:
    checkpoint = read(write_pair(tmp_path / "pair"))
    config, tensors = checkpoint.config, dict(checkpoint.tensors)
    marks = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
    ids = {mark: number for number, mark in enumerate(marks)}
    changed = dict(tensors)
    first = min(changed)
    changed[first] = changed[first] + 1

    revisions = {
        revision(config, tensors),
        revision(replace(config, lstm=replace(config.lstm, skip=False)), tensors),
        revision(config, changed),
        revision(config, tensors, Lexicon(ids, {})),
        revision(config, tensors, Lexicon({**ids, "a": 6}, {})),
    }

    assert len(revisions) == 5
    assert all(len(digits) == 12 for digits in revisions)


def test_a_network_of_another_type_cannot_be_written(tmp_path: Path) -> None:
    elmo = load(write_pair(tmp_path / "pair"))

    assert checkpoint_of(elmo).origin() == elmo.origin
    with pytest.raises(CheckpointError, match="is not there as float32, expected a network as it"):
        checkpoint_of(elmo.to(torch.float64))
