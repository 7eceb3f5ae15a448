"""An uncompressed .npz with the arrays "0", "1", ...: the npz response of POST /embed as a file.

With sentences as keys the arrays have their texts as names.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target
from elmo_serve.output import npy_header

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _write(target: Target, items: Items, facts: Facts) -> None:
    _write_named(target, ((str(number), vectors) for number, (_, vectors) in enumerate(items)))


def write_by_sentence(target: Target, items: Items, facts: Facts) -> None:
    """Write each array under the text of its sentence. No text may repeat."""
    _write_named(target, ((sentence.text, vectors) for sentence, vectors in items))


def _write_named(target: Target, arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, vectors in arrays:
            # A ZipInfo has a fixed date: the same input makes the same file.
            member = zipfile.ZipInfo(f"{name}.npy")
            data = npy_header(vectors.shape, vectors.dtype.str) + vectors.tobytes()
            archive.writestr(member, data)


FORMAT = OutputFormat(_write, ".npz", (".npz",), is_stream=True)
