"""The CRF equals the enumeration of all label sequences."""

from collections.abc import Iterator
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from benchmarks.study.crf import Crf

CLASSES = ("a", "b", "c")
BIO = ("B-x", "I-x", "O")
LENGTHS = torch.tensor([4, 1, 3])


def made(classes: tuple[str, ...], seed: int = 0) -> tuple[Crf, Tensor]:
    """Return a CRF of random scores, and emissions (3, 4, C) of sentences of LENGTHS tokens."""
    torch.manual_seed(seed)
    crf = Crf(classes).double()
    with torch.no_grad():
        for each in crf.parameters():
            each.normal_()
    return crf, torch.randn(3, 4, len(classes), dtype=torch.float64)


def paths(crf: Crf, emissions: Tensor, length: int) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """Yield every label sequence of one sentence with its score."""
    for labels in product(range(emissions.shape[1]), repeat=length):
        total = crf.start[labels[0]] + crf.end[labels[-1]]
        for place, label in enumerate(labels):
            total = total + emissions[place, label]
        for before, after in pairwise(labels):
            total = total + crf.transitions[before, after]
        yield labels, total


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_that_of_all_sequences_and_so_are_its_gradients(seed: int) -> None:
    crf, emissions = made(CLASSES, seed)
    emissions.requires_grad_()
    labels = torch.randint(3, (3, 4))
    every = []
    for row, length in enumerate(LENGTHS.tolist()):
        scores = dict(paths(crf, emissions[row], length))
        wanted = tuple(labels[row, :length].tolist())
        every.append(torch.stack([*scores.values()]).logsumexp(0) - scores[wanted])
    expected = torch.stack(every).mean()

    found = crf.loss(emissions, labels, LENGTHS)

    torch.testing.assert_close(found, expected)
    wanted_gradients = torch.autograd.grad(expected, [emissions, *crf.parameters()])
    gradients = torch.autograd.grad(found, [emissions, *crf.parameters()])
    for one, two in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [CLASSES, BIO])
def test_the_best_sequence_is_the_best_of_all_legal_ones(
    seed: int, classes: tuple[str, ...]
) -> None:
    crf, emissions = made(classes, seed)
    expected = []
    for row, length in enumerate(LENGTHS.tolist()):
        legal = {
            labels: score
            for labels, score in paths(crf, emissions[row], length)
            if classes is CLASSES or is_legal([classes[label] for label in labels])
        }
        expected.append(list(max(legal.items(), key=lambda pair: pair[1].item())[0]))

    assert crf.best(emissions, LENGTHS) == expected


def is_legal(labels: list[str]) -> bool:
    return not any(
        after == "I-x" and before == "O"
        for before, after in zip(["O", *labels], labels, strict=False)
    )
