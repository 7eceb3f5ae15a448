"""A text becomes an index: found again by exact search, one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pytest
import torch

from elmo_model.files.locks import locked_file
from elmo_model.neighbours.indexing import index_text
from elmo_model.neighbours.store import open_index
from elmo_model.neighbours.text import IndexFolderError, TextParts
from elmo_model.text.tokenizers import tokenizer
from tests.support.neighbours import made_up, manifest_of


class MadeUp:
    """A network whose vectors depend on the sentence alone."""

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        return [
            torch.from_numpy(made_up([sentence], seed=sum(map(len, sentence)))[0])
            for sentence in sentences
        ]


def write(path: Path, sentences: int) -> Path:
    source = random.Random(0)
    words = [f"word{'x' * number}" for number in range(40)]
    path.write_text("".join(" ".join(source.choices(words, k=20)) + "\n" for _ in range(sentences)))
    return path


def test_the_nearest_of_a_text_are_found(tmp_path: Path) -> None:
    text = write(tmp_path / "made up", 40)
    parts = TextParts(text, tokenizer("whitespace"), 1_000_000)
    seen: list[tuple[int, int]] = []

    def on_step(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
        if name == "Indexing":
            seen.append((done, total))

    index_text(MadeUp(), parts, tmp_path / "index", manifest_of(), 4_000, on_step)

    found = open_index(tmp_path / "index")
    assert seen[-1] == (found.info.tokens, found.info.tokens)
    query = made_up([["word"]], seed=99)[0][:, 0]
    tokens = np.arange(found.info.tokens)
    for shares in [(0, 1, 0), (0, 0, 1), (1 / 3, 1 / 3, 1 / 3)]:
        exact = np.unique(found.cosines(tokens, query, shares))[::-1][:10]
        uses = found.uses(query, shares, 100)
        cosines = np.unique([use.cosine for use in uses])[::-1]
        near = np.abs(exact[:, np.newaxis] - cosines).min(axis=1)
        assert (near < 1e-6).all()


def test_only_one_process_writes(tmp_path: Path) -> None:
    text = write(tmp_path / "made up", 3)
    parts = TextParts(text, tokenizer("whitespace"), 1_000)
    (tmp_path / "index").mkdir()

    with (
        locked_file(tmp_path / "index" / ".lock"),
        pytest.raises(IndexFolderError, match="another process writes"),
    ):
        index_text(MadeUp(), parts, tmp_path / "index", manifest_of(), 100)
    index_text(MadeUp(), parts, tmp_path / "index", manifest_of(), 100)


def test_a_file_system_that_locks_no_folders_takes_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS, which locks for a writer only what is open for writing."""
    flock = fcntl.flock

    def of_nfs(file: int | IO[bytes], operation: int) -> None:
        number = file if isinstance(file, int) else file.fileno()
        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    parts = TextParts(write(tmp_path / "made up", 3), tokenizer("whitespace"), 1_000)

    index_text(MadeUp(), parts, tmp_path / "index", manifest_of(), 100)

    assert open_index(tmp_path / "index").info.tokens
