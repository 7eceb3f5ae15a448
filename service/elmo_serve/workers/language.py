"""The language model behind a worker: surprisal and substitutes of the sentences of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import torch
from torch import Tensor

from elmo_model.checkpoints.softmax import StoredSoftmax
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.scorer import Scorer
from elmo_model.models.opening import needed_softmax, open_model, tokenization_of
from elmo_serve.processes.heartbeat import LOADING_SECONDS, Steps
from elmo_serve.workers.language_results import Scores, Substitutes, Wanted
from elmo_serve.workers.messages import SoftmaxInfo


class LanguageModel:
    """The softmax of a served network, which is read when it is first asked for."""

    def __init__(self, encoder: Encoder, stored: StoredSoftmax) -> None:
        self.info = SoftmaxInfo(stored.words, stored.total)
        self._encoder, self._stored = encoder, stored
        self._scorer: Scorer | None = None

    def results(
        self,
        sentences: Sequence[Sequence[str]],
        wanted: Sequence[Wanted],
        layers: Sequence[Tensor] | None = None,
    ) -> Steps[list[Tensor]]:
        """Map sentences to their scores or substitutes, in the shapes of their outputs.

        `layers` are those of `encode`, where they are computed already. Stops before it reads the
        softmax, and as `Scorer` does. Raises CheckpointError for a damaged softmax.
        """
        layers = self.encode(sentences) if layers is None else layers
        if self._scorer is None:
            yield LOADING_SECONDS
        if self._scorer is None:  # still: another batch may have run meanwhile
            self._scorer = Scorer(self._encoder, self._stored.read())
        scorer = self._scorer
        scored = [i for i, output in enumerate(wanted) if isinstance(output, Scores)]
        rows = [sentences[i] for i in scored], [layers[i] for i in scored]
        found = dict(zip(scored, (yield from scorer.surprisal(*rows)), strict=True))
        for i, output in enumerate(wanted):
            if isinstance(output, Substitutes):
                words = yield from scorer.substitutes(
                    layers[i], output.positions, output.k, output.direction
                )
                text = orjson.dumps(words).ljust(output.size(*layers[i].shape[1:]))
                found[i] = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
        return [found[i] for i in range(len(wanted))]

    @classmethod
    def open(cls, model: str, file: Path | None, words: int | None, device: str) -> LanguageModel:
        """Open a model by its name or path with its softmax.

        Raises CheckpointError without one, ValueError for a device that is not there.
        """
        elmo = open_model(model)
        stored = needed_softmax(model, elmo, file, words)
        return cls(Encoder.of(elmo.to(torch.device(device))), stored)

    @property
    def tokenization(self) -> tuple[str, str]:
        """The tokenizer and the language of the model."""
        return tokenization_of(self._encoder.origin)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P)."""
        return self._encoder.encode_whole(sentences).sentences()
