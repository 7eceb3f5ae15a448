"""Adds datasets to an HDF5 file in half the time of h5py's `create_dataset`."""

import functools
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from numpy.typing import NDArray


def dataset_adder(file: h5py.File) -> Callable[[int, NDArray[Any]], None]:
    """Return a function that adds an array as the dataset of a number.

    The file is the same as by `create_dataset`, which computes type, space and properties anew for
    each dataset.
    """
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    cached_type = functools.cache(functools.partial(h5t.py_create, logical=True))
    cached_space = functools.lru_cache(maxsize=1024)(h5s.create_simple)

    def add(number: int, array: NDArray[Any]) -> None:
        array = np.ascontiguousarray(array)
        dtype = cached_type(array.dtype)
        space = cached_space(array.shape)
        dataset = h5d.create(file.id, b"%d" % number, dtype, space, properties)
        dataset.write(h5s.ALL, h5s.ALL, array, dtype)

    return add
