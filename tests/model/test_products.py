"""Products laid out for inference give what the plain product gives."""

import pytest
import torch

from model.products import AnyProduct, FixedProduct, PackedProduct, Product, prepared


def product(dtype: torch.dtype = torch.float32) -> Product:
    plain = Product(24, 40)
    torch.nn.init.normal_(plain.weight, generator=torch.Generator().manual_seed(0))
    return plain.to(dtype)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 33])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_every_form_gives_the_same_product(rows: int, precision: str) -> None:
    plain = product()
    form: AnyProduct = prepared(plain, precision)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(rows)
    inputs = torch.randn(rows, 24, generator=generator)
    bias, addend = torch.randn(40, generator=generator), torch.randn(rows, 40, generator=generator)
    tolerance = {"float32": 1e-5, "bfloat16": 0.2, "float16": 0.03}[precision]
    with torch.no_grad():
        truth = inputs @ plain.weight.T
        pairs = [
            (form(inputs), truth),
            (form(inputs, bias), truth + bias),
            (form.plus(inputs, addend), truth + addend),
            (plain(inputs, bias), truth + bias),
            (plain.plus(inputs, addend), truth + addend),
        ]
    for ours, expected in pairs:
        torch.testing.assert_close(ours, expected, rtol=0, atol=tolerance)


def test_packing_is_used_where_torch_has_it() -> None:
    assert isinstance(prepared(product(), "float32"), PackedProduct)


def test_other_types_stay_plain() -> None:
    form = prepared(product(torch.float64), "float32")
    assert isinstance(form, FixedProduct)
    assert form(torch.ones(1, 24, dtype=torch.float64)).dtype == torch.float64


def test_a_prepared_product_stays_as_it_is() -> None:
    form = prepared(product(), "float32")
    assert prepared(form, "bfloat16") is form


def test_a_plain_product_learns_through_both_forms_of_sum() -> None:
    plain = product()
    inputs = torch.randn(3, 24)
    addend = torch.zeros(3, 40, requires_grad=True)
    torch.autograd.backward(plain.plus(inputs, addend).sum())
    assert addend.grad is not None and plain.weight.grad is not None
    torch.testing.assert_close(plain.weight.grad, inputs.sum(dim=0).expand(40, 24))
