"""A part of a file that is not complete: sentences and vectors, read again to write the output.

It is a zip archive, whose checksums tell a part that a power cut has damaged. `vectors` holds the
float32 numbers of all sentences, `sentences` a line of JSON for each: its text and its tokens.
"""

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.outputs.output_format import Facts, Item, Items

ENDING: Final = ".part"

_DAMAGED: Final = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


def write(path: Path, items: Items) -> None:
    """Write sentences, one or more, and their vectors."""
    lines = []
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("vectors", "w", force_zip64=True) as member:
            for sentence, vectors in items:
                member.write(vectors.tobytes())
                lines.append(orjson.dumps((sentence.text, sentence.tokens)))
        archive.writestr("sentences", b"\n".join(lines))


def parts_in(folder: Path) -> dict[int, int]:
    """Return the sentences of each whole part in a folder, by the number in its name."""
    counts = {}
    for path in folder.glob(f"[0-9]*{ENDING}"):
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is None:
                    counts[int(path.stem)] = len(_sentences(archive))
        except _DAMAGED:  # computed again
            continue
    return counts


def items_of(path: Path, facts: Facts) -> Iterator[Item]:
    """Yield the sentences of a part with their vectors.

    Raises FileError for a part that has changed since it was written.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open("vectors") as member:
            for sentence in _sentences(archive):
                shape = facts.output.shape(len(sentence.tokens), facts.model.dimension)
                data = member.read(4 * math.prod(shape))
                yield sentence, np.frombuffer(data, "<f4").reshape(shape)
    except _DAMAGED as error:
        raise FileError(f"{path} was changed after it was written") from error


def _sentences(archive: zipfile.ZipFile) -> list[Sentence]:
    lines = archive.read("sentences").split(b"\n")
    return [Sentence(*orjson.loads(line)) for line in lines]
