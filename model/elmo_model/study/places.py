"""Where ELMo goes in a tagger: nowhere, at its input, at its output, or at both."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from elmo_model.fitting.examples import Examples
from elmo_model.fitting.features import Encode
from elmo_model.sentence_batches import by_length
from elmo_model.study.evaluation_sets import EvaluationSet
from elmo_model.study.results import Part
from elmo_model.study.tagger import Place
from elmo_model.study.tagger_training import Tagged, TaggerOptions, train_tagger
from elmo_model.word_vectors.word_vectors import WordVectors

_BATCH_TOKENS = 2_048

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
    labels: dict[int, list[str]] = {}
    for (place,), label in zip(examples.places, examples.labels, strict=True):
        labels.setdefault(place.sentence, []).append(label)
    numbers = list(labels)
    sentences = [examples.sentences[number] for number in numbers]
    return Tagged(
        [torch.from_numpy(static.look_up(sentence)[0]) for sentence in sentences],
        _layers(sentences, encode),
        [labels[number] for number in numbers],
    )


def _layers(sentences: Sequence[Sequence[str]], encode: Encode) -> list[Tensor]:
    """Map sentences of n tokens to their layers (L + 1, n, 2P), without boundaries."""
    found: list[Tensor] = [torch.empty(0)] * len(sentences)
    for batch in by_length(range(len(sentences)), sentences, _BATCH_TOKENS):
        for number, layers in zip(batch, encode([sentences[n] for n in batch]), strict=True):
            found[number] = layers[:, 1:-1].float().clone()
    return found
