"""One fit: its head, its options, its end, its predictions."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.network.scalar_mix import mix, normalise
from elmo_model.tasks import fitter
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.features import Features
from elmo_model.tasks.fitter import FitOptions, Fitted, MixtureHead, fit_once, predicted

OPTIONS = FitOptions()


def part(
    labels: Sequence[str],
    seed: int,
    *,
    is_noise: bool = False,
    length: int = 1,
    made: type[Features] = Features,
) -> Features:
    """Return one example a label: three layers of width 4, of which layer 2 tells labels apart.

    Each sentence has `length` labels, which are spans if the first one begins with B.
    """
    source = np.random.default_rng(seed)
    vectors = source.normal(size=(len(labels), 3, 4)).astype(np.float32)
    if not is_noise:
        vectors[:, 2, 0] += [4 * (ord(label[0]) % 2) for label in labels]
    sentences = [labels[n : n + length] for n in range(0, len(labels), length)]
    examples = Examples.of_tokens(
        ((["a"] * len(each), each) for each in sentences), are_spans=labels[0][0] == "B"
    )
    return made(examples, vectors)


def fitted(train: Features, held: Features, seed: int = 0) -> Fitted:
    return fit_once(train, held, OPTIONS, "accuracy", seed)


def test_the_result_depends_on_the_seed_and_the_data_alone() -> None:
    train, held = part("ab" * 40, 0), part("ab" * 10, 1)
    one = fitted(train, held, seed=3)
    torch.manual_seed(99)  # of the caller: neither used nor changed
    before = torch.get_rng_state()
    two = fitted(train, held, seed=3)

    assert torch.equal(torch.get_rng_state(), before)
    assert (one.weights, one.gamma) == (two.weights, two.gamma)
    assert fitted(train, held, seed=4).weights != one.weights


class Counted(Features):
    """Features that count how often they are asked for."""

    asked = 0

    def rows(self, numbers: NDArray[np.int64] | slice) -> Tensor:
        self.asked += 1
        return super().rows(numbers)


def test_a_fit_ends_after_rounds_without_a_better_score() -> None:
    """A validation part of labels that no prediction can match never gets better."""
    held = part("cd" * 4, 1, made=Counted)
    assert isinstance(held, Counted)

    found = fitted(part("ab" * 8, 0), held)

    assert (found.rounds, held.asked) == (1, 1 + fitter.PATIENCE)
    assert found.validation.value == 0.0


def test_labels_of_spans_are_decoded_sentence_by_sentence() -> None:
    train = part(["B-x", "I-x", "O"] * 20, 0, is_noise=True, length=3)
    found = fitted(train, train)

    def labels_of(length: int) -> list[list[str]]:
        features = part(["B-x"] * 30, 2, is_noise=True, length=length)
        return predicted(found.head, found.classes, features)

    assert ["I-x"] not in labels_of(1)  # no sentence of one token can start with I-x
    (labels,) = labels_of(30)
    for before, after in pairwise(["O", *labels]):
        assert after != "I-x" or before in ("B-x", "I-x")
    assert "I-x" in labels


@pytest.mark.parametrize(
    ("name", "values"),
    [("validation", (0.0, 1.0, nan)), ("seeds", (0,)), ("dropout", (1.0, -0.1, inf))],
)
def test_options_out_of_range_are_refused(name: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(FitError, match=f"{name} is {value}, expected"):
            FitOptions(**{name: value})  # type: ignore[arg-type]


def test_numbers_that_are_not_finite_are_never_learned() -> None:
    train, held = part("ab" * 40, 0), part("ab" * 10, 1)
    train.vectors[3, 1, 2] = nan

    with pytest.raises(FitError, match="round 1"):
        fitted(train, held)


def test_a_fit_that_diverges_later_keeps_the_best_round_before() -> None:
    class Poisoned(Features):
        """Features whose vectors are NaN from the second pass on."""

        asked = 0

        def rows(self, numbers: NDArray[np.int64] | slice) -> Tensor:
            self.asked += 1
            found = super().rows(numbers)
            return found * nan if self.asked > 110 else found  # a round has 100 steps

    poisoned = part("ab" * 16, 0, made=Poisoned)
    held = part("a" * 50, 1, is_noise=True)  # NaN predicts "a"

    found = fitted(poisoned, held)

    assert found.rounds == 1
    assert np.isfinite([*found.weights, found.gamma]).all()


def test_logits_are_the_linear_map_of_the_mixture() -> None:
    head = MixtureHead(3, 4, 2, gamma=1.5)
    for parameter in (head.linear.weight, *head.mix.scalar_parameters):
        torch.nn.init.normal_(parameter)
    layers = torch.randn(3, 5, 4)

    found = head(layers)

    expected = head.linear(mix(layers, normalise(head.mix.weights.tolist()), 1.5))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
