"""Rounded row counts: few of them, never fewer rows than there are, and the same numbers."""

from pathlib import Path

import pytest
import torch

from model.checkpoints import load
from model.row_counts import RoundUp, in_steps, in_strides
from tests.checkpoints import write_pair


@pytest.mark.parametrize(
    ("round_up", "most", "waste"), [(in_steps, 65, 4 / 3), (in_strides, 20, 1.5)]
)
def test_there_are_few_and_none_is_too_small(round_up: RoundUp, most: int, waste: float) -> None:
    found = {rows: round_up(rows) for rows in range(401)}

    assert found[0] == 0 and found[1] == 1
    assert all(rows <= rounded <= waste * rows for rows, rounded in found.items())
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
