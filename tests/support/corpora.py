"""Encoded text of a few sentences."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from elmo_model.training.corpus import Corpus, encode


def corpus_of(sentences: Sequence[Sequence[str]]) -> Corpus:
    """Encode sentences, none of them empty, as one shard; its files are deleted while mapped."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text("".join(f"{' '.join(words)}\n" for words in sentences), encoding="utf-8")
        return encode([text], Path(folder) / "corpus", lambda _: None)
