"""Row buckets: few of them, never fewer rows than asked for, and the same vectors."""

import pytest
import torch

from elmo_model.inference.lstm import InferenceLSTM
from elmo_model.inference.row_buckets import RoundUp, four_at_least, in_steps, in_strides
from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM


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


@torch.inference_mode()
def test_surplus_rows_of_large_layers_change_no_output() -> None:
    """Their time steps compute at least four rows."""
    layer = ProjectedLSTM(LSTMConfig(1, 2049, 512, 3.0, 3.0, True))
    generator = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        parameter.uniform_(-0.05, 0.05, generator=generator)
    fast = InferenceLSTM(layer, "float32")
    assert fast.round_up(1) == 4
    sizes = [3, 2, 1]
    inputs, h, c = torch.randn(6, 512), torch.zeros(3, 512), torch.zeros(3, 2049)
    for one, other in zip(fast.run(inputs, sizes, h, c), layer(inputs, sizes, h, c), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
