"""The language model behind a worker: surprisal and substitutes of the sentences of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import orjson
import torch
from torch import Tensor

from elmo_model.checkpoints.softmax import StoredSoftmax
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.scorer import Scorer
from elmo_model.models.opening import needed_softmax, open_model
from elmo_serve.output import Scores, Substitutes, Wanted
from elmo_serve.workers.messages import SoftmaxInfo


class LanguageModel:
    """The softmax of a served network, which is read when it is first asked for."""

    def __init__(self, encoder: Encoder, stored: StoredSoftmax) -> None:
        self.info = SoftmaxInfo(stored.words, stored.total)
        self._encoder, self._stored = encoder, stored

    @cached_property
    def scorer(self) -> Scorer:
        """The softmax over the encoder. Raises CheckpointError for a damaged file."""
        return Scorer(self._encoder, self._stored.read())

    def results(
        self,
        sentences: Sequence[Sequence[str]],
        wanted: Sequence[Wanted],
        layers: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Map sentences to their scores or substitutes, in the shapes of their outputs.

        `layers` are those of `encode`, where they are computed already.
        """
        layers = self.encode(sentences) if layers is None else layers
        scored = [i for i, output in enumerate(wanted) if isinstance(output, Scores)]
        bits = self.scorer.surprisal([sentences[i] for i in scored], [layers[i] for i in scored])
        found = dict(zip(scored, bits, strict=True))
        for i, output in enumerate(wanted):
            if isinstance(output, Substitutes):
                found[i] = self._text(layers[i], output)
        return [found[i] for i in range(len(wanted))]

    @classmethod
    def open(cls, model: str, file: Path | None, words: int | None, device: str) -> LanguageModel:
        """Open a model by its name or path with its softmax.

        Raises CheckpointError without one, ValueError for a device that is not there.
        """
        elmo = open_model(model)
        stored = needed_softmax(model, elmo, file, words)
        return cls(Encoder.of(elmo.to(torch.device(device))), stored)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P)."""
        return self._encoder.encode_whole(sentences).sentences()

    def _text(self, layers: Tensor, output: Substitutes) -> Tensor:
        words = self.scorer.substitutes(layers, output.positions, output.k, output.direction)
        text = orjson.dumps(words).ljust(output.size(layers.shape[1], layers.shape[2]))
        return torch.from_numpy(np.frombuffer(text, np.uint8).copy())
