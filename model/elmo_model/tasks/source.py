"""Where a fit takes the layers of its sentences from."""

from dataclasses import dataclass

import torch

from elmo_model.inference.centre import sentences
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model, tokenization_of
from elmo_model.network.elmo import Origin
from elmo_model.tasks.features import Encode, encode_by
from elmo_model.threads import fastest_threads, using_threads

_TRIED = 8  # sentences that a trial of threads computes at once


@dataclass(frozen=True, slots=True)
class LayerSource:
    """An encoder in this process, or a server.

    `tokenizer` and `language` are those of the model, for text. `threads` are those of the fit:
    another number gives other last digits.
    """

    origin: Origin
    tokenizer: str
    language: str
    encode: Encode
    threads: int = 1


def encoder_source(
    model: str, device: str, precision: str, *, layer_norm: bool, threads: int | None = None
) -> LayerSource:
    """Return the source of an encoder in this process; `model` is a path or a built-in name.

    Without `threads` a trial of the network on a few sentences chooses them. Raises
    CheckpointError.
    """
    elmo = open_model(model, device=device)
    with torch.no_grad():
        threads = threads or fastest_threads(lambda: elmo(sentences()[:_TRIED]))
    with using_threads(threads):
        encoder = Encoder.of(elmo, precision)
    split_by, language = tokenization_of(encoder.origin)
    encode = encode_by(encoder, layer_norm=layer_norm)
    return LayerSource(encoder.origin, split_by, language, encode, threads)
