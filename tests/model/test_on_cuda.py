"""On a CUDA device: the encoder, the language model and training."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.cuda_kernels import (
    WindowTensors,
    cell_by_torch,
    hidden_by_torch,
    pointwise,
)
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.scorer import Scorer
from elmo_model.inference.steps import whole
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.softmax import WordSoftmax
from elmo_model.text.alphabets import WordVocabulary
from elmo_model.training import sampled_softmax
from elmo_model.training.command import train
from elmo_model.training.fused_loop import passes, step, step_backward
from tests.support import golden
from tests.support.cuda import DEVICE, KIND, NEEDS_DEVICE
from tests.support.training import losses, options, weights

pytestmark = [pytest.mark.cuda, NEEDS_DEVICE]

SENTENCES = [[word for word in sentence if word] for sentence in golden.sentences()]


@pytest.fixture
def elmo() -> ElmoNetwork:
    return load(golden.SMALL)


@pytest.mark.parametrize(
    ("precision", "least"), [("float32", 0.999999), ("bfloat16", 0.99), ("float16", 0.9999)]
)
def test_vectors_on_a_device_are_those_of_the_network(
    elmo: ElmoNetwork, precision: str, least: float
) -> None:
    expected = torch.cat(elmo.embed(SENTENCES), dim=1)
    found = torch.cat(Encoder.of(elmo.to(DEVICE), precision).embed(SENTENCES), dim=1)
    assert found.device.type == KIND and found.dtype == torch.float32
    assert (torch.cosine_similarity(found.cpu(), expected, dim=2).mean(dim=1) > least).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_a_network_of_another_type_keeps_its_type(elmo: ElmoNetwork, dtype: torch.dtype) -> None:
    expected = torch.cat(elmo.embed(SENTENCES), dim=1)
    found = torch.cat(Encoder.of(elmo.to(DEVICE, dtype)).embed(SENTENCES), dim=1)
    assert found.dtype is dtype
    cosines = torch.cosine_similarity(found.cpu().double(), expected.double(), dim=2)
    assert (cosines.mean(dim=1) > 0.9999).all()


@pytest.mark.parametrize("is_added", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_kernel_computes_what_the_operations_of_torch_do(
    dtype: torch.dtype, is_added: bool
) -> None:
    """Also NaN, which a clip that compares would turn into its limit; ended rows keep theirs."""
    rows, cells, width, parts = 5, 48, 12, 4
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> torch.Tensor:
        return (4 * torch.randn(*shape, generator=generator)).to(DEVICE)

    gates, products = numbers(2, 3, rows, 4 * cells), numbers(2, rows, 4 * cells)
    gates[0, 1, 2, 7] = products[1, 0, 3] = float("nan")
    sums, bias = numbers(2 * parts, rows, width), numbers(2, 4 * cells)
    sums[0, 2, 5] = float("nan")
    kept, h, half = numbers(rows, 2, width + cells), numbers(2, rows, width), numbers(8, rows, 12)
    lengths = torch.tensor([3, 2, 2, 2, 1], device=DEVICE)
    maps, states = pointwise(torch.device(DEVICE), dtype), []
    assert (maps[0] is cell_by_torch) == (KIND == "cpu")
    for to_cell, to_hidden in (maps, (cell_by_torch, hidden_by_torch)):
        own = kept.clone(), h.to(dtype), half.to(dtype), torch.zeros(2, 3, rows, width).to(DEVICE)
        window = WindowTensors(gates, bias, lengths, *own, cell_clip=3.0, projection_clip=2.0)
        to_cell(window, None if is_added else products, 1)
        to_hidden(window, sums, 1)
        alive = [part[..., :4, :] for part in (window.h, window.half)]
        states.append([window.state, *alive, window.outputs[:, 1]])
    rtol = max(torch.finfo(dtype).eps, 1e-5)  # one rounding, and the exponential of the device
    for found, expected in zip(*states, strict=True):
        torch.testing.assert_close(found, expected, rtol=rtol, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_step_of_training_is_that_of_the_operations_of_torch(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)

    def numbers(columns: int) -> torch.Tensor:
        return (4 * torch.randn(5, columns, generator=generator)).to(DEVICE)

    sums, before = numbers(4 * 48).to(dtype), numbers(48)
    kept = torch.tensor([[1.0], [0.0], [1.0], [1.0], [0.0]]).to(DEVICE, dtype)
    sums[0, 0] = float("nan")
    d_unprojected, d_cell = numbers(48).to(dtype), numbers(48)
    found = []
    for forward, backward in (passes(sums), (step, step_backward)):
        values, d_sums = forward(sums.clone(), before, kept, 3.0), torch.empty_like(sums)
        found.append([*values, d_sums, backward(d_unprojected, d_cell, values, 3.0, d_sums)])
    # one rounding of each factor of a product
    rtol = max(4 * torch.finfo(dtype).eps, 1e-5)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=rtol, equal_nan=True)


def test_a_captured_step_of_training_is_that_of_the_cpu(tmp_path: Path) -> None:
    usual = {"precision": "float32", "dropout": 0.0, "recurrent_noise": 0.0}
    runs = [options(tmp_path, device, device=device, **usual) for device in ("cpu", KIND)]
    for chosen in runs:
        train(chosen)
    # each of 12 steps adds what the rounding of the one before made of the weights
    expected, found = (losses(chosen.run) for chosen in runs)
    assert len(found) == 12
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-3)


def test_a_run_on_a_device_takes_over_weights_and_the_softmax_beside_them(tmp_path: Path) -> None:
    """With the full softmax in parts, and after steps of the softmax alone."""
    first = options(tmp_path, "first", device=KIND, steps=2)
    given = {"weights": str(first.run / "model.safetensors"), "shape": None, "softmax_steps": 2}
    second = options(tmp_path, "second", device=KIND, samples=0, steps=6, **given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled_softmax, "LOGITS", 60)  # those of two rows
        train(first)
        train(second)
    assert len(losses(second.run)) == 6


def test_the_language_model_on_a_device_has_the_same_figures(elmo: ElmoNetwork) -> None:
    known = {word for sentence in SENTENCES for word in sentence if word.isprintable()}
    words = ("<S>", "</S>", "<UNK>", *sorted(known))
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(len(words), elmo.config.lstm.projection, generator=generator)
    softmax = WordSoftmax(weight, torch.zeros(len(words)), WordVocabulary(words), len(words))
    found = []
    for device in ("cpu", DEVICE):
        encoder = Encoder.of(elmo.to(device))
        layers = encoder.embed(SENTENCES)
        scorer = Scorer(encoder, softmax)
        bits = torch.cat(whole(scorer.surprisal(SENTENCES, layers)), dim=1).cpu()
        found.append((bits, whole(scorer.substitutes(layers[0], [0], 3, "both"))))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=0, atol=1e-3)
    names = [[each["word"] for each in own[1][0]] for own in found]
    assert names[0] == names[1]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_on_a_device_continues_as_if_it_had_not_been_interrupted(
    tmp_path: Path, precision: str
) -> None:
    """Sums that are in another order each time differ in their last bits."""
    whole = options(tmp_path, "whole", device=KIND, precision=precision)
    halves = [options(tmp_path, "halves", device=KIND, precision=precision, steps=6)]
    halves.append(replace(halves[0], steps=12))
    for chosen in (whole, *halves):
        train(chosen)

    assert losses(whole.run)[-1] == pytest.approx(losses(halves[1].run)[-1], rel=1e-2)
    assert all(torch.isfinite(each).all() for each in weights(whole.run).values())
