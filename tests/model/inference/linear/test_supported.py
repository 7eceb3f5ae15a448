"""The checks of a form see wrong numbers and operators that torch lacks."""

import pytest
import torch
from torch import Tensor

from elmo_model.inference.linear.plain import PlainLinear
from elmo_model.inference.linear.supported import gives_the_product


class Wrong(PlainLinear):
    def linear(self, inputs: Tensor) -> Tensor:
        return super().linear(inputs) + 0.1


class WrongSum(PlainLinear):
    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        return super().addmm(addend, inputs) + 0.1


class Missing(PlainLinear):
    def __init__(self, weight: Tensor) -> None:
        torch.ops.mkldnn._no_such_operator(weight)


def test_the_right_product_is_used() -> None:
    assert gives_the_product(PlainLinear, 1e-5)


@pytest.mark.parametrize("form", [Wrong, WrongSum, Missing])
def test_another_product_is_not_used(form: type[PlainLinear]) -> None:
    assert not gives_the_product(form, 1e-5)
