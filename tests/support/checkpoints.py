"""Tiny real checkpoints in the published layout, sound ones and damaged ones. Only h5py and NumPy.

    folder = write_pair(tmp_path / "model", layers=3, highways=0)
    options, weights = read_pair(folder)
    poisoned_by(folder, "~")          # every token with a ~ gives NaN, all others stay the same

Functions that damage a pair change it in place and return its folder. The layout is the one of
bilm-tf's `dump_weights`, as in all published weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TINY_FILTERS = ((1, 4), (2, 4), (3, 8))
PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def write_pair(
    folder: Path,
    *,
    seed: int = 0,
    layers: int = 2,
    cell: int = 8,
    projection: int = 4,
    filters: Sequence[tuple[int, int]] = TINY_FILTERS,
    char_width: int = 4,
    highways: int = 1,
    activation: str = "relu",
    skip: bool = True,
    cell_clip: float | None = 3,
    projection_clip: float | None = 3,
    max_characters: int = 50,
    n_characters: int | None = 262,
    gain: float = 1.0,
    options_name: str = "options.json",
    weights_name: str = "weights.hdf5",
) -> Path:
    """Write options and random float32 weights to `folder`, created if need be, and return it.

    `cell` is lstm.dim, `projection` lstm.projection_dim, `filters` pairs of width and count. With
    gain 1 the clips of 3 limit some steps, not most; `gain` scales the inputs of the LSTMs.
    As in published files, there is no CNN_proj if the filters add up to `projection`, no W_P_0 if
    `cell == projection`, and the character table has 261 rows for any `n_characters`. None leaves a
    clip or n_characters out of the options. The weights depend on sizes and seed alone, not on
    activation, skip, clips and characters.
    """
    folder.mkdir(parents=True, exist_ok=True)
    char_options: dict[str, Any] = {
        "activation": activation,
        "embedding": {"dim": char_width},
        "filters": [list(pair) for pair in filters],
        "max_characters_per_token": max_characters,
        "n_highway": highways,
    }
    lstm_options: dict[str, Any] = {
        "dim": cell,
        "n_layers": layers,
        "projection_dim": projection,
        "use_skip_connections": skip,
    }
    if n_characters is not None:
        char_options["n_characters"] = n_characters
    if cell_clip is not None:
        lstm_options["cell_clip"] = cell_clip
    if projection_clip is not None:
        lstm_options["proj_clip"] = projection_clip
    options = {"char_cnn": char_options, "lstm": lstm_options}
    (folder / options_name).write_text(json.dumps(options, indent=1), encoding="utf-8")

    normal = _normal(seed)
    total = sum(count for _, count in filters)
    with h5py.File(folder / weights_name, "w") as file:
        file["char_embed"] = normal((261, char_width), 1.0)
        for number, (width, count) in enumerate(filters):
            scale = (width * char_width) ** -0.5
            file[f"CNN/W_cnn_{number}"] = normal((1, width, char_width, count), scale)
            file[f"CNN/b_cnn_{number}"] = normal((count,), 0.2)
        for number in range(highways):
            for name in ("carry", "transform"):
                file[f"CNN_high_{number}/W_{name}"] = normal((total, total), total**-0.5)
                file[f"CNN_high_{number}/b_{name}"] = normal((total,), 0.2)
        if total != projection:
            file["CNN_proj/W_proj"] = normal((total, projection), total**-0.5)
            file["CNN_proj/b_proj"] = normal((projection,), 0.2)
        for direction in range(2):
            for layer in range(layers):
                name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                kernel = normal((2 * projection, 4 * cell), gain * projection**-0.5)
                # Inputs weigh more than the past, or rounding errors would grow from word to word.
                kernel[:projection] *= 2.0
                kernel[projection:] *= 0.7
                file[f"{name}/W_0"] = kernel
                file[f"{name}/B"] = normal((4 * cell,), gain * 0.5)
                if cell != projection:
                    file[f"{name}/W_P_0"] = normal((cell, projection), gain * 4.0 * cell**-0.5)
    return folder


def write_word_pair(folder: Path, words: Sequence[str]) -> Path:
    """Write a word-input model: a table of words in the weights, no char_cnn in the options."""
    write_pair(folder)
    for name in ("char_embed", "CNN", "CNN_high_0", "CNN_proj"):
        without_dataset(folder, name)
    with_dataset(folder, "embedding", _normal(3)((len(words), 4), 1.0))
    change_options(folder, None, char_cnn=..., n_tokens_vocab=len(words))
    (folder / "vocab.txt").write_bytes("".join(f"{word}\n" for word in words).encode())
    return folder


def small_size_pair(folder: Path) -> Path:
    """Write a pair of the published small model's size: 13.6 million weights, 54 MB."""
    return write_pair(
        folder,
        cell=1024,
        projection=128,
        filters=PUBLISHED_FILTERS,
        char_width=16,
        highways=1,
    )


