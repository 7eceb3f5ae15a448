"""An uncompressed .npz with the arrays "0", "1", ...: what POST /embed answers, as a file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from service.embedding_files.outputs.output_format import Facts, Items, OutputFormat


def _write(path: Path, items: Items, facts: Facts) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for number, (_, vectors) in enumerate(items):
            is_large = vectors.nbytes >= zipfile.ZIP64_LIMIT
            with archive.open(f"{number}.npy", "w", force_zip64=is_large) as member:
                np.lib.format.write_array(member, vectors, allow_pickle=False)


FORMAT = OutputFormat(_write)
