"""The head of a .npy file, for arrays that are written without a copy."""

import functools
import io


@functools.lru_cache(1024)  # sentences of the same length have the same header
def npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    """Return the head of a .npy file of an array."""
    import numpy as np  # noqa: PLC0415 - `elmo --help` does not wait for it

    head = io.BytesIO()
    described = {"shape": shape, "fortran_order": False, "descr": dtype}
    np.lib.format.write_array_header_1_0(head, described)
    return head.getvalue()
