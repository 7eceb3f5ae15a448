"""A model in this very process, for files and scripts: no queue, no worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.elmo import Elmo
from elmo_model.pretrained import open_model
from elmo_model.state import State
from elmo_serve.output import Output
from elmo_serve.settings import BATCH_TOKENS_CPU, BATCH_TOKENS_CUDA
from elmo_serve.workers import devices
from elmo_serve.workers.messages import ModelInfo
from elmo_serve.workers.model_worker import answers_of, outputs

Vectors = NDArray[Any]


@dataclass(frozen=True, slots=True)
class InProcess:
    """A network that is ready to be asked."""

    elmo: Elmo
    info: ModelInfo
    device: str
    batch_tokens: int

    @classmethod
    def open(
        cls,
        model: str | Elmo,
        *,
        device: str = "auto",
        precision: str = "float32",
        token_cache_size: int = 65_536,
    ) -> InProcess:
        """Load a model by a built-in name or a path and lay it out for inference.

        Raises CheckpointError where there is none, ValueError for a device or a precision that is
        not to be had.
        """
        there = devices.available()
        place = there[0] if device == "auto" else device
        if place not in (*there, "cpu"):
            raise ValueError(f"there is no {place}; there is {', '.join({*there, 'cpu'})}")
        if isinstance(model, str):
            model = open_model(model, token_cache_size=token_cache_size)
        elmo = model.to(torch.device(place)).prepare(precision)
        info = ModelInfo(
            name=elmo.origin.name,
            revision=elmo.origin.revision,
            format=elmo.origin.format,
            layers=elmo.layers,
            dimension=elmo.dimension,
            parameters=elmo.parameter_count,
            precision=precision,
        )
        return cls(elmo, info, place, BATCH_TOKENS_CPU if place == "cpu" else BATCH_TOKENS_CUDA)

    def embed(self, sentences: Sequence[Sequence[str]], output: Output) -> list[Vectors]:
        """Map sentences, at least one, to an array each, as `output` says, from zero state."""
        with torch.inference_mode():
            return _on_host(answers_of(self.elmo, sentences, [output] * len(sentences)))

    def carry(
        self, sentences: Sequence[Sequence[str]], output: Output, state: State | None = None
    ) -> tuple[list[Vectors], State]:
        """Map sentences, at least one, to an array each, and return the state after them.

        Row r of the state belongs to the r-th sentence given; without one it is zero.
        """
        with torch.inference_mode():
            representations, after = self.elmo(sentences, state)
            answers = outputs(self.elmo, representations, [output] * len(sentences))
            return _on_host(answers), after

    def state_of(self, arrays: Mapping[str, Vectors]) -> State:
        """Return the state that `arrays_of` took apart."""
        return State(*(torch.from_numpy(arrays[name]).to(self.device) for name in ("h", "c")))


def arrays_of(state: State) -> dict[str, Vectors]:
    """Return a state as arrays that can be kept in a file."""
    return {"h": state.h.cpu().numpy(), "c": state.c.cpu().numpy()}


def _on_host(answers: Sequence[Tensor]) -> list[Vectors]:
    """Return the answers as arrays: one copy from the device, not one a sentence."""
    flat = torch.cat([answer.reshape(-1) for answer in answers]).cpu().numpy()
    cuts = np.cumsum([answer.numel() for answer in answers])[:-1]
    parts = zip(np.split(flat, cuts), answers, strict=True)
    return [part.reshape(tuple(answer.shape)) for part, answer in parts]
