"""An uncompressed .npz with the arrays "0", "1", ...: the npz response of POST /embed as a file."""

from __future__ import annotations

import zipfile

from elmo_model.files.npy import npy_header
from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target


def _write(target: Target, items: Items, facts: Facts) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for number, (_, vectors) in enumerate(items):
            # A ZipInfo has a fixed date: the same input makes the same file.
            member = zipfile.ZipInfo(f"{number}.npy")
            data = npy_header(vectors.shape, vectors.dtype.str) + vectors.tobytes()
            archive.writestr(member, data)


FORMAT = OutputFormat(_write, ".npz", (".npz",), is_stream=True, holds_pooled=True)
