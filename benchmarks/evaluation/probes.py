"""Scores of frozen layers: part-of-speech tags, senses of homographs and of ordinary words.

`senses.tsv` holds 30 English words with four sentences each, two for each of two senses. Words and
sentences were written down by ordinary English alone, before any model was scored on them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.evaluation.uses import Use, by_word, read_uses, vectors_of
from elmo_model.inference.encoder import Encoder

SENTENCES = Path(__file__).with_name("senses.tsv")

_MARGIN = 1e-4
"""Smallest difference of mean cosines that counts. The token layer sees no context: its vectors of
a word are equal but for rounding."""

Classifier = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""Map training vectors (N, width), their N labels, test vectors (M, width) and the number of labels
to M labels."""


@dataclass(frozen=True, slots=True)
class Score:
    """The accuracy of each layer in percent, the token layer first, over `items` decisions.

    `baseline` is the accuracy of `guess`, a method without vectors, on the same items. `misses`
    names the wrong items of each layer, in sets so small that they are listed.
    """

    name: str
    layers: tuple[float, ...]
    items: int
    baseline: float
    guess: str
    misses: tuple[tuple[str, ...], ...] = ()


def predictions(train: Tensor, labels: Tensor, test: Tensor, classes: int) -> Tensor:
    """Train on vectors (N, width) with N labels; map test vectors (M, width) to M labels.

    This is the linear probe: multinomial logistic regression. Features are scaled to mean 0 and
    variance 1 over the training vectors. The penalty is that of scikit-learn's `C=1`: half the sum
    of squared weights, divided by N. L-BFGS starts from zero and needs no seed; it stops after at
    most 100 steps.
    """
    mean, deviation = train.mean(dim=0), train.std(dim=0, correction=0).clamp(min=1e-6)
    inputs = (train - mean) / deviation
    weight = torch.zeros(classes, train.shape[1], requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias], max_iter=100, line_search_fn="strong_wolfe", history_size=10
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


def tagging(encoder: Encoder, train: Sequence[Use], test: Sequence[Use]) -> Score:
    """Score each layer by the tags that the linear probe gets right.

    The guess is the most frequent tag of the word in training, and of all words for a new one. A
    tag that training lacks counts as wrong.
    """
    layers = [
        _percent(right, len(test))
        for right in _right(
            vectors_of(encoder, train), train, vectors_of(encoder, test), test, predictions
        )
    ]
    usual = _most_frequent(train)
    ((common, _),) = Counter(use.label for use in train).most_common(1)
    guessed = sum(usual.get(use.word, common) == use.label for use in test)
    guess = "most frequent tag of the word"
    name = "UPOS tags, linear probe"
    return Score(name, tuple(layers), len(test), _percent(guessed, len(test)), guess)


def homographs(encoder: Encoder, train: Sequence[Use], test: Sequence[Use]) -> list[Score]:
    """Score each layer by the nearest centroid of a sense and by a linear probe for each word.

    A sense or word that training lacks counts as wrong.
    """
    methods: dict[str, Classifier] = {
        "homographs, nearest sense centroid": nearest_centroid,
        "homographs, linear probe a word": predictions,
    }
    known, asked = vectors_of(encoder, train), vectors_of(encoder, test)
    counts = {name: [0] * known.shape[1] for name in methods}
    rows = by_word(train)
    for word, chosen in by_word(test).items():
        own = rows.get(word, [])  # a classifier for each word
        for name, classify in methods.items():
            uses = [train[row] for row in own], [test[row] for row in chosen]
            found = _right(known[own], uses[0], asked[chosen], uses[1], classify)
            counts[name] = [a + b for a, b in zip(counts[name], found, strict=True)]
    usual = _most_frequent(train)
    guessed = _percent(sum(usual.get(use.word) == use.label for use in test), len(test))
    return [
        Score(
            name,
            tuple(_percent(count, len(test)) for count in found),
            len(test),
            guessed,
            "most frequent sense",
        )
        for name, found in counts.items()
    ]


def senses(encoder: Encoder) -> Score:
    """Score each layer by the words whose mean cosine within a sense is above that across senses.

    The score names the words that each layer misses. Chance is 50 %.
    """
    uses = read_uses(SENTENCES)
    rows = by_word(uses)
    misses = tuple(
        tuple(
            word
            for word, chosen in rows.items()
            if separation(layer[chosen], [uses[row].label for row in chosen]) <= _MARGIN
        )
        for layer in vectors_of(encoder, uses).unbind(dim=1)
    )
    accuracies = tuple(_percent(len(rows) - len(missed), len(rows)) for missed in misses)
    return Score("senses of ordinary words", accuracies, len(rows), 50.0, "chance", misses)


def separation(vectors: Tensor, senses: Sequence[str]) -> float:
    """Map vectors (N, width) of N uses of a word to a difference of mean cosines.

    It is the mean cosine of pairs of one sense minus that of pairs of two senses.
    """
    unit = functional.normalize(vectors.double(), dim=1)
    cosines = unit @ unit.T
    same = torch.tensor([[one == other for other in senses] for one in senses])
    pairs = torch.ones_like(same).triu(1)
    return float(cosines[same & pairs].mean() - cosines[~same & pairs].mean())


def _right(
    known: Tensor, train: Iterable[Use], asked: Tensor, test: Iterable[Use], classify: Classifier
) -> list[int]:
    """Map vectors (N, L + 1, 2P) and (M, L + 1, 2P) to the number of right labels by each layer."""
    if not len(known):
        return [0] * known.shape[1]
    given = [use.label for use in train]
    numbers = {label: number for number, label in enumerate(dict.fromkeys(given))}
    labels = torch.tensor([numbers[label] for label in given])
    wanted = torch.tensor([numbers.get(use.label, -1) for use in test])
    layers = zip(known.unbind(dim=1), asked.unbind(dim=1), strict=True)
    return [
        int((classify(one, labels, other, len(numbers)) == wanted).sum()) for one, other in layers
    ]


def _most_frequent(uses: Iterable[Use]) -> dict[str, str]:
    """Return the most frequent label of each word, the first one of several."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for use in uses:
        counts[use.word][use.label] += 1
    return {word: own.most_common(1)[0][0] for word, own in counts.items()}


def _percent(count: int, items: int) -> float:
    return 100.0 * count / items
