"""Rounded row counts: few of them, never fewer rows than there are, and the same numbers."""

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.lstm import PreparedLSTM
from elmo_model.inference.row_buckets import RoundUp, four_at_least, in_steps, in_strides
from tests.support.checkpoints import write_pair


@pytest.mark.parametrize(
    ("round_up", "least", "most", "waste"),
    [(in_steps, 1, 65, 4 / 3), (four_at_least, 4, 62, 4 / 3), (in_strides, 1, 20, 1.5)],
)
def test_there_are_few_and_none_is_too_small(
    round_up: RoundUp, least: int, most: int, waste: float
) -> None:
    found = {rows: round_up(rows) for rows in range(401)}

    assert found[0] == 0 and found[1] == least
    assert all(rows <= rounded <= max(least, waste * rows) for rows, rounded in found.items())
    assert len(set(found.values())) <= most
    assert all(round_up(rounded) == rounded for rounded in found.values())


def test_sentences_of_all_lengths_are_answered_as_one_by_one(tmp_path: Path) -> None:
    plain, prepared = load(write_pair(tmp_path, layers=3)), load(tmp_path).prepare()
    words = [f"w{number}" for number in range(40)]
    sentences = [words[: length % 37] for length in range(0, 300, 7)]

    together = prepared.embed(sentences)

    for sentence, ours in zip(sentences, together, strict=True):
        (alone,) = plain.embed([sentence])
        torch.testing.assert_close(ours, alone, rtol=0, atol=2e-5)


def test_the_state_is_that_of_each_row_at_its_own_end(tmp_path: Path) -> None:
    plain, prepared = load(write_pair(tmp_path)), load(tmp_path).prepare()
    sentences = [["a"] * length for length in (9, 3, 0, 12, 5, 5, 1, 7, 2, 11, 4)]

    with torch.inference_mode():
        _, expected = plain(sentences)
        _, found = prepared(sentences)

    torch.testing.assert_close(found.h, expected.h, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.c, expected.c, rtol=0, atol=1e-5)


def test_large_layers_answer_few_sentences_as_one_by_one(tmp_path: Path) -> None:
    """Their steps are given four rows at least: those that are made up change nothing."""
    folder = write_pair(tmp_path, cell=3072, projection=384, layers=1)
    plain, prepared = load(folder), load(folder).prepare()
    layer = prepared.bilm.forward_stack.get_submodule("layers.0")
    assert isinstance(layer, PreparedLSTM) and layer.round_up(1) == 4
    sentences = [["a", "b", "c"], ["d"], ["e", "f"]]

    together = prepared.embed(sentences)

    for sentence, ours in zip(sentences, together, strict=True):
        (alone,) = plain.embed([sentence])
        torch.testing.assert_close(ours, alone, rtol=0, atol=2e-5)
        torch.testing.assert_close(prepared.embed([sentence])[0], alone, rtol=0, atol=2e-5)
