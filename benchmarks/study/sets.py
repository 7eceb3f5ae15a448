"""The public data of the study, read from a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_model.tasks.examples import Examples, Kind
from elmo_model.tasks.readers import read_examples
from elmo_model.text.tokenizers import tokenizer

TOKENIZER = "ptb"
"""Tokenizer of raw text: that of the default model's corpus."""


class StudyError(ValueError):
    """The study cannot be made; the message names the file or the option."""


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A labelled set: the kind of its examples, its label column, and its files in the folder."""

    name: str
    kind: Kind
    label: str
    train: str
    test: str
    development: str | None = None

    def read(self, folder: Path, part: str, limit: int | None, seed: int = 0) -> Examples:
        """Read "train", "test" or "development"; of more than `limit` sentences draw that many.

        The draw depends on the seed alone. Raises StudyError for a missing file, FitError and
        TextError for a damaged one.
        """
        path = folder / str(getattr(self, part))
        if not path.exists():
            raise StudyError(f"{path}: is missing; docs/training.md lists the files of the folder")
        examples = read_examples(path, self.kind, self.label, tokenizer(TOKENIZER))
        groups = examples.groups
        distinct = sorted(set(groups))
        if limit is None or len(distinct) <= limit:
            return examples
        chosen = np.random.default_rng(seed).permutation(len(distinct))[:limit]
        kept = {distinct[number] for number in chosen}
        return examples.take([n for n, group in enumerate(groups) if group in kept])


SETS = (
    EvaluationSet(
        *("pos", "token", "upos", "pos/ewt/train.conllu.xz", "pos/ewt/test.conllu"),
        "pos/ewt/dev.conllu",
    ),
    EvaluationSet(
        *("ner", "token", "label", "ner/wnut17/train.tsv", "ner/wnut17/test.tsv"),
        "ner/wnut17/dev.tsv",
    ),
    EvaluationSet(
        *("sense", "token", "sense", "wsd/homographs/train.tsv", "wsd/homographs/eval.tsv"),
    ),
    EvaluationSet(
        *("sentiment", "sentence", "label"),
        *("cls/uci_sentiment/train.tsv", "cls/uci_sentiment/test.tsv"),
    ),
    EvaluationSet("intent", "sentence", "label", "cls/snips/train.tsv", "cls/snips/test.tsv"),
)


def evaluation_sets(names: Sequence[str] | None = None) -> list[EvaluationSet]:
    """Return all sets, or those of some names. Raises StudyError for an unknown name."""
    known = {each.name: each for each in SETS}
    if unknown := [name for name in names or () if name not in known]:
        raise StudyError(f"there is no task {unknown[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names or known]
