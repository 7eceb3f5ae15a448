"""The bytes of vectors on the network and on disk, by selection and media type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.media_types.encoder import Embeddings
from elmo_serve.output import Output, select

SELECTIONS = ("all", "top", "top, float16", "top, mean")
"""The rows of the table. `average`, `sum`, a task and one layer have the size of `top`."""


def output_of(selection: str, layers: int) -> Output:
    """Return the output of a row of the table, for a model with so many layers."""
    name, _, option = selection.partition(", ")
    return select(
        name,
        layers,
        dtype="float16" if option == "float16" else "float32",
        pooling="mean" if option == "mean" else "none",
    )


def bytes_per_token(
    output: Output, media_type: str, dimension: int, lengths: Sequence[int]
) -> float:
    """Return the bytes of a response for each token of its sentences, which have these lengths.

    The response is encoded: its numbers are normally distributed, as long in JSON as real ones.
    """
    source = np.random.default_rng(1)
    arrays = [
        source.standard_normal(output.shape(length, dimension)).astype(output.dtype)
        for length in lengths
    ]
    texts = [orjson.dumps(["token"] * length) for length in lengths]
    shape = output.shape(-1, dimension)
    tokens = sum(lengths)
    response = Embeddings(
        "model", "0" * 64, dimension, output.layers, tokens, arrays, texts, shape, output.dtype
    )
    return sum(len(chunk) for chunk in ENCODERS[media_type].encode(response)) / tokens


def table(layers: int, dimension: int, lengths: Sequence[int]) -> dict[str, dict[str, float]]:
    """Return the bytes a token of each selection, by media type."""
    return {
        selection: {
            media_type: bytes_per_token(
                output_of(selection, layers), media_type, dimension, lengths
            )
            for media_type in ENCODERS
        }
        for selection in SELECTIONS
    }
