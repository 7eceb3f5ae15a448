"""Parity with bilm-tf's graph: batches, losses, gradients, weights and state."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from elmo_model.training.language_model import LanguageModel
from elmo_model.training.optimiser import optimiser_for
from elmo_model.training.options import REFERENCE, Options
from elmo_model.training.row_stream import RowStream
from elmo_model.training.sampled_softmax import sampled_loss
from tests.support import training as golden
from tests.support.training import corpus_of

OPTIONS = Options(Path(), (), **{**REFERENCE, "clip_norm": 1.0, "unroll": golden.STEPS})
CPU = torch.device("cpu")


@pytest.mark.parametrize("backward", [False, True])
def test_batches_are_those_of_bilm_tf(backward: bool) -> None:
    stored, vocabulary = golden.arrays("char/batches"), golden.vocabulary()
    corpus = corpus_of(golden.sentences("train.txt"))
    numbers = vocabulary.word_ids(corpus.words)
    stream = RowStream(corpus, golden.ROWS, golden.STEPS, backward=backward, seed=None)
    side = "_reverse" if backward else ""
    for number in range(6):
        rows = stream.next_batch()
        assert rows is not None
        np.testing.assert_array_equal(numbers[rows.inputs], stored[f"{number}/token_ids{side}"])
        np.testing.assert_array_equal(
            numbers[rows.targets], stored[f"{number}/next_token_id{side}"]
        )


def test_six_steps_are_those_of_bilm_tf(tmp_path: Path) -> None:
    model = golden.first_model(tmp_path)
    optimiser = optimiser_for(model, OPTIONS)
    state = model.zero_state(golden.ROWS)

    for number, expected in enumerate(golden.log()["steps"]):
        losses, state = model(golden.batch(number), state)
        optimiser.zero_grad()
        (losses.mean() * OPTIONS.unroll).backward()
        norm = clip_grad_norm_(model.parameters(), OPTIONS.clip_norm)
        optimiser.step()
        forward, backward = losses.tolist()
        assert forward == pytest.approx(expected["forward"], abs=1e-5)
        assert backward == pytest.approx(expected["backward"], abs=1e-5)
        assert losses.mean().item() == pytest.approx(expected["total_loss"], abs=1e-5)
        assert norm.item() == pytest.approx(expected["global_norm_before_clip"], abs=2e-5)

    (adagrad,) = optimiser.parts
    sums = {name: adagrad.state[parameter]["sum"] for name, parameter in model.named_parameters()}
    assert_numbers_are("weights_after6", model.state_dict(), model, tmp_path / "weights")
    assert_numbers_are("adagrad_after6", sums, model, tmp_path / "sums")
    stored = golden.arrays("char/state_after6")
    for part, values in (("h", state.h), ("c", state.c)):
        for direction, half in enumerate(values.chunk(2, dim=2)):
            for layer, rows in enumerate(half):
                expected_rows = stored[f"{direction}_layer{layer}_{part}"]
                np.testing.assert_allclose(rows, expected_rows, rtol=0, atol=1e-5)


def test_the_sampled_softmax_is_that_of_tensorflow() -> None:
    stored = golden.arrays("sampled_softmax")
    numbers = {name: torch.from_numpy(value) for name, value in stored.items()}
    losses = sampled_loss(
        numbers["inputs"],
        numbers["labels"].squeeze(1),
        numbers["W"],
        numbers["b"],
        numbers["sampled"],
        numbers["true_expected_count"].squeeze(1),
        numbers["sampled_expected_count"],
    )
    np.testing.assert_allclose(losses, stored["losses"], rtol=0, atol=1e-5)


def assert_numbers_are(
    name: str,
    numbers: dict[str, torch.Tensor],
    model: LanguageModel,
    scratch: Path,
) -> None:
    stored = golden.arrays(f"char/{name}")
    elmo = golden.with_numbers(
        model.elmo,
        {key[5:]: value for key, value in numbers.items() if key.startswith("elmo.")},
    )
    found = golden.published(elmo, scratch)
    found["lm/softmax/W"] = numbers["softmax.weight"].numpy()
    found["lm/softmax/b"] = numbers["softmax.bias"].numpy()
    assert found.keys() == stored.keys()
    for key, value in stored.items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-5, err_msg=key)
