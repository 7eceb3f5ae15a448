"""Probes of frozen layers: classifiers, and part-of-speech tagging on CoNLL-U files."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.tasks.evaluate import Score, percent
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.features import Features, FeaturesOf
from elmo_model.tasks.readers import read_conllu

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


def tagging(
    features_of: FeaturesOf, train: Path, test: Path, column: str, limit: int | None
) -> Score:
    """Score each layer by the tags that the probe gets right.

    `column` is upos or xpos, `limit` keeps the first sentences of both files. A tag that training
    lacks counts as wrong. Raises FitError for a file without words, and what `read_conllu`
    raises.
    """
    training, testing = (
        Examples.of_tokens(islice(read_conllu(path, column), limit)) for path in (train, test)
    )
    for path, examples in ((train, training), (test, testing)):
        if not len(examples):
            raise FitError(f"{path}: holds no tagged sentence")
    with features_of(training) as known, features_of(testing) as asked:
        layers = tuple(
            percent(right(known, asked, layer, predictions), len(testing))
            for layer in range(known.layers)
        )
    name, guess = f"{column.upper()} tags, linear probe", "most frequent tag of the word"
    return Score(name, layers, len(testing), _baseline(training, testing), guess)


def _baseline(training: Examples, testing: Examples) -> float:
    """Return the accuracy, in percent, of the most frequent tag of each word."""
    usual = most_frequent(_words(training), training.labels)
    ((common, _),) = Counter(training.labels).most_common(1)
    pairs = zip(_words(testing), testing.labels, strict=True)
    return percent(sum(usual.get(word, common) == tag for word, tag in pairs), len(testing))


def _words(examples: Examples) -> list[str]:
    return [word for sentence in examples.sentences for word in sentence]
