"""The native format: one safetensors file whose header describes the network.

The header maps strings to strings; structured values are JSON text. `docs/models.md` lists
the keys.
"""

import errno
import json
import math
import os
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmo_model.checkpoints import bilm_layout
from elmo_model.checkpoints.arrays import Arrays
from elmo_model.checkpoints.checkpoint import (
    Checkpoint,
    CheckpointError,
    checkpoint_of,
    tensors_of,
)
from elmo_model.checkpoints.description import of_header, to_header
from elmo_model.checkpoints.options_file import json_object
from elmo_model.checkpoints.source import head
from elmo_model.errors import shown
from elmo_model.files.atomic import replacing
from elmo_model.network.config import ConfigError, ElmoConfig
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.task import Task
from elmo_model.text import alphabets
from elmo_model.text.alphabets import Alphabet, AlphabetError, WordAlphabet
from elmo_model.validation import parsed

NAME = "native"
RUN_FILE = "model.safetensors"
"""The file that `elmo train` leaves in the folder of a run."""

_FORMAT = "elmo-serve"
_VERSION = "1"
_MAX_HEADER = 100_000_000  # bytes, the limit of safetensors itself
_TYPES = ("F32", "F16", "BF16")


def recognises(path: Path) -> bool:
    """Return whether `path` is a safetensors file, or the folder of a run that holds one.

    A safetensors file begins with the length of its JSON header, 8 bytes, and the header.
    """
    if path.is_dir():
        return (path / RUN_FILE).is_file() and recognises(path / RUN_FILE)
    start = head(path, 9)
    if len(start) < 9:
        return False
    (length,) = struct.unpack("<Q", start[:8])
    return start[8:] == b"{" and length <= min(_MAX_HEADER, path.stat().st_size)


def read(path: Path) -> Checkpoint:
    """Read a native file. Raises CheckpointError if another program wrote it or it is damaged."""
    if path.is_dir():
        path /= RUN_FILE
    with opened(path) as file:
        header = file.metadata() or {}
        config, alphabet = _config_and_alphabet(path, header)
        tensors = _tensors(path, file, config, alphabet)
        tasks = _tasks(path, header, config.layers)
        description = of_header(path, header, config)
    name = header.get("name", path.stem)
    return Checkpoint(name, NAME, config, alphabet, tensors, tasks, description=description)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file. Raises CheckpointError, in the block as well, for a damaged one."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: is not a whole safetensors file: {error}") from error


def save(elmo: ElmoNetwork, path: str | Path, dtype: torch.dtype = torch.float32) -> None:
    """Write a network to one file, atomically; `dtype` is float32, float16 or bfloat16.

    Raises OSError where the disk is full, CheckpointError for a network that cannot be written.
    """
    checkpoint = checkpoint_of(elmo)
    header = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "name": checkpoint.name,
        "config": json.dumps(checkpoint.config.to_dict()),
        "alphabet": json.dumps(checkpoint.alphabet.to_dict()),
        **to_header(checkpoint.description),
    }
    if checkpoint.tasks:
        header["tasks"] = json.dumps([asdict(task) for task in checkpoint.tasks])
    tensors = {name: tensor.to(dtype).contiguous() for name, tensor in checkpoint.tensors.items()}
    write(Path(path), tensors, header)


def write(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    """Write a safetensors file, atomically. Raises OSError where the disk is full."""
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=header)
        except SafetensorError as error:  # of I/O: the library gives its number in the text
            number = re.search(r"os error (\d+)", str(error))
            code = int(number[1]) if number else errno.EIO
            text = os.strerror(code) if number else str(error)
            raise OSError(code, text, str(path)) from error


def _config_and_alphabet(path: Path, header: Mapping[str, str]) -> tuple[ElmoConfig, Alphabet]:
    """Read configuration and alphabet from the header, and compare their sizes."""
    for key, known in (("format", _FORMAT), ("format_version", _VERSION)):
        if (found := header.get(key)) != known:
            raise CheckpointError(f"{path}: header {key} is {shown(found)}, expected {known!r}")
    described = {
        key: json_object(f"{path}: header {key}", header.get(key, ""))
        for key in ("config", "alphabet")
    }
    try:
        config = ElmoConfig.from_dict(described["config"])
        alphabet = alphabets.from_dict(described["alphabet"])
    except (ConfigError, AlphabetError) as error:
        raise CheckpointError(f"{path}: header {error}") from error
    cnn, words = config.char_cnn, config.words
    sizes = []
    if cnn:
        sizes.append(("char_cnn.characters", cnn.characters, alphabet.size))
        sizes.append(("char_cnn.max_characters", cnn.max_characters, alphabet.max_characters))
    if words:
        rows = alphabet.word_count if isinstance(alphabet, WordAlphabet) else 0
        sizes.append(("words.count", words.count, rows))
    for key, size, expected in sizes:
        if size != expected:
            raise CheckpointError(
                f"{path}: header {key} is {size}, expected {expected} by the alphabet"
            )
    return config, alphabet


def _tasks(path: Path, header: Mapping[str, str], layers: int) -> tuple[Task, ...]:
    if "tasks" not in header:
        return ()
    try:
        tasks = parsed(tuple[Task, ...], header["tasks"], "tasks")
    except ValueError as error:
        raise CheckpointError(f"{path}: header {error}") from error
    for task in tasks:
        if len(task.weights) != layers or not all(map(math.isfinite, (*task.weights, task.gamma))):
            raise CheckpointError(
                f"{path}: header tasks: {shown(task.name)} has the weights {shown(task.weights)} "
                f"and gamma {task.gamma}, expected {layers} finite numbers and one"
            )
    return tasks


def arrays_in(path: Path, file: Any, types: Mapping[str, Collection[str]]) -> Arrays:
    """Return the tensors of an open file as arrays; `types` are those allowed for each name.

    The library maps the file, so its tensors change with the file.
    """
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118

    def read(name: str) -> Tensor:
        if (kind := slices[name].get_dtype()) not in types[name]:
            expected = ", ".join(types[name])
            raise CheckpointError(f"{path}: {name} is of type {kind}, expected {expected}")
        tensor: Tensor = file.get_tensor(name)
        return tensor

    shapes = {name: tuple(each.get_shape()) for name, each in slices.items()}
    return Arrays(str(path), shapes, read)


def _tensors(path: Path, file: Any, config: ElmoConfig, alphabet: Alphabet) -> dict[str, Tensor]:
    """Return the tensors as float32. Raises CheckpointError if one is missing or unexpected."""
    arrays = arrays_in(path, file, dict.fromkeys(file.keys(), _TYPES))
    # before a network is made, which may have a million layers
    for entry in bilm_layout.entries(config):
        for name in entry.tensors:
            if name not in arrays.shapes:
                raise CheckpointError(f"{path}: {name} is missing, expected by the header")
    needed = tensors_of(config, alphabet)
    arrays.refuse_unexpected(needed, "the header")
    return {
        name: arrays.take(name, tuple(each.shape), "the header").to(torch.float32, copy=True)
        for name, each in needed.items()
    }
