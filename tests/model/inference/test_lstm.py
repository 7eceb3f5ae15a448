"""The LSTM of inference computes what the trained one computes."""

from itertools import accumulate

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import example, given
from torch import Tensor

from elmo_model.inference.linear import has_eight_bits
from elmo_model.inference.lstm import InferenceLSTM, InferenceStack, _gates, loop
from elmo_model.inference.precision import Precision
from elmo_model.inference.row_buckets import ANY, STEP_COUNTS, RowCounts
from elmo_model.inference.steps import whole
from elmo_model.network.bilm import Stack
from elmo_model.network.config import LSTMConfig
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.threads import ParallelDirections

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
NEEDS_8_BITS = pytest.mark.skipif(not has_eight_bits(), reason="no VNNI")
PRECISIONS = [
    pytest.param(name, marks=NEEDS_8_BITS if name == "int8" else ()) for name in TOLERANCES
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
    fast = InferenceLSTM(layer, precision, ParallelDirections(1))

    direct = whole(fast.run(inputs, SIZES, h, c))
    index = torch.arange(len(inputs)).flip(0)
    products = fast.project(inputs.flip(0))
    projected = whole(fast.run(index, SIZES, h, c, lambda ids: products.index_select(0, ids)))

    for found in (direct, projected):
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == torch.float32
            torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCES[precision])


@pytest.mark.parametrize("counts", [ANY, STEP_COUNTS, RowCounts((4, 6)), RowCounts((16,))])
@pytest.mark.parametrize("block", [1, 8, 20, 100])
def test_surplus_rows_and_parts_change_nothing(counts: RowCounts, block: int) -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = [11, 9, 9, 6, 3, 1, 1]
    inputs = torch.randn(sum(sizes), 3, generator=generator)
    h, c = (torch.randn(11, 3, generator=generator) for _ in range(2))
    rows: set[int] = set()

    def step(gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        assert len(gates) == len(h) == len(c)
        rows.add(len(gates))
        c = torch.tanh(gates + c) + 0.5 * h
        return c + gates, c

    expected = whole(
        loop(inputs, sizes, h, c, input_gates=torch.sin, step=step, block=block, counts=ANY)
    )
    rows.clear()
    found = whole(
        loop(inputs, sizes, h, c, input_gates=torch.sin, step=step, block=block, counts=counts)
    )

    assert rows <= set(counts.counts or sizes)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
@torch.inference_mode()
def test_outputs_and_state_are_those_of_the_trained_stack(layers: int, skip: bool) -> None:
    stack = Stack(LSTMConfig(layers, 8, 4, 3.0, 3.0, skip), dropout=0.5).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in stack.parameters():
        parameter.normal_(0, 0.5, generator=generator)
    tokens, h, c = (
        torch.randn(shape, generator=generator)
        for shape in ((11, 4), (layers, 4, 4), (layers, 4, 8))
    )
    sizes = [4, 3, 3, 1]
    outputs, last_h, last_c = stack(tokens, sizes, h, c)
    fast = InferenceStack(stack, "float32", ParallelDirections(1))
    products = fast.layers[0].project(tokens)

    for run in (
        fast.run(tokens, sizes, h, c),
        fast.run(torch.arange(11), sizes, h, c, lambda ids: products.index_select(0, ids)),
    ):
        found = whole(run)
        for one, other in zip([*found[0], *found[1:]], [*outputs, last_h, last_c], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@example(sizes=[9, 9, 1, 1], block=20)
@given(st.lists(st.integers(1, 60) | st.integers(1, 3), min_size=1), st.integers(1, 200))
def test_a_step_gets_the_input_products_of_its_rows(sizes: list[int], block: int) -> None:
    """A step's surplus rows may reach beyond the end; later steps then begin before that place."""
    sizes = sorted(sizes, reverse=True)
    inputs = torch.arange(1.0, 1 + sum(sizes))[:, None]
    starts = accumulate(sizes, initial=0)
    steps = [(start, rows + rows // 3) for start, rows in zip(starts, sizes, strict=False)]

    found = list(_gates(inputs, iter(steps), lambda part: part, block))

    zeros = inputs.new_zeros(sizes[0], 1)
    every = torch.cat((inputs, zeros))
    for gates, (start, rows) in zip(found, steps, strict=True):
        assert torch.equal(gates, every[start : start + rows])
