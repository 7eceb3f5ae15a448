"""A text becomes an index: graphs where it is large, one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pytest
import torch

from elmo_model.files.locks import locked_file
from elmo_model.neighbours import store
from elmo_model.neighbours.indexing import index_text
from elmo_model.neighbours.search import GraphSearch
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


def test_a_large_part_has_graphs_that_find_the_nearest(tmp_path: Path) -> None:
    text = write(tmp_path / "made up", 40)
    parts = TextParts(text, tokenizer("whitespace"), 1_000_000)
    seen: list[tuple[int, int]] = []

    def on_step(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
        if name == "Indexing":
            seen.append((done, total))

    index_text(
        *(MadeUp(), parts, tmp_path / "index", manifest_of(), 4_000), on_step, graph_from=500
    )

    found = open_index(tmp_path / "index")
    (part,) = found.parts
    assert {type(search) for search in part.searches.values()} == {GraphSearch}
    assert seen[-1] == (found.info.tokens, found.info.tokens)
    assert not (tmp_path / "index" / "part-00000" / "average.npy").exists()
    query = made_up([["word"]], seed=99)[0][:, 0]
    tokens = np.arange(found.info.tokens)
    for shares in [(0, 1, 0), (0, 0, 1), (1 / 3, 1 / 3, 1 / 3)]:
        exact = np.unique(found.cosines(tokens, query, shares))[::-1][:10]
        uses = found.uses(query, shares, 100)
        cosines = np.unique([use.cosine for use in uses])[::-1]
        near = np.abs(exact[:, np.newaxis] - cosines).min(axis=1)
        assert (near < 1e-6).mean() >= 0.9


def test_ctrl_c_ends_the_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = TextParts(write(tmp_path / "made up", 40), tokenizer("whitespace"), 1_000_000)

    def endless(_vectors: object, _path: Path, on_added: Callable[[int], None]) -> None:
        while True:
            on_added(1)

    def on_step(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
        if name == "Building graphs":
            assert (done > 0, total, unit) == (True, 3 * 800, "vectors")
            raise KeyboardInterrupt

    monkeypatch.setattr(store, "build", endless)
    with pytest.raises(KeyboardInterrupt):
        index_text(
            *(MadeUp(), parts, tmp_path / "index", manifest_of(), 4_000), on_step, graph_from=500
        )


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
