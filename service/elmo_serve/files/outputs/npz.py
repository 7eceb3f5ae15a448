"""An uncompressed .npz with the arrays "0", "1", ...: the npz response of POST /embed as a file."""

# ruff: noqa: PLC0415 - numpy is imported when a file is written

from __future__ import annotations

import io
import zipfile
from functools import lru_cache

from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target


def _write(target: Target, items: Items, facts: Facts) -> None:
    from elmo_serve.http.media_types.encoder import raw

    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for number, (_, vectors) in enumerate(items):
            # A ZipInfo has a fixed date: the same input makes the same file.
            member = zipfile.ZipInfo(f"{number}.npy")
            data = b"".join((_header(vectors.shape, vectors.dtype.str), raw(vectors)))
            archive.writestr(member, data)


@lru_cache(1024)  # sentences of the same length have the same header
def _header(shape: tuple[int, ...], dtype: str) -> bytes:
    import numpy as np

    header = io.BytesIO()
    described = {"shape": shape, "fortran_order": False, "descr": dtype}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


FORMAT = OutputFormat(_write, ".npz", (".npz",), is_stream=True)
