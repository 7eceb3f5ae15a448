"""Frozen vectors of chosen tokens, the features of all probes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from elmo_model.elmo import Elmo
from elmo_model.inference.encoder import Encoder
from elmo_model.sentence_batches import by_length

# Tokens of a batch, boundaries included; more of them take more memory.
_BATCH_TOKENS = 4096


def vectors_of(
    elmo: Elmo, sentences: Sequence[Sequence[str]], places: Sequence[Sequence[int]]
) -> Tensor:
    """Map sentences, and the places of the chosen tokens of each, to (L + 1, N, 2P) on the host.

    The N tokens keep their order. Sentences are stateless, as in the service.
    """
    counts = np.array([len(chosen) for chosen in places], dtype=np.int64)
    firsts = np.cumsum(counts) - counts
    found = torch.empty(elmo.layers, int(counts.sum()), elmo.dimension)
    encoder = Encoder.of(elmo)
    for batch in by_length(range(len(sentences)), sentences, _BATCH_TOKENS):
        vectors = encoder.embed([sentences[number] for number in batch])
        for number, layers in zip(batch, vectors, strict=True):
            chosen = layers[:, list(places[number])].float().cpu()
            found[:, firsts[number] : firsts[number] + counts[number]] = chosen
    return found
