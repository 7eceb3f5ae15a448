"""Datasets added to an HDF5 file in less time than h5py takes for each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from numpy.typing import NDArray


def adder(file: h5py.File) -> Callable[[int, NDArray[Any]], None]:
    """Return a function that adds an array as the dataset of that number.

    The same file as by `File.create_dataset`, in half the time: that decides anew for each dataset
    what is the same for all of them.
    """
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    kind = functools.cache(functools.partial(h5t.py_create, logical=True))
    space = functools.lru_cache(maxsize=1024)(h5s.create_simple)

    def add(number: int, array: NDArray[Any]) -> None:
        array = np.ascontiguousarray(array)
        its_kind = kind(array.dtype)
        dataset = h5d.create(file.id, b"%d" % number, its_kind, space(array.shape), properties)
        dataset.write(h5s.ALL, h5s.ALL, array, its_kind)

    return add
