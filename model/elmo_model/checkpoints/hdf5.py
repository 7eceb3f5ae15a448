"""HDF5 files: arrays by name. A dataset must store the bytes that it declares."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.checkpoints.arrays import Arrays
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import MAX_RATIO, Source, head
from elmo_model.files.hdf5_writer import hdf5_writer

_TYPES = "float32, float16 or float64"
_MAX_DEPTH = 32  # groups above a dataset; more take time that grows with their cube
_MAGIC = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: Path) -> bool:
    """Return whether a file begins as HDF5 files do."""
    return head(path, len(_MAGIC)) == _MAGIC


@contextmanager
def datasets(source: Source, file: str) -> Iterator[Arrays]:
    """Open a file: its datasets by path. External links and external data are not followed.

    Raises CheckpointError if it is damaged. Errors of the body are its own.
    """
    label = source.label(file)
    members: dict[str, h5py.Dataset] = {}

    def collect(name: str, item: object) -> None:
        if name.count("/") >= _MAX_DEPTH:
            raise CheckpointError(
                f"{label}: {name[:64]}... is below {_MAX_DEPTH} groups, expected fewer"
            )
        if isinstance(item, h5py.Dataset):
            members[name] = item

    with source.open(file) as stream:
        with _reading(label):
            content = h5py.File(stream, "r")
        with content:
            with _reading(label):
                content.visititems(collect)
                shapes = {name: dataset.shape for name, dataset in members.items()}
            yield Arrays(label, shapes, lambda name: _read(members[name], label, name))


def _read(dataset: h5py.Dataset, file: str, name: str) -> Tensor:
    """Return a dataset as float32. Raises CheckpointError for no floats, or a damaged one.

    A dataset of a few bytes may declare a shape of terabytes, which h5py would allocate.
    """
    label = f"{file}: {name}"
    with _reading(file):
        if dataset.dtype.kind != "f" or dataset.dtype.itemsize > 8:
            raise CheckpointError(f"{label} is of type {dataset.dtype}, expected {_TYPES}")
        stored = dataset.id.get_storage_size()
        if dataset.is_virtual or dataset.external or dataset.nbytes > MAX_RATIO * stored:
            raise CheckpointError(
                f"{label} stores {stored:,} bytes in this file, expected {dataset.nbytes:,}"
            )
        array = np.empty(dataset.shape, dtype=np.float32)
        dataset.read_direct(array)
    return torch.from_numpy(array)


@contextmanager
def _reading(label: str) -> Iterator[None]:
    """Raise CheckpointError where h5py finds a file damaged."""
    try:
        yield
    except CheckpointError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{label}: is not a whole HDF5 file: {reason}") from error


def write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays to a new file. Raises OSError if the disk is full."""
    with hdf5_writer(path) as (file, check):
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
            check()
