"""An uncompressed .npz with the arrays "0", "1", ...: what POST /embed answers, as a file."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np

from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat
from elmo_serve.files.outputs.stored_zip import StoredZip
from elmo_serve.http.media_types.encoder import raw


def _write(path: Path, items: Items, facts: Facts) -> None:
    with path.open("wb") as file:
        archive = StoredZip(file, "{}.npy".format)
        for _, vectors in items:
            archive.add(_header(vectors.shape, vectors.dtype.str), raw(vectors))
        archive.finish()


@lru_cache(1024)  # a length of sentence is seldom alone
def _header(shape: tuple[int, ...], dtype: str) -> bytes:
    header = io.BytesIO()
    described = {"shape": shape, "fortran_order": False, "descr": dtype}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


FORMAT = OutputFormat(_write)
