"""Word senses: one spelling, several senses, from tab-separated tables."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.elmo import Elmo
from elmo_model.evaluation.features import vectors_of
from elmo_model.evaluation.probe import predictions
from elmo_model.evaluation.score import EvaluationError, Score, percent
from elmo_model.evaluation.tables import place, read_columns

_COLUMNS = ("word", "sense", "token_index", "sentence")

Classifier = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""Map training vectors (N, width), their N senses, test vectors (M, width) and the number of senses
to M senses."""


@dataclass(frozen=True, slots=True)
class Use:
    """A word at a place in a sentence, counted from 0, and its sense there."""

    word: str
    sense: str
    place: int
    sentence: tuple[str, ...]


def homographs(elmo: Elmo, train: Path, test: Path, limit: int | None) -> list[Score]:
    """Score each layer by the nearest centroid of a sense and by a linear probe for each word.

    A sense or word that training lacks counts as wrong. `limit` keeps the first uses of each word.
    Raises EvaluationError as `read_uses` does.
    """
    training, testing = _kept(read_uses(train), limit), _kept(read_uses(test), limit)
    if not training or not testing:
        raise EvaluationError(f"{train} or {test}: holds no use of a word")
    vectors = [
        vectors_of(elmo, [use.sentence for use in uses], [[use.place] for use in uses])
        for uses in (training, testing)
    ]
    baseline, guess = _most_frequent(training, testing), "most frequent sense"
    methods: dict[str, Classifier] = {
        "homographs, nearest sense centroid": nearest_centroid,
        "homographs, linear probe a word": predictions,
    }
    scores = []
    for name, classify in methods.items():
        right = [
            _right(training, testing, vectors[0][layer], vectors[1][layer], classify)
            for layer in range(elmo.layers)
        ]
        layers = tuple(percent(count, len(testing)) for count in right)
        scores.append(Score(name, layers, len(testing), baseline, guess))
    return scores


def read_uses(path: Path) -> list[Use]:
    """Read a table of uses. Raises EvaluationError for a missing column or a wrong line."""
    uses = []
    for word, sense, index, text in read_columns(path, _COLUMNS):
        sentence = tuple(text.split())
        uses.append(Use(word, sense, place(path, index, sentence), sentence))
    return uses


def nearest_centroid(train: Tensor, labels: Tensor, test: Tensor, classes: int) -> Tensor:
    """Map (M, width) to the M classes whose mean training vector has the greatest cosine."""
    sums = torch.zeros(classes, train.shape[1]).index_add(0, labels, train)
    return (functional.normalize(test, dim=1) @ functional.normalize(sums, dim=1).T).argmax(dim=1)


def _kept(uses: Sequence[Use], limit: int | None) -> list[Use]:
    """Return the first `limit` uses of each word."""
    by_word = _by_word(uses)
    return [uses[row] for rows in by_word.values() for row in islice(rows, limit)]


def _by_word(uses: Sequence[Use]) -> dict[str, list[int]]:
    """Return the rows of each word."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, use in enumerate(uses):
        rows[use.word].append(row)
    return rows


def _right(
    training: Sequence[Use],
    testing: Sequence[Use],
    train: Tensor,
    test: Tensor,
    classify: Classifier,
) -> int:
    """Return the number of uses that get their sense; each word has a classifier of its own."""
    known, right = _by_word(training), 0
    for word, rows in _by_word(testing).items():
        if word not in known:
            continue
        senses: dict[str, int] = {}
        labels = [senses.setdefault(training[row].sense, len(senses)) for row in known[word]]
        wanted = torch.tensor([senses.get(testing[row].sense, -1) for row in rows])
        found = classify(train[known[word]], torch.tensor(labels), test[rows], len(senses))
        right += int((found == wanted).sum())
    return right


def _most_frequent(training: Sequence[Use], testing: Sequence[Use]) -> float:
    """Return the accuracy, in percent, of the most frequent training sense of each word."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for use in training:
        counts[use.word][use.sense] += 1
    right = sum(
        use.word in counts and counts[use.word].most_common(1)[0][0] == use.sense for use in testing
    )
    return percent(right, len(testing))
