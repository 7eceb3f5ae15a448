"""Made-up indexes of uses, and servers whose text of uses is embedded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import httpx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.uses.files import open_index
from elmo_model.uses.index import IndexInfo, UsesIndex
from elmo_model.uses.indexing import write_index
from tests.support.servers import Running

LAYERS, WIDTH = 3, 8
DESCRIPTION = IndexInfo("made up", "tiny", "abc", LAYERS, WIDTH, "whitespace")


def until_embedded(server: Running) -> None:
    """Wait until a server can answer POST /neighbours over the text that comes with the program."""
    body = {"tokens": ["a"], "token": 0}
    with httpx.Client(base_url=server.url, timeout=300) as client:
        server.until(lambda: client.post("/neighbours", json=body).status_code == 200, seconds=600)


class MadeUp:
    """A network whose layer 0 is by the word, and the others by the word and its place as well."""

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        return [torch.from_numpy(self.layers(sentence)) for sentence in sentences]

    @staticmethod
    def layers(sentence: Sequence[str]) -> NDArray[np.float32]:
        """Return the layers (L + 1, n, 2P) of a sentence."""
        rows = [[_random(f"0 {word}") for word in sentence]]
        rows += [
            [
                _random(f"0 {word}") + _random(f"{layer} {place} {sentence}")
                for place, word in enumerate(sentence)
            ]
            for layer in range(1, LAYERS)
        ]
        return np.array(rows, np.float32).reshape(LAYERS, len(sentence), WIDTH)


@cache
def _random(key: str) -> NDArray[np.float64]:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(list(digest)).standard_normal(WIDTH) * 2 + 1


def made_up_index(folder: Path, sentences: Sequence[Sequence[str]]) -> UsesIndex:
    """Write the index of some sentences by the made-up network, and open it."""
    write_index(MadeUp(), sentences, folder, DESCRIPTION, 4_000)
    return open_index(folder)
