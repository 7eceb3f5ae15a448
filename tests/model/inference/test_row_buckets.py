"""Row buckets: few of them, never fewer rows than asked for, and the same vectors."""

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.row_buckets import RoundUp, four_at_least, in_steps, in_strides
from tests.support.checkpoints import write_pair


@pytest.mark.parametrize(
    ("round_up", "least", "most", "waste"),
    [(in_steps, 1, 65, 4 / 3), (four_at_least, 4, 62, 4 / 3), (in_strides, 1, 20, 1.5)],
)
def test_buckets_are_few_and_none_is_too_small(
    round_up: RoundUp, least: int, most: int, waste: float
) -> None:
    found = {rows: round_up(rows) for rows in range(401)}

    assert found[0] == 0 and found[1] == least
    assert all(rows <= rounded <= max(least, waste * rows) for rows, rounded in found.items())
    assert len(set(found.values())) <= most
    assert all(round_up(rounded) == rounded for rounded in found.values())


def test_surplus_rows_of_large_layers_change_no_vector(tmp_path: Path) -> None:
    """Their time steps compute at least four rows."""
    elmo = load(write_pair(tmp_path, cell=3072, projection=384, layers=1))
    encoder = Encoder.of(elmo)
    assert encoder.bilm.forward_stack.layers[0].round_up(1) == 4
    sentences = [["a", "b", "c"], ["d"], ["e", "f"]]

    together = encoder.embed(sentences)

    for sentence, ours in zip(sentences, together, strict=True):
        (alone,) = elmo.embed([sentence])
        torch.testing.assert_close(ours, alone, rtol=0, atol=2e-5)
        torch.testing.assert_close(encoder.embed([sentence])[0], alone, rtol=0, atol=2e-5)
