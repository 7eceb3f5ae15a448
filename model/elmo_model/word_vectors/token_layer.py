"""The context-free token layer of a checkpoint, written as word vectors."""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo_model.files.atomic import write_bytes
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.steps import OnStep, ignore
from elmo_model.text.alphabets import WordVocabulary
from elmo_model.text.alphabets.vocabulary import BEGIN, END, UNKNOWN
from elmo_model.text.files import lines_of
from elmo_model.word_vectors.formats import WordVectorsError, tensors_of

_BATCH = 1_024
"""Words that are computed at once: more take more memory and are hardly faster."""

_MARKS = {BEGIN, END, UNKNOWN}


def write_token_layer(
    model: str,
    out: Path,
    words: int | None = None,
    text: Sequence[Path] = (),
    vocabulary: Path | None = None,
    on_step: OnStep = ignore,
) -> str:
    """Write the vectors of the most frequent `words`, or of all; return one line that says so.

    They are those of `text`, of `vocabulary`, or of the model. The format is by the name of `out`:
    safetensors for `.safetensors`, else word2vec's text, packed for `.gz`. Raises WordVectorsError
    where there are no words, CheckpointError and TextError.
    """
    on_step(f"Reading {model}")
    elmo = open_model(model)
    on_step("Counting words")
    chosen = most_frequent(_words(text, vocabulary, elmo), words)
    if not chosen:
        raise WordVectorsError("there are no words; --text or --vocabulary names files of them")
    on_step(f"Vectors of {len(chosen):,} words")
    vectors = token_vectors(elmo, chosen)
    write_bytes(out, _content(out, chosen, vectors))
    return f"Wrote {out}: {len(chosen):,} words of width {vectors.shape[1]}"


def token_vectors(elmo: ElmoNetwork, words: Sequence[str]) -> NDArray[np.float32]:
    """Map N words to (N, P): either half of layer 0, which is this vector twice."""
    with torch.inference_mode():
        parts = [
            elmo.token_embedder(words[start : start + _BATCH]).float().cpu()
            for start in range(0, len(words), _BATCH)
        ]
    found: NDArray[np.float32] = torch.cat(parts).numpy()
    return found


def most_frequent(words: Iterable[str], count: int | None) -> list[str]:
    """Return the first `count` words, or all, without marks and words that no line can hold."""
    kept = (word for word in words if word not in _MARKS and word and not set(word) & set(" \n\r"))
    return list(islice(dict.fromkeys(kept), count))


def _words(text: Sequence[Path], vocabulary: Path | None, elmo: ElmoNetwork) -> Iterator[str]:
    """Yield words, the most frequent first; ties go by spelling."""
    if text:
        counts: Counter[str] = Counter()
        for path in text:
            for line in lines_of(path):
                counts.update(line.split())
        yield from (
            word for word, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        )
    elif vocabulary is not None:
        yield from lines_of(vocabulary)
    elif isinstance(elmo.alphabet, WordVocabulary):
        yield from elmo.alphabet.words


def _content(path: Path, words: Sequence[str], vectors: NDArray[np.float32]) -> bytes:
    if path.suffix == ".safetensors":
        return tensors_of([word.encode("utf-8", "surrogatepass") for word in words], vectors)
    lines = [f"{len(words)} {vectors.shape[1]}"]
    # The shortest digits that read back as the same float32.
    lines += [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, vectors, strict=True)]
    text = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    return gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