def original_size_pair(folder: Path, *, seed: int = 0) -> Path:
    """Write a pair of the original model's size: 93.6 million weights, 375 MB, about two seconds.

    Cell 4096, projection 512, 2048 filters, 2 highways. The vectors mean
    nothing; the speed is that of the published model. With gain 1 a network of this size amplifies
    rounding: two right programs differ by 1e-4 after 40 tokens and by 6 after 400.
    """
    return write_pair(
        folder,
        seed=seed,
        gain=0.7,
        cell=4096,
        projection=512,
        filters=PUBLISHED_FILTERS,
        char_width=16,
        highways=2,
    )


def read_pair(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the one options file and the one HDF5 file of `folder`; datasets by path.

    Raises ValueError unless there is exactly one of each.
    """
    options = json.loads(_only(folder, "*options.json").read_text(encoding="utf-8"))
    weights: dict[str, Array] = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            weights[name] = item[()]

    with h5py.File(weights_file(folder), "r") as file:
        file.visititems(collect)
    return options, weights


def weights_file(folder: Path) -> Path:
    """Return the path of the one HDF5 file in `folder`."""
    return _only(folder, "*.hdf5")


def change_options(folder: Path, section: str | None, **values: Any) -> Path:
    """Set keys in a section of the options, None for the top level; the value ... removes a key."""
    path = _only(folder, "*options.json")
    options = json.loads(path.read_text(encoding="utf-8"))
    part = options if section is None else options[section]
    for key, value in values.items():
        if value is ...:
            del part[key]
        else:
            part[key] = value
    path.write_text(json.dumps(options, indent=1), encoding="utf-8")
    return folder


def poisoned(folder: Path, name: str = "CNN_proj/b_proj", value: float = np.nan) -> Path:
    """Put `value` into the first weight of a dataset; with the defaults every token gives NaN."""

    def poison(weights: Array) -> Array:
        weights.flat[0] = value
        return weights

    return _rewritten(folder, name, poison)


def poisoned_by(folder: Path, character: str, value: float = np.nan) -> Path:
    """Put `value` into the vector of one ASCII character; sentences without it are unchanged.

    Sentences with it are NaN at every place of the upper layers, because the LSTMs run both ways;
    layer 0 is NaN at that token alone. Raises ValueError for more than one byte.
    """
    encoded = character.encode("utf-8")
    if len(encoded) != 1:
        raise ValueError(f"{character!r} is {len(encoded)} bytes long, not one")

    def poison(table: Array) -> Array:
        table[encoded[0]] = value
        return table

    return _rewritten(folder, "char_embed", poison)


def truncated(folder: Path, keep: float = 0.5) -> Path:
    """Cut the HDF5 file to a share of its bytes, as after an interrupted download."""
    path = weights_file(folder)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return folder


def without_dataset(folder: Path, name: str) -> Path:
    """Remove one dataset, or a group with everything in it."""
    with h5py.File(weights_file(folder), "r+") as file:
        del file[name]
    return folder


def with_dataset(folder: Path, name: str, value: Array) -> Path:
    """Add one dataset, or replace it."""
    with h5py.File(weights_file(folder), "r+") as file:
        if name in file:
            del file[name]
        file[name] = value
    return folder


def misshapen(folder: Path, name: str) -> Path:
    """Lengthen the last axis of a dataset by one."""

    def widen(weights: Array) -> Array:
        return np.concatenate([weights, weights[..., :1]], axis=-1)

    return _rewritten(folder, name, widen)


def with_row_zero(folder: Path, value: float = 0.0) -> Path:
    """Store row 0 of the character table as well: 262 rows. Only zeros are correct there."""

    def prepend(table: Array) -> Array:
        return np.concatenate([np.full_like(table[:1], value), table])

    return _rewritten(folder, "char_embed", prepend)


def _rewritten(folder: Path, name: str, change: Callable[[Array], Array]) -> Path:
    with h5py.File(weights_file(folder), "r") as file:
        value = file[name][()]
    return with_dataset(folder, name, change(value))


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"{folder} holds {len(found)} files {pattern}, not one")
    return found[0]


def _normal(seed: int) -> Callable[[tuple[int, ...], float], Array]:
    generator = np.random.default_rng(seed)

    def normal(shape: tuple[int, ...], scale: float) -> Array:
        values = generator.standard_normal(shape, dtype=np.float32)
        values *= np.float32(scale)
        return values

    return normal
