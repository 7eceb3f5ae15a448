"""Checkpoints as AllenNLP and TensorFlow save them: sound ones, and ones that neither writes.

AllenNLP's are made from a published pair, by the names of its modules. TensorFlow's are written
without TensorFlow: its table, protocol buffers and checksums share no code with the reader.

    write_bundle(folder / "model.ckpt-6", {"lm/char_embed": table}, shards=2)
"""

import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tests.support import golden
from tests.support.checkpoints import read_pair
from tests.support.files import write_tar

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


Array = npt.NDArray[np.generic]

TYPES = {"float32": 1, "float64": 2, "int64": 9}


def write_bundle(
    prefix: Path,
    arrays: Mapping[str, Array],
    *,
    shards: int = 1,
    compression: int = 0,
    big_endian: bool = False,
    sliced: str | None = None,
) -> Path:
    """Write `<prefix>.index` and its data files; array i goes to shard i modulo `shards`.

    `compression` is declared by the blocks, which stay uncompressed; `sliced` is an array that is
    declared to have slices. Returns the path of the index.
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data = [b""] * shards
    header = _field(1, shards) + (_field(2, 1) if big_endian else b"") + _field(3, _field(1, 1))
    pairs = [(b"", header)]
    for number, name in enumerate(sorted(arrays)):
        array, shard = arrays[name], number % shards
        content = array.tobytes()
        shape = b"".join(_field(2, _field(1, size)) for size in array.shape)
        entry = _field(1, TYPES[array.dtype.name]) + _field(2, shape)
        entry += _field(3, shard) + _field(4, len(data[shard])) + _field(5, len(content))
        entry += _varint(6 << 3 | 5) + struct.pack("<I", masked(content))
        if name == sliced:
            entry += _field(7, b"")
        pairs.append((name.encode(), entry))
        data[shard] += content
    for number, content in enumerate(data):
        Path(f"{prefix}.data-{number:05d}-of-{shards:05d}").write_bytes(content)
    index = Path(f"{prefix}.index")
    index.write_bytes(table(pairs, compression=compression))
    return index


def masked(content: bytes) -> int:
    """Return the checksum of bytes as TensorFlow writes it."""
    value = _crc(content)
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def table(pairs: list[tuple[bytes, bytes]], entries: int = 7, compression: int = 0) -> bytes:
    """Return a table of LevelDB, with `entries` pairs a block."""
    out, handles = b"", []
    for start in range(0, len(pairs), entries):
        block = pairs[start : start + entries]
        handles.append((block[-1][0], _varint(len(out)) + _varint(len(_block(block)))))
        out += _closed(_block(block), compression)
    meta = _varint(len(out)) + _varint(len(_block([])))
    out += _closed(_block([]), 0)
    index = _varint(len(out)) + _varint(len(_block(handles)))
    out += _closed(_block(handles), 0)
    return out + (meta + index).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def _block(pairs: list[tuple[bytes, bytes]]) -> bytes:
    out, last = b"", b""
    for key, value in pairs:
        shared = 0
        while shared < min(len(key), len(last)) and key[shared] == last[shared]:
            shared += 1
        own = key[shared:]
        out += _varint(shared) + _varint(len(own)) + _varint(len(value)) + own + value
        last = key
    return out + struct.pack("<II", 0, 1)


def _closed(block: bytes, compression: int) -> bytes:
    whole = block + bytes([compression])
    return whole + struct.pack("<I", masked(whole))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _crc(content: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in content:
        value = _BYTES[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF


def _of_byte(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_BYTES = [_of_byte(byte) for byte in range(256)]


def variables(folder: Path) -> dict[str, Array]:
    """Return the datasets of a pair by the names of the variables in bilm-tf's training graph."""
    _, weights = read_pair(folder)
    cells = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    named: dict[str, Array] = {}
    for name, array in weights.items():
        parts = name.split("/")
        if parts[0].startswith("RNN"):
            cell = parts[3].replace("Cell", "cell_")
            name = f"{parts[0]}/rnn/multi_rnn_cell/{cell}/lstm_cell/{cells[parts[5]]}"  # noqa: PLW2901
        named[f"lm/{name}"] = array
        named[f"lm/{name}/Adagrad"] = np.ones_like(array)
    named["lm/softmax/W"] = np.zeros((9, 4), np.float32)
    named["global_step"] = np.array(7, np.int64)
    return named
