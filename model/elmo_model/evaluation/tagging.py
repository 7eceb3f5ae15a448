"""Part-of-speech tagging: a linear probe on each layer, trained and tested on CoNLL-U files."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from elmo_model import conllu
from elmo_model.elmo import Elmo
from elmo_model.evaluation.features import vectors_of
from elmo_model.evaluation.probe import predictions
from elmo_model.evaluation.score import EvaluationError, Score, percent
from elmo_model.text_files import open_text

_COLUMNS = {"upos": conllu.UPOS, "xpos": conllu.XPOS}

Tagged = tuple[list[str], list[str]]
"""The words of a sentence, and their tags."""


def tagging(elmo: Elmo, train: Path, test: Path, column: str, limit: int | None) -> Score:
    """Score each layer by the tags that the probe gets right.

    `limit` keeps the first sentences of both files. A tag that training lacks counts as wrong.
    Raises EvaluationError and TextError as `read_tagged` does.
    """
    training = list(islice(read_tagged(train, column), limit))
    testing = list(islice(read_tagged(test, column), limit))
    numbers: dict[str, int] = {}  # of each tag in the training data
    labels = torch.tensor(
        [numbers.setdefault(t, len(numbers)) for _, tags in training for t in tags]
    )
    wanted = torch.tensor([numbers.get(tag, -1) for _, tags in testing for tag in tags])
    train_vectors, test_vectors = _vectors(elmo, training), _vectors(elmo, testing)
    layers = []
    for layer in range(elmo.layers):
        found = predictions(train_vectors[layer], labels, test_vectors[layer], len(numbers))
        layers.append(percent(int((found == wanted).sum()), len(wanted)))
    name = f"{column.upper()} tags, linear probe"
    guess = "most frequent tag of the word"
    return Score(name, tuple(layers), len(wanted), _baseline(training, testing), guess)


def read_tagged(path: Path, column: str) -> Iterator[Tagged]:
    """Yield the words and tags of each sentence in a CoNLL-U file; `column` is upos or xpos.

    Raises EvaluationError for a line that is no word, TextError for a file that is no text.
    """
    with open_text(path) as lines:
        try:
            for words in conllu.read(lines):
                if words:
                    forms = [word[conllu.FORM] for word in words]
                    yield forms, [word[_COLUMNS[column]] for word in words]
        except conllu.ConlluError as error:
            raise EvaluationError(f"{path}: {error}") from error


def _vectors(elmo: Elmo, tagged: list[Tagged]) -> torch.Tensor:
    """Return the vectors of all words, (L + 1, N, 2P)."""
    if not tagged:
        raise EvaluationError("there is no tagged sentence")
    return vectors_of(elmo, [w for w, _ in tagged], [range(len(w)) for w, _ in tagged])


def _baseline(training: list[Tagged], testing: list[Tagged]) -> float:
    """Return the accuracy, in percent, of the most frequent tag of each word."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    every: Counter[str] = Counter()
    for words, tags in training:
        every.update(tags)
        for word, tag in zip(words, tags, strict=True):
            counts[word][tag] += 1
    right = items = 0
    for words, tags in testing:
        for word, tag in zip(words, tags, strict=True):
            items += 1
            right += tag == (counts.get(word) or every).most_common(1)[0][0]
    return percent(right, items)
