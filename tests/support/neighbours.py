"""Made-up indexes of uses, and servers whose text of uses is embedded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from elmo_model.inference.centre import Centre
from elmo_model.neighbours.index import NeighbourIndex
from elmo_model.neighbours.manifest import Manifest
from elmo_model.neighbours.store import open_index
from elmo_model.neighbours.writer import IndexWriter
from elmo_serve.bulk_queue import BulkQueue
from tests.support.engines import Bench
from tests.support.gated_worker import INFO
from tests.support.servers import Running

LAYERS, WIDTH = 3, 8
Vectors = NDArray[np.float32]


def until_embedded(server: Running) -> None:
    """Wait until a server can answer POST /neighbours over the text that comes with the program."""
    body = {"tokens": ["a"], "token": 0}
    with httpx.Client(base_url=server.url, timeout=300) as client:
        server.until(lambda: client.post("/neighbours", json=body).status_code == 200, seconds=600)


def bulk_queue_of(b: Bench, piece_tokens: int = 1_000) -> BulkQueue:
    """Return a queue for bulk work of a model that is loaded and has a centre of zeros."""
    layers = np.zeros((INFO.layers, INFO.dimension), np.float32)
    info = replace(INFO, centre=Centre("zeros", 0, layers))
    return BulkQueue(b.engine, b.engine.default, info, "neighbours", piece_tokens, 60.0)


def made_up(sentences: Sequence[Sequence[str]], seed: int = 0) -> list[Vectors]:
    """Return layers (L + 1, n, 2P) of each sentence: layer 0 by the word, the others random."""
    source = np.random.default_rng(seed)
    found = []
    for sentence in sentences:
        layers = source.standard_normal((LAYERS, len(sentence), WIDTH), np.float32) * 2 + 1
        for place, word in enumerate(sentence):
            layers[0, place] = _word_layer(word)
        found.append(layers)
    return found


@cache
def _word_layer(word: str) -> NDArray[np.float64]:
    digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(list(digest)).standard_normal(WIDTH)


def centre_of(vectors: Sequence[Vectors]) -> Vectors:
    """Return the mean of each layer, (L + 1, 2P)."""
    found: Vectors = np.concatenate(vectors, axis=1).mean(axis=1)
    return found


def manifest_of(text: str = "made up", revision: str = "abc") -> Manifest:
    return Manifest(text, "tiny", revision, LAYERS, WIDTH, "whitespace")


def write_index(
    folder: Path, parts: Sequence[Sequence[Sequence[str]]], vectors: Sequence[Vectors]
) -> NeighbourIndex:
    """Write the index of some parts, whose sentences have these vectors, and open it."""
    writer = IndexWriter.begin(folder, manifest_of(), centre_of(vectors))
    ahead = iter(vectors)
    for number, sentences in enumerate(parts):
        new = writer.new_part(sentences)
        for row in range(len(sentences)):
            new.write(row, next(ahead))
        writer.add(new, len(sentences), f"digest {number}")
    writer.finish()
    return open_index(folder)
