"""The LSTM of inference computes what the trained one computes."""

import pytest
import torch

from elmo_model.inference.linear import quantises
from elmo_model.inference.lstm import InferenceLSTM
from elmo_model.inference.precision import Precision
from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM

SIZES = [5, 5, 3, 2, 1, 1]
FORMS = [
    {},
    {"cell_clip": None, "projection_clip": None},
    {"cell_clip": 0.3, "projection_clip": 0.2},
    {"cell": 16, "projected": False, "projection_clip": None},
    {"forget_bias": 0.0},
]
TOLERANCES: dict[Precision, float] = {
    "float32": 1e-5,
    "bfloat16": 0.1,
    "float16": 0.02,
    "int8": 0.15,
}
PRECISIONS = [
    pytest.param(name, marks=pytest.mark.skipif(name == "int8" and not quantises(), reason="VNNI"))
    for name in TOLERANCES
]


def trained(**changes: object) -> ProjectedLSTM:
    values: dict[str, object] = {
        "layers": 1,
        "cell": 32,
        "projection": 16,
        "cell_clip": 3.0,
        "projection_clip": 3.0,
        "skip": True,
    }
    layer = ProjectedLSTM(LSTMConfig(**{**values, **changes}))  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.25, generator=generator)
    return layer


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", PRECISIONS)
@torch.inference_mode()
def test_outputs_and_state_are_those_of_the_trained_one(
    form: dict[str, object], precision: Precision
) -> None:
    layer = trained(**form)
    inputs, h = torch.randn(sum(SIZES), 16), torch.randn(5, 16) / 4
    c = torch.randn(5, layer.recurrent.out_features // 4) / 4
    expected = layer(inputs, SIZES, h, c)
    fast = InferenceLSTM(layer, precision)

    direct = fast.run(inputs, SIZES, h, c)
    index = torch.arange(len(inputs)).flip(0)
    projected = fast.run_projected(fast.project(inputs.flip(0)), index, SIZES, h, c)

    for found in (direct, projected):
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == torch.float32
            torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCES[precision])


@torch.inference_mode()
def test_the_trained_layer_and_the_given_state_are_not_changed() -> None:
    layer = trained()
    before = [parameter.clone() for parameter in layer.parameters()]
    h, c = torch.ones(5, 16), torch.ones(5, 32)
    InferenceLSTM(layer, "float32").run(torch.randn(sum(SIZES), 16), SIZES, h, c)
    assert (h == 1).all() and (c == 1).all()
    for parameter, value in zip(layer.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
