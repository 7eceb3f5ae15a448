"""One fit: its head, its options, its end, its predictions."""

from collections.abc import Sequence
from math import inf, nan

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.network.scalar_mix import mix, normalise
from elmo_model.tasks.examples import Examples, FitError, Place
from elmo_model.tasks.features import Features
from elmo_model.tasks.fitter import FitOptions, MixtureHead, fit_once, joined
from tests.support.made_up_vectors import learned, tagged

OPTIONS = FitOptions(rounds=2, batch=32)


def part(
    labels: Sequence[str],
    seed: int,
    *,
    is_noise: bool = False,
    is_joined: bool = False,
    made: type[Features] = Features,
) -> Features:
    """Return one example a label: three layers of width 4, of which layer 2 tells labels apart.

    Each is a sentence of its own, or all are one sentence if `is_joined`.
    """
    source = np.random.default_rng(seed)
    vectors = source.normal(size=(len(labels), 3, 4)).astype(np.float32)
    if not is_noise:
        vectors[:, 2, 0] += [4 * (ord(label[0]) % 2) for label in labels]
    places = [(Place(0, n) if is_joined else Place(n, 0),) for n in range(len(labels))]
    examples = Examples("token", (), tuple(places), tuple(labels))
    return made(examples, vectors, np.arange(len(labels))[:, None])


def test_the_result_depends_on_the_seed_and_the_data_alone() -> None:
    train, held = part("ab" * 40, 0), part("ab" * 10, 1)
    one = fit_once(train, held, OPTIONS, seed=3)
    torch.manual_seed(99)  # of the caller: neither used nor changed
    before = torch.get_rng_state()
    two = fit_once(train, held, OPTIONS, seed=3)

    assert torch.equal(torch.get_rng_state(), before)
    assert (one.weights, one.gamma) == (two.weights, two.gamma)
    assert fit_once(train, held, OPTIONS, seed=4).weights != one.weights


class Counted(Features):
    """Features that end the test when they are asked for too often."""

    asked = 0

    def rows(self, numbers: NDArray[np.int64] | slice) -> Tensor:
        self.asked += 1
        assert self.asked <= 3, "the fit goes on without a better score"
        return super().rows(numbers)


def test_a_fit_ends_after_rounds_without_a_better_score() -> None:
    """A validation part of labels that no prediction can match never gets better."""
    options = FitOptions(rounds=10_000, patience=2, batch=32)
    held = part("cd" * 4, 1, made=Counted)
    assert isinstance(held, Counted)

    found = fit_once(part("ab" * 8, 0), held, options, seed=0)

    assert (found.rounds, held.asked) == (1, 3)
    assert found.validation.accuracy == 0.0


def test_bio_labels_are_decoded_sentence_by_sentence() -> None:
    train = part(["O", "B-x", "I-x"] * 20, 0, is_noise=True)
    found = fit_once(train, train, OPTIONS, seed=0)
    apart = part(["O"] * 30, 2, is_noise=True)
    joined = part(["O"] * 30, 2, is_noise=True, is_joined=True)

    assert "I-x" not in found.predict(apart)  # no sentence of one token can start with I-x
    labels = found.predict(joined)
    for before, after in zip(["O", *labels], labels, strict=False):
        assert after != "I-x" or before in ("B-x", "I-x")
    assert "I-x" in labels


def test_the_strongest_penalty_keeps_the_average() -> None:
    options = FitOptions(seeds=1, rounds=2, l2_weights=1e4)

    weights = normalise(learned(tagged(60, 0), options).weights)

    assert weights.tolist() == pytest.approx((1 / 3,) * 3, abs=0.01)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("validation", (0.0, 1.0, nan)),
        *((name, (0,)) for name in ("seeds", "rounds", "patience", "batch")),
        ("dropout", (1.0,)),
        ("l2_weights", (-1.0, nan, inf)),
        ("learning_rate", (0.0, inf)),
        ("decay", (0.0, 1.5)),
    ],
)
def test_options_out_of_range_are_refused(name: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(FitError, match=f"{name} is {value}, expected"):
            FitOptions(**{name: value})  # type: ignore[arg-type]


def test_numbers_that_are_not_finite_are_never_learned() -> None:
    train, held = part("ab" * 40, 0), part("ab" * 10, 1)
    train.vectors[3, 1, 2] = nan

    with pytest.raises(FitError, match="the fit learned numbers that are not finite in round 1"):
        fit_once(train, held, OPTIONS, seed=0)


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

    found = fit_once(poisoned, held, OPTIONS, seed=0)

    assert found.rounds == 1
    assert np.isfinite([*found.weights, found.gamma]).all()


def test_a_pair_becomes_both_vectors_their_distance_and_their_product() -> None:
    u, v = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 5.0])

    (found,) = joined(torch.stack((u, v))[None])

    assert found.tolist() == [1, -2, 3, 5, 2, 7, 3, -10]
    assert MixtureHead(3, 4, 2, places=2)(torch.randn(3, 5, 2, 4)).shape == (5, 2)


def test_logits_are_the_linear_map_of_the_mixture() -> None:
    head = MixtureHead(3, 4, 2, gamma=1.5)
    for parameter in (head.linear.weight, *head.mix.scalar_parameters):
        torch.nn.init.normal_(parameter)
    layers = torch.randn(3, 5, 1, 4)

    found = head(layers)

    weights = normalise(head.mix.weights.tolist())
    mixed = torch.stack([mix(layers[:, row], weights, 1.5)[0] for row in range(5)])
    torch.testing.assert_close(found, head.linear(mixed), rtol=0, atol=1e-5)
    assert MixtureHead(3, 4, 2, places=2).linear.in_features == 4 * 4
