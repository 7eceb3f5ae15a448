"""Word senses: one spelling, several senses, from tables."""

from itertools import islice
from pathlib import Path

from benchmarks.evaluation.probe import (
    Classifier,
    most_frequent,
    nearest_centroid,
    predictions,
    right,
)
from elmo_model.tasks.evaluate import Score, Uses, percent, read_uses, rows_of
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import FeaturesOf

_METHODS: dict[str, Classifier] = {
    "homographs, nearest sense centroid": nearest_centroid,
    "homographs, linear probe a word": predictions,
}


def homographs(features_of: FeaturesOf, train: Path, test: Path, limit: int | None) -> list[Score]:
    """Score each layer by the nearest centroid of a sense and by a linear probe for each word.

    A sense or word that training lacks counts as wrong. `limit` keeps the first uses of each word.
    Raises FitError for a table without uses, and what `read_uses` raises.
    """
    (training, known), (testing, words) = (_read(path, limit) for path in (train, test))
    usual = most_frequent(known, training.labels)
    pairs = zip(words, testing.labels, strict=True)
    baseline = percent(sum(usual.get(word) == sense for word, sense in pairs), len(testing))
    with features_of(training) as own, features_of(testing) as asked:
        counts = {name: [0] * own.layers for name in _METHODS}
        rows = rows_of(known)
        for word, chosen in rows_of(words).items():
            if word not in rows:
                continue
            one, other = own.take(rows[word]), asked.take(chosen)  # a classifier for each word
            for name, classify in _METHODS.items():
                for layer in range(own.layers):
                    counts[name][layer] += right(one, other, layer, classify)
    return [
        Score(
            name,
            tuple(percent(count, len(testing)) for count in found),
            len(testing),
            baseline,
            "most frequent sense",
        )
        for name, found in counts.items()
    ]


def _read(path: Path, limit: int | None) -> Uses:
    """Return the first `limit` uses of each word."""
    examples, words = read_uses(path)
    if not words:
        raise FitError(f"{path}: holds no use of a word")
    kept = [row for rows in rows_of(words).values() for row in islice(rows, limit)]
    return examples.take(kept), [words[row] for row in kept]
