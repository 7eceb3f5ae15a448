"""A model in this process, for files and scripts: no queue, no worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.errors import ElmoError
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import Elmo
from elmo_model.network.state import State
from elmo_model.word_vectors.look_up import WordVectors as Words
from elmo_serve.output import Output
from elmo_serve.settings import BATCH_TOKENS_CPU, BATCH_TOKENS_CUDA
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import ModelInfo
from elmo_serve.workers.model_worker import model_info
from elmo_serve.workers.vectors import select, static_vectors, vectors_of

Vectors = NDArray[Any]


class DeviceError(ElmoError):
    """A device or a precision that this machine does not have."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """An encoder, its description, its device and the largest batch in padded tokens.

    `words` are the static vectors for outputs with word vectors appended.
    """

    encoder: Encoder
    info: ModelInfo
    device: str
    batch_tokens: int
    words: Words | None = None

    @classmethod
    def open(
        cls,
        model: str | Elmo,
        *,
        device: str = "auto",
        precision: str = "float32",
        owns_process: bool = False,
        words: Words | None = None,
    ) -> InProcess:
        """Load a model by a built-in name or a path and build its encoder.

        `owns_process` as for `Encoder.of`. Raises CheckpointError when there is no such model,
        DeviceError for a device and ValueError for a precision that is not available.
        """
        place = place_of(device, Hardware.here())
        elmo = open_model(model) if isinstance(model, str) else model
        network = elmo.to(torch.device(place))
        encoder = Encoder.of(network, precision, owns_process=owns_process)
        info = model_info(encoder, path=model if isinstance(model, str) else "")
        batch_tokens = BATCH_TOKENS_CPU if place == "cpu" else BATCH_TOKENS_CUDA
        if words is not None:
            info = replace(info, word_vectors=words.info)
        return cls(encoder, info, place, batch_tokens, words)

    def embed(self, sentences: Sequence[Sequence[str]], output: Output) -> list[Vectors]:
        """Map sentences, at least one, to an array each, as `output` says, from zero state."""
        with torch.inference_mode():
            wanted = [output] * len(sentences)
            static = static_vectors(self.words, sentences, wanted)
            return _arrays(vectors_of(self.encoder, sentences, wanted, static))

    def carry(
        self, sentences: Sequence[Sequence[str]], output: Output, state: State | None = None
    ) -> tuple[list[Vectors], State]:
        """Map sentences, at least one, to an array each, and return the state after them.

        Row r of the state is for the r-th sentence given; without a state it is zero.
        """
        with torch.inference_mode():
            representations, after = self.encoder.encode_from(sentences, state)
            wanted = [output] * len(sentences)
            static = static_vectors(self.words, sentences, wanted)
            vectors = select(self.encoder, representations, wanted, static)
            return _arrays(vectors), after

    @staticmethod
    def arrays_of(state: State) -> dict[str, Vectors]:
        """Return a state as arrays that can be kept in a file."""
        return {"h": state.h.cpu().numpy(), "c": state.c.cpu().numpy()}

    def state_of(self, arrays: Mapping[str, Vectors]) -> State:
        """Return the state that `arrays_of` made into arrays."""
        return State(*(torch.from_numpy(arrays[name]).to(self.device) for name in ("h", "c")))


def place_of(device: str, hardware: Hardware) -> str:
    """Return a device by its name; `cuda` is the first CUDA device, `auto` that or the CPU.

    Raises DeviceError for a device that is not there.
    """
    available = hardware.available()
    place = {"auto": available[0], "cuda": "cuda:0"}.get(device, device)
    here = dict.fromkeys(("cpu", *available))
    if place not in here:
        raise DeviceError(f"there is no {device}; there is {', '.join(here)}")
    return place


def _arrays(vectors: Sequence[Tensor]) -> list[Vectors]:
    """Return vectors as arrays: one copy from the device, not one a sentence."""
    flat = torch.cat([own.reshape(-1) for own in vectors]).cpu().numpy()
    cuts = np.cumsum([own.numel() for own in vectors])[:-1]
    parts = zip(np.split(flat, cuts), vectors, strict=True)
    return [part.reshape(tuple(own.shape)) for part, own in parts]
