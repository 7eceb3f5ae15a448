"""The published shapes have the published sizes."""

from elmo_model.training.options import config_of
from elmo_model.training.recipe import SHAPES


def test_the_original_is_the_shape_of_the_paper() -> None:
    config = config_of(SHAPES["original"])
    lstm, cnn = config.lstm, config.char_cnn
    assert (lstm.layers, lstm.cell, lstm.projection) == (2, 4096, 512)
    assert cnn is not None and sum(count for _, count in cnn.filters) == 2048
    assert cnn.highways == 2
