"""HDF5 files: arrays by name. A dataset must store the bytes that it declares."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import MAX_RATIO, Source, head
from elmo_model.hdf5_writer import hdf5_writer

_MAGIC = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: Path) -> bool:
    """Return whether a file begins as HDF5 files do."""
    return head(path, len(_MAGIC)) == _MAGIC


@dataclass(frozen=True, slots=True)
class Datasets:
    """The datasets of an open file by path. External links and external data are not followed."""

    label: str
    datasets: dict[str, h5py.Dataset]

    def names(self) -> Collection[str]:
        """Return the paths of all datasets."""
        return self.datasets.keys()

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a dataset; None for one without a shape."""
        shape: tuple[int, ...] | None = self.datasets[name].shape
        return shape

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return a dataset. Raises CheckpointError if it is not float32, or stores too few bytes.

        A dataset of a few bytes may declare a shape of terabytes, which h5py would allocate.
        """
        dataset, label = self.datasets[name], f"{self.label}: {name}"
        if dataset.dtype.kind != "f" or dataset.dtype.itemsize != 4:
            raise CheckpointError(f"{label} is of type {dataset.dtype}, expected float32")
        stored = dataset.id.get_storage_size()
        if dataset.is_virtual or dataset.external or dataset.nbytes > MAX_RATIO * stored:
            raise CheckpointError(
                f"{label} stores {stored:,} bytes in this file, expected {dataset.nbytes:,}"
            )
        array = np.empty(dataset.shape, dtype=np.float32)
        dataset.read_direct(array)
        return array


@contextmanager
def datasets(source: Source, file: str) -> Iterator[Datasets]:
    """Open a file. Raises CheckpointError if it is damaged, also while the block reads from it."""
    found = Datasets(source.label(file), {})

    def collect(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found.datasets[name] = item

    with source.open(file) as stream:
        try:
            with h5py.File(stream, "r") as content:
                content.visititems(collect)
                yield found
        except CheckpointError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{found.label}: is not a whole HDF5 file: {reason}") from error


def write(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays to a new file. Raises OSError if the disk is full."""
    with hdf5_writer(path) as (file, check):
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
            check()
