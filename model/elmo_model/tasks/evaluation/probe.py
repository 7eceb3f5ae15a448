"""Classifiers of frozen vectors, how many labels they find, and the baseline without vectors."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.tasks.features import Features

Classifier = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""Map training vectors (N, width), their N labels, test vectors (M, width) and the number of labels
to M labels."""


def predictions(
    train: Tensor, labels: Tensor, test: Tensor, classes: int, iterations: int = 100
) -> Tensor:
    """Train on vectors (N, width) with N labels; map test vectors (M, width) to M labels.

    This is the linear probe: multinomial logistic regression. Features are scaled to mean 0 and
    variance 1 over the training tokens. The penalty is the one of scikit-learn's `C=1`: half the
    sum of squared weights, divided by N. L-BFGS starts from zero, so that no seed is needed; it
    stops after at most `iterations` steps.
    """
    mean, deviation = train.mean(dim=0), train.std(dim=0, correction=0).clamp(min=1e-6)
    inputs = (train - mean) / deviation
    weight = torch.zeros(classes, train.shape[1], requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias], max_iter=iterations, line_search_fn="strong_wolfe", history_size=10
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(functional.linear(inputs, weight, bias), labels)
        value = value + weight.square().sum() / (2 * len(inputs))
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return functional.linear((test - mean) / deviation, weight, bias).argmax(dim=1)


def nearest_centroid(train: Tensor, labels: Tensor, test: Tensor, classes: int) -> Tensor:
    """Map (M, width) to the M classes whose mean training vector has the greatest cosine."""
    sums = torch.zeros(classes, train.shape[1]).index_add(0, labels, train)
    return (functional.normalize(test, dim=1) @ functional.normalize(sums, dim=1).T).argmax(dim=1)


def right(train: Features, test: Features, layer: int, classify: Classifier) -> int:
    """Return the number of test examples whose label is found by one layer of their first row.

    A label that training lacks counts as wrong.
    """
    numbers = {label: number for number, label in enumerate(dict.fromkeys(train.examples.labels))}
    labels = torch.tensor([numbers[label] for label in train.examples.labels])
    wanted = torch.tensor([numbers.get(label, -1) for label in test.examples.labels])
    found = classify(train.layer(layer)[:, 0], labels, test.layer(layer)[:, 0], len(numbers))
    return int((found == wanted).sum())


def most_frequent(words: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """Return the most frequent label of each word, the first one of several: the baseline."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(words, labels, strict=True):
        counts[word][label] += 1
    return {word: own.most_common(1)[0][0] for word, own in counts.items()}
