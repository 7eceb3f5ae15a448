"""Models as AllenNLP saves them, made from a published pair by the names of AllenNLP's modules."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.support import golden
from tests.support.checkpoints import read_pair
from tests.support.tars import write_tar

PREFIX = "text_field_embedder.token_embedder_elmo._elmo."
MIXES = {0: ([0.25, -0.5, 1.5], 0.75), 1: ([0.0, 0.0, 3.0], 1.25)}


def state_of(folder: Path, prefix: str = PREFIX, mixes: int = 1) -> dict[str, Tensor]:
    """Return the state dict that AllenNLP saves for a model with the weights of a pair."""
    options, weights = read_pair(folder)
    token = f"{prefix}_elmo_lstm._token_embedder."
    state: dict[str, golden.Array] = {  # neither the tagger nor a cache of words is of the biLM
        "tagger.weight": np.zeros((3, 3), np.float32),
        f"{prefix}_elmo_lstm._word_embedding.weight": np.zeros((7, 4), np.float32),
    }
    table = weights["char_embed"]
    state[f"{token}_char_embedding_weights"] = np.concatenate([np.zeros_like(table[:1]), table])
    for i in range(len(options["char_cnn"]["filters"])):
        kernel = weights[f"CNN/W_cnn_{i}"]
        state[f"{token}char_conv_{i}.weight"] = np.moveaxis(kernel[0], (0, 1, 2), (2, 1, 0))
        state[f"{token}char_conv_{i}.bias"] = weights[f"CNN/b_cnn_{i}"]
    for k in range(options["char_cnn"]["n_highway"]):
        part = {name: weights[f"CNN_high_{k}/{name}"] for name in ("W_transform", "W_carry")}
        bias = {name: weights[f"CNN_high_{k}/{name}"] for name in ("b_transform", "b_carry")}
        layer = f"{token}_highways._layers.{k}"
        state[f"{layer}.weight"] = np.concatenate([part["W_transform"].T, -part["W_carry"].T])
        state[f"{layer}.bias"] = np.concatenate([bias["b_transform"], -bias["b_carry"]])
    state[f"{token}_projection.weight"] = weights["CNN_proj/W_proj"].T
    state[f"{token}_projection.bias"] = weights["CNN_proj/b_proj"]
    cell, width = options["lstm"]["dim"], options["lstm"]["projection_dim"]
    order = np.concatenate([np.arange(cell) + block * cell for block in (0, 2, 1, 3)])
    for r, direction in enumerate(("forward", "backward")):
        for number in range(options["lstm"]["n_layers"]):
            stored = f"RNN_{r}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            layer = f"{prefix}_elmo_lstm._elmo_lstm.{direction}_layer_{number}"
            kernel = weights[f"{stored}/W_0"].T[order]
            bias = weights[f"{stored}/B"][order].copy()
            bias[cell : 2 * cell] += 1
            state[f"{layer}.input_linearity.weight"] = kernel[:, :width]
            state[f"{layer}.state_linearity.weight"] = kernel[:, width:]
            state[f"{layer}.state_linearity.bias"] = bias
            state[f"{layer}.state_projection.weight"] = weights[f"{stored}/W_P_0"].T
    tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in state.items()}
    for number in range(mixes):
        scalars, gamma = MIXES[number]
        for place, scalar in enumerate(scalars):
            mix = f"{prefix}scalar_mix_{number}"
            tensors[f"{mix}.scalar_parameters.{place}"] = torch.tensor([scalar])
        tensors[f"{prefix}scalar_mix_{number}.gamma"] = torch.tensor([gamma])
    return tensors


def archive(
    path: Path,
    state: Mapping[str, Any],
    files: Mapping[str, str] | None = None,
    weights: str = "weights.th",
) -> Path:
    """Write a model.tar.gz as AllenNLP does: documents first, then the weights."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    documents = [(name, text.encode()) for name, text in (files or {}).items()]
    return write_tar(path, *documents, (weights, buffer.getvalue()))
