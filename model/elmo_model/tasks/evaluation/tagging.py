"""Part-of-speech tagging: a linear probe on each layer, trained and tested on CoNLL-U files."""

from collections import Counter
from itertools import islice
from pathlib import Path

from elmo_model.tasks.evaluation.probe import most_frequent, predictions, right
from elmo_model.tasks.evaluation.score import EvaluationError, Score, percent
from elmo_model.tasks.examples import Examples
from elmo_model.tasks.features import FeaturesOf
from elmo_model.tasks.readers import read_conllu


def tagging(
    features_of: FeaturesOf, train: Path, test: Path, column: str, limit: int | None
) -> Score:
    """Score each layer by the tags that the probe gets right.

    `column` is upos or xpos, `limit` keeps the first sentences of both files. A tag that training
    lacks counts as wrong. Raises EvaluationError for a file without words, and what `read_conllu`
    raises.
    """
    training, testing = (
        Examples.of_tokens(islice(read_conllu(path, column), limit)) for path in (train, test)
    )
    for path, examples in ((train, training), (test, testing)):
        if not len(examples):
            raise EvaluationError(f"{path}: holds no tagged sentence")
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
