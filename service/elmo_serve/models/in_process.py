"""Open a model by its name in this process, for files and scripts: no queue, no worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.errors import OptionError
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.state import State
from elmo_model.text.tokenizers import Tokenize, tokenizer
from elmo_serve.models.download import CacheSettings, Progress, cache_of_environment, locate, unseen
from elmo_serve.selection import Output
from elmo_serve.settings import BATCH_TOKENS_CUDA
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import ModelInfo
from elmo_serve.workers.model_worker import model_info
from elmo_serve.workers.vectors import select, vectors_of

Vectors = NDArray[Any]


# 128 sentences of 26 tokens: a time step computes 128 rows at most at once, and takes a fifth less
# time for each than with 40 (`python -m benchmarks.network TEXT --rows 40 128`). A server's batches
# are smaller, since clients wait for them.
_BATCH_TOKENS_CPU = 128 * 26


class DeviceError(OptionError):
    """A device or a precision that this machine does not have."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """An encoder, its description, its device and the largest batch in padded tokens."""

    encoder: Encoder
    info: ModelInfo
    device: str
    batch_tokens: int

    def tokenizer(self, name: str | None = None) -> Tokenize:
        """Return a tokenizer for the language of the model, by default that of the model."""
        return tokenizer(name or self.info.tokenizer, self.info.language)

    def embed(self, sentences: Sequence[Sequence[str]], output: Output) -> list[Vectors]:
        """Map sentences, at least one, to an array each, as `output` says, from zero state."""
        with torch.inference_mode():
            return _arrays(vectors_of(self.encoder, sentences, [output] * len(sentences)))

    def carry(
        self, sentences: Sequence[Sequence[str]], output: Output, state: State | None = None
    ) -> tuple[list[Vectors], State]:
        """Map sentences, at least one, to an array each, and return the state after them.

        Row r of the state is for the r-th sentence given; without a state it is zero.
        """
        with torch.inference_mode():
            representations, after = self.encoder.encode_from(sentences, state)
            vectors = select(self.encoder, representations, [output] * len(sentences))
            return _arrays(vectors), after


def open_network(
    model: str | ElmoNetwork,
    cache: CacheSettings | None = None,
    progress: Progress = unseen,
    *,
    device: str = "auto",
    precision: str = "float32",
    owns_process: bool = False,
) -> InProcess:
    """Open the network of a built-in name, of a published name, or at a path; or one that is open.

    `cache` is by default that of the environment. `progress` is as for `locate`, `owns_process` as
    for `Encoder.of`.

    Raises:
        CheckpointError: there is no such model, or its files are damaged.
        DownloadError: a published model cannot be had.
        DeviceError: the machine has no such device, or cannot compute in this precision.
    """
    place = place_of(device)
    if isinstance(model, str):
        model = open_model(locate(model, lambda: cache or cache_of_environment(), progress))
    try:
        encoder = Encoder.of(model.to(torch.device(place)), precision, owns_process=owns_process)
    except (RuntimeError, OptionError) as error:
        raise DeviceError(f"{device}, {precision}: {error}") from error
    batch_tokens = _BATCH_TOKENS_CPU if place == "cpu" else BATCH_TOKENS_CUDA
    return InProcess(encoder, model_info(encoder), place, batch_tokens)


def place_of(device: str, hardware: Hardware | None = None) -> str:
    """Return a device by its name; `cuda` is the first CUDA device, `auto` that or the CPU.

    `hardware` is by default that of this machine. Raises DeviceError for a device that it lacks.
    """
    available = (hardware or Hardware.here()).available()
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
