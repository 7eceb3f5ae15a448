"""Where ELMo goes in a tagger: nowhere, at its input, at its output, or at both."""

from pathlib import Path

import numpy as np
import torch

from benchmarks.study.results import Part
from benchmarks.study.sets import EvaluationSet
from benchmarks.study.tagger import Place
from benchmarks.study.tagger_training import Tagged, TaggerOptions, train_tagger
from elmo_model.tasks.examples import Examples
from elmo_model.tasks.features import Encode, features_of
from elmo_model.word_vectors.look_up import WordVectors

TAGGING = ("ner", "pos")
"""The sets with a label for every token and a development part."""


def read_tagged(
    chosen: EvaluationSet,
    folder: Path,
    encode: Encode,
    static: WordVectors,
    limit: int | None,
) -> dict[str, Tagged]:
    """Return the parts "train", "development" and "test" with all their vectors."""
    return {
        part: _tagged(chosen.read(folder, part, limit), encode, static)
        for part in ("train", "development", "test")
    }


def place_result(place: Place, parts: dict[str, Tagged], seed: int, options: TaggerOptions) -> Part:
    """Train one tagger; return its score on the test part and its mixtures."""
    found = train_tagger(place, parts["train"], parts["development"], parts["test"], options, seed)
    return {
        "place": place,
        "seed": seed,
        "rounds": found.rounds,
        "train_sentences": len(parts["train"].labels),
        "test_sentences": len(parts["test"].labels),
        "measure": "accuracy" if found.test.span_f1 is None else "span F1",
        "development": found.development.main,
        "score": found.test.main,
        "weights": found.weights,
        "gammas": found.gammas,
    }


def _tagged(examples: Examples, encode: Encode, static: WordVectors) -> Tagged:
    """Compute the vectors of the sentences that have an example, which has one label a token."""
    rows: dict[int, list[int]] = {}
    for row, number in enumerate(examples.groups):
        rows.setdefault(number, []).append(row)
    with features_of(encode, examples) as features:
        layers = [features.rows(np.array(own))[:, :, 0] for own in rows.values()]
    return Tagged(
        [torch.from_numpy(static.look_up(examples.sentences[number])[0]) for number in rows],
        layers,
        [[examples.labels[row] for row in own] for own in rows.values()],
    )
