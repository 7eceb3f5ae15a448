"""ELMo as plain NumPy, from the formulas: one sentence, one time step, one dtype at a time.

The truth that every other implementation here is held against. It shares no code with the network
that serves, reads the published datasets by their published names, and prefers a loop to a trick.

Sources of the rules: Peters et al. 2018, "Deep contextualized word representations", sections 3.1
and 3.2; Kim et al. 2016 (char CNN); Srivastava et al. 2015 (highway); Sak et al. 2014 (projected
LSTM); bilm-tf `bilm/data.py` and `bilm/model.py`; AllenNLP 0.9 `modules/elmo.py`, `elmo_lstm.py`,
`lstm_cell_with_projection.py` and `scalar_mix.py`.

Letters in shapes: n tokens, C characters per token, d character width, F filters in all,
P projection (the width of one direction), D cell, L biLSTM layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Options = Mapping[str, Any]
Weights = Mapping[str, Array]

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD = 256, 257, 258, 259, 260


@dataclass(frozen=True, slots=True)
class State:
    """What the LSTMs remember after one sentence: hidden (2, L, P), memory (2, L, D).

    First axis: 0 forward, 1 backward. Hidden is the clipped projection before any residual,
    memory is the clipped cell. Without a projection hidden is as wide as the cell.
    """

    hidden: Array
    memory: Array


def representations(
    sentence: Sequence[str],
    options: Options,
    weights: Weights,
    state: State | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> tuple[Array, State]:
    """Map n tokens to every biLM layer (L+1, n+2, 2P), and the state after them.

    The boundaries <S> and </S> are columns 0 and n+1; `without_boundaries` drops them. `state` is
    what an earlier sentence left behind, None is zeros. `options` is the published options.json,
    `weights` the HDF5 datasets by full name. Raises KeyError where either lacks what it must hold.
    """
    framed = ["<S>", *sentence, "</S>"]
    embedded = np.stack([token_vector(token, options, weights, dtype) for token in framed])
    return bilm(embedded, options, weights, state)


def without_boundaries(layers: Array) -> Array:
    """Map (layers, n+2, width) to (layers, n, width): the tokens without <S> and </S>."""
    return layers[:, 1:-1]


def bilm(
    embedded: Array, options: Options, weights: Weights, state: State | None = None
) -> tuple[Array, State]:
    """Map token vectors (n, P) to the biLM layers (L+1, n, 2P), and the state after them.

    The two directions never meet: the backward stack reads the sentence mirrored and its outputs
    are mirrored back. Layer 0 is the token vector twice. Works in the dtype of `embedded`.
    Source: Peters et al. 2018, section 3.1; bilm-tf `bilm/model.py`, `_build`.
    """
    forward, forward_state = stack(embedded, 0, options, weights, state)
    mirrored, backward_state = stack(embedded[::-1], 1, options, weights, state)
    layers = np.concatenate([forward, mirrored[:, ::-1]], axis=-1)
    hidden = np.stack([forward_state[0], backward_state[0]])
    memory = np.stack([forward_state[1], backward_state[1]])
    return layers, State(hidden, memory)


def stack(
    inputs: Array, direction: int, options: Options, weights: Weights, state: State | None = None
) -> tuple[Array, tuple[Array, Array]]:
    """Map (n, P) in reading order to (L+1, n, P) of one direction, with (L, P) and (L, D) after.

    The residual is added from the second LSTM layer on, and its sum is both the layer's output and
    the next layer's input; the hidden state that is carried never contains it.
    Source: bilm-tf `bilm/model.py`, `ResidualWrapper`.
    """
    lstm_options = options["lstm"]
    outputs, hiddens, memories = [inputs], [], []
    for layer in range(lstm_options.get("n_layers", 1)):
        name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        cell = lstm_options["dim"]
        if f"{name}/W_P_0" in weights:
            projection = weights[f"{name}/W_P_0"]
        elif cell == lstm_options["projection_dim"]:
            projection = None
        else:
            raise KeyError(f"{name}/W_P_0")
        width = lstm_options["projection_dim"]
        h, memory = np.zeros(width, inputs.dtype), np.zeros(cell, inputs.dtype)
        if state is not None:
            h, memory = state.hidden[direction, layer], state.memory[direction, layer]
        output, h, memory = lstm(
            outputs[-1],
            weights[f"{name}/W_0"],
            weights[f"{name}/B"],
            projection,
            hidden=h,
            memory=memory,
            cell_clip=lstm_options.get("cell_clip"),
            projection_clip=lstm_options.get("proj_clip"),
        )
        if layer > 0 and lstm_options["use_skip_connections"]:
            output = output + outputs[-1]
        outputs.append(output)
        hiddens.append(h)
        memories.append(memory)
    return np.stack(outputs), (np.stack(hiddens), np.stack(memories))


def lstm(
    inputs: Array,
    kernel: Array,
    bias: Array,
    projection: Array | None,
    *,
    hidden: Array,
    memory: Array,
    cell_clip: float | None,
    projection_clip: float | None,
) -> tuple[Array, Array, Array]:
    """Map (n, in) to (n, P) with the last hidden (P,) and memory (D,): one layer, one direction.

    kernel (in+P, 4D) and bias (4D,) hold input gate, candidate, forget gate, output gate; the
    forget gate's + 1 is not in the file. projection (D, P), or None: then hidden is (D,) and
    `projection_clip` does nothing. A clip of None or 0 is none.
    Source: Sak et al. 2014, without peepholes; TensorFlow 1 `LSTMCell`.
    """
    dtype = inputs.dtype
    kernel, bias = kernel.astype(dtype, copy=False), bias.astype(dtype, copy=False)
    projection = None if projection is None else projection.astype(dtype, copy=False)
    hidden, memory = hidden.astype(dtype, copy=False), memory.astype(dtype, copy=False)
    outputs = []
    for x in inputs:
        z = np.concatenate([x, hidden]) @ kernel + bias
        i, j, f, o = np.split(z, 4)
        memory = clip(sigmoid(f + 1) * memory + sigmoid(i) * np.tanh(j), cell_clip)
        hidden = sigmoid(o) * np.tanh(memory)
        if projection is not None:
            hidden = clip(hidden @ projection, projection_clip)
        outputs.append(hidden)
    return np.stack(outputs), hidden, memory


def token_vector(
    token: str, options: Options, weights: Weights, dtype: npt.DTypeLike = np.float64
) -> Array:
    """Map one token to its context-free vector (P,): char CNN, highways, projection.

    Without a projection in the file, which only F == P allows, the vector is what the highways say.
    Source: Peters et al. 2018, section 3.4; bilm-tf `bilm/model.py`, `_build_word_char_embeddings`.
    """
    char_options = options["char_cnn"]
    ids = character_ids(token, char_options["max_characters_per_token"])
    x = char_cnn(ids, options, weights, dtype)
    for number in range(char_options.get("n_highway") or 0):
        x = highway(x, number, weights)
    filters_equal_projection = x.shape[0] == options["lstm"]["projection_dim"]
    if filters_equal_projection and "CNN_proj/W_proj" not in weights:
        return x
    matrix, bias = weights["CNN_proj/W_proj"], weights["CNN_proj/b_proj"]
    vector: Array = x @ matrix.astype(dtype, copy=False) + bias.astype(dtype, copy=False)
    return vector


def char_cnn(
    ids: Array, options: Options, weights: Weights, dtype: npt.DTypeLike = np.float64
) -> Array:
    """Map character ids (C,) to pooled filters (F,): convolve, take the maximum, activate.

    Padding characters have a learned vector of their own and take part in every window. Windows
    slide by one, are never padded and are not flipped. Source: Kim et al. 2016, section 2.2.
    """
    char_options = options["char_cnn"]
    activation = {"relu": relu, "tanh": tanh}[char_options["activation"]]
    characters = character_table(weights).astype(dtype, copy=False)[ids]  # (C, d)
    pooled = []
    for number, (width, _) in enumerate(char_options["filters"]):
        kernel = weights[f"CNN/W_cnn_{number}"][0].astype(dtype, copy=False)  # (width, d, count)
        bias = weights[f"CNN/b_cnn_{number}"].astype(dtype, copy=False)
        starts = range(len(ids) - width + 1)
        windows = np.stack([characters[start : start + width] for start in starts])
        convolved = np.tensordot(windows, kernel, axes=2) + bias  # (windows, count)
        pooled.append(activation(np.max(convolved, axis=0)))
    return np.concatenate(pooled)


def character_table(weights: Weights) -> Array:
    """Map the stored table (261, d) or (262, d) to (262, d), whose row 0 is "no token here".

    Files hold 261 rows whatever `n_characters` says, as training never pads with row 0; a file that
    already stores row 0 must store zeros there. Raises ValueError for anything else.
    """
    stored = weights["char_embed"]
    if stored.shape[0] == 261:
        return np.concatenate([np.zeros_like(stored[:1]), stored])
    if stored.shape[0] == 262 and not stored[0].any():
        return stored
    raise ValueError(f"char_embed has {stored.shape[0]} rows; 261, or 262 with zeros first")


def highway(x: Array, number: int, weights: Weights) -> Array:
    """Map (F,) to (F,): the dataset called carry gates the *transformed* branch. Always ReLU.

    Source: Srivastava et al. 2015, equation 3, with the gate's name swapped as bilm-tf stores it.
    """
    stored = (
        weights[f"CNN_high_{number}/{name}"].astype(x.dtype, copy=False)
        for name in ("W_carry", "b_carry", "W_transform", "b_transform")
    )
    carry_matrix, carry_bias, transform_matrix, transform_bias = stored
    gate = sigmoid(x @ carry_matrix + carry_bias)
    transformed = relu(x @ transform_matrix + transform_bias)
    return np.asarray(gate * transformed + (1 - gate) * x)


def character_ids(token: str, max_characters: int = 50) -> npt.NDArray[np.int64]:
    """Map one token to its character ids (max_characters,), shifted by one: 0 is "no token here".

    Begin-word, the UTF-8 bytes, end-word, padding. The bytes are cut at max_characters - 2, even
    inside a character; lone surrogates are dropped. Exactly <S> and </S> have one id of their own.
    Source: bilm-tf `bilm/data.py`, `UnicodeCharsVocabulary`; AllenNLP `elmo_indexer.py`.
    """
    if token == "<S>":
        body = [BEGIN_SENTENCE]
    elif token == "</S>":
        body = [END_SENTENCE]
    else:
        body = list(token.encode("utf-8", errors="ignore")[: max_characters - 2])
    ids = [BEGIN_WORD, *body, END_WORD]
    ids += [PAD] * (max_characters - len(ids))
    return np.array(ids, dtype=np.int64) + 1


def scalar_mix(
    layers: Array,
    weights: Sequence[float],
    gamma: float = 1.0,
    layer_norm: bool = False,
    epsilon: float = 1e-13,
) -> Array:
    """Map (L+1, n, 2P) to (n, 2P): gamma times the sum of the layers by softmax(weights).

    `weights` are the raw scalars, before the softmax. With `layer_norm` each layer is first
    centred and scaled by one mean and one variance over all n x 2P of its values, so what n covers
    matters: AllenNLP mixes with <S> and </S> in place (epsilon 1e-13; 1e-12 in 0.9) and drops
    them afterwards, bilm-tf drops them first (1e-12).
    Source: Peters et al. 2018, equation 1; AllenNLP `modules/scalar_mix.py`.
    """
    raw = np.asarray(weights, dtype=layers.dtype)
    exponentials = np.exp(raw - raw.max())
    shares = exponentials / exponentials.sum()
    mixed = np.zeros_like(layers[0])
    for share, layer in zip(shares, layers, strict=True):
        values = layer
        if layer_norm and layer.size:
            values = (layer - layer.mean()) / np.sqrt(layer.var() + epsilon)
        mixed = mixed + share * values
    return np.asarray(gamma * mixed, dtype=layers.dtype)


def clip(values: Array, limit: float | None) -> Array:
    return np.clip(values, -limit, limit) if limit else values


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def tanh(x: Array) -> Array:
    return np.asarray(np.tanh(x))


def sigmoid(x: Array) -> Array:
    # 1 / (1 + exp(-x)) written so that no large x overflows
    return 0.5 * (1 + tanh(0.5 * x))
