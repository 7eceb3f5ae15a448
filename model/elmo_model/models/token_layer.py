"""The context-free token layer of a model, as static word vectors."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch

from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.steps import OnStep, ignore
from elmo_model.text.alphabets import WordVocabulary
from elmo_model.text.alphabets.vocabulary import BEGIN, END, UNKNOWN
from elmo_model.text.files import lines_of
from elmo_model.word_vectors import Words

_BATCH = 1_024
"""Words that are computed at once: more take more memory and are hardly faster."""

_MARKS = {BEGIN, END, UNKNOWN}


def read_token_layer(
    model: str,
    words: int | None = None,
    text: Sequence[Path] = (),
    vocabulary: Path | None = None,
    on_step: OnStep = ignore,
) -> Words:
    """Yield the most frequent `words`, or all, each with its vector (P,).

    They are the words of `text`, of `vocabulary`, or of the model where it has whole words. Raises
    CheckpointError and TextError.
    """
    on_step(f"Reading {model}")
    elmo = open_model(model)
    on_step("Counting words")
    kept = (word for word in _words(text, vocabulary, elmo) if word and word not in _MARKS)
    chosen = list(islice(dict.fromkeys(kept), words))
    on_step(f"Vectors of {len(chosen):,} words")
    for start in range(0, len(chosen), _BATCH):
        batch = chosen[start : start + _BATCH]
        with torch.inference_mode():  # either half of layer 0, which is this vector twice
            vectors = elmo.token_embedder(batch).float().cpu().numpy()
        encoded = [word.encode("utf-8", "surrogatepass") for word in batch]
        yield from zip(encoded, vectors, strict=True)


def _words(text: Sequence[Path], vocabulary: Path | None, elmo: ElmoNetwork) -> Iterator[str]:
    """Yield words, the most frequent first; ties go by spelling."""
    if text:
        counts = Counter(word for path in text for line in lines_of(path) for word in line.split())
        yield from sorted(counts, key=lambda word: (-counts[word], word))
    elif vocabulary is not None:
        yield from lines_of(vocabulary)
    elif isinstance(elmo.alphabet, WordVocabulary):
        yield from elmo.alphabet.words
