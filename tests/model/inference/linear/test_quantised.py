"""8-bit products: a scale for each row, exact zeros."""

import pytest
import torch
from torch import Tensor

from elmo_model.inference.linear.quantised import QuantisedLinear
from elmo_model.inference.linear.supported import quantises

NEEDS_8_BITS = pytest.mark.skipif(not quantises(), reason="no exact 8-bit product here")


def weights() -> Tensor:
    return torch.randn(40, 24, generator=torch.Generator().manual_seed(0))


@NEEDS_8_BITS
def test_no_row_changes_the_rounding_of_another() -> None:
    form = QuantisedLinear(weights())
    inputs = torch.randn(3, 24, generator=torch.Generator().manual_seed(1))
    loud = torch.cat((inputs[:1], 1000 * inputs[1:]))

    alone = form.linear(inputs[:1])

    assert torch.equal(form.linear(loud)[:1], alone)


@NEEDS_8_BITS
def test_a_row_of_zeros_is_exactly_zero() -> None:
    assert not QuantisedLinear(weights()).linear(torch.zeros(2, 24)).any()
