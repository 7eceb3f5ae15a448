"""Writes an index, part after part, so that a killed writer loses one part at most."""

import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from elmo_model.files import atomic as atomic_files
from elmo_model.files.arrays import WordList, mapped_array
from elmo_model.files.locks import LOCK
from elmo_model.neighbours import store
from elmo_model.neighbours.manifest import Manifest
from elmo_model.neighbours.part import (
    AVERAGE,
    Part,
    Postings,
    most_frequent,
    word_matrix,
    word_numbers,
)
from elmo_model.neighbours.search import FlatSearch
from elmo_model.neighbours.store import CENTRE, WORDS, part_folder
from elmo_model.neighbours.text import IndexFolderError, PartFacts

_TEMPORARY: Final = ".part-"
"""How the name of a folder that is being written begins."""


class PartWriter:
    """Takes the layers of each sentence; `finish` returns the part.

    Its vectors lie in memory, or in files of `folder`: it needs no memory of their size then.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        centre: NDArray[np.float32],
        known: Mapping[str, int],
        folder: Path | None = None,
    ) -> None:
        """Lay the part out; `centre` (L + 1, 2P) is subtracted from all vectors.

        `known` has the numbers of the words of earlier parts.
        """
        layers, width = centre.shape
        self.folder = folder
        self._centre = centre
        self._first = len(known)
        self._token_words, words = word_numbers(sentences, known)
        self._words = WordList.of(words)
        self._starts = np.cumsum([0, *map(len, sentences)], dtype=np.uint64)
        self._word_vectors = self._allocate("word_vectors", (len(words), width))
        names = [*map(str, range(1, layers)), AVERAGE]
        shape = len(self._token_words), width
        self._vectors = {name: self._allocate(name, shape) for name in names}

    def write(self, number: int, layers: NDArray[Any]) -> None:
        """Write the layers (L + 1, n, 2P) of a sentence of n tokens.

        Raises IndexFolderError for a number that float16 cannot hold.
        """
        centred = layers.astype(np.float32) - self._centre[:, np.newaxis]
        if not np.abs(centred).max(initial=0) <= np.finfo(np.float16).max:  # false for NaN as well
            raise IndexFolderError("the vectors of this model do not fit into float16")
        rows = slice(int(self._starts[number]), int(self._starts[number + 1]))
        self._vectors[AVERAGE][rows] = centred.mean(axis=0)
        for layer, vectors in enumerate(centred[1:], start=1):
            self._vectors[str(layer)][rows] = vectors
        words = self._token_words[rows].astype(np.int64) - self._first
        is_new = words >= 0
        self._word_vectors[words[is_new]] = centred[0, is_new]

    def finish(self) -> Part:
        """Return the part, once all of its sentences are written."""
        return Part(
            self._first,
            self._words,
            self._word_vectors,
            self._token_words,
            Postings.of(self._token_words),
            self._starts,
            [vectors for name, vectors in self._vectors.items() if name != AVERAGE],
            {name: FlatSearch(vectors) for name, vectors in self._vectors.items()},
        )

    def _allocate(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float16]:
        if self.folder is None:
            return np.zeros(shape, np.float16)
        return mapped_array(self.folder / f"{name}.npy", shape, np.float16)


class IndexWriter:
    """Adds parts to the index in a folder. The manifest counts those that are on the disk."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        centre: NDArray[np.float32],
        words: dict[str, int],
    ) -> None:
        self._folder = folder
        self._centre = centre
        self._words = words
        self.manifest = manifest

    @classmethod
    def begin(
        cls,
        folder: Path,
        manifest: Manifest,
        centre: NDArray[np.float32],
    ) -> Self:
        """Begin an index in a folder that is made where it is missing.

        Raises IndexFolderError for a folder with something in it, and OSError.
        """
        refuse_foreign(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_files.open_replacing(folder / CENTRE) as file:
            np.save(file, centre)
        manifest.write(folder)
        return cls(folder, manifest, centre, {})

    @classmethod
    def resume(cls, folder: Path) -> Self:
        """Continue an index. Raises IndexFolderError where it is none or is damaged."""
        manifest = Manifest.read(folder)
        for path in filter(_is_leftover, folder.iterdir()):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        words: dict[str, int] = {}
        for part in store.open_parts(folder, manifest):
            for row in range(len(part.words)):
                words[part.words[row]] = part.first_word + row
        return cls(folder, manifest, store.read_centre(folder, manifest), words)

    def new_part(self, sentences: Sequence[Sequence[str]]) -> PartWriter:
        """Begin the next part, of some sentences, in a temporary folder. Raises OSError."""
        temporary = self._folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
        temporary.mkdir()
        return PartWriter(sentences, self._centre, self._words, temporary)

    def add(self, new: PartWriter, lines: int, digest: str) -> None:
        """Add a part whose sentences are all written.

        `lines` and `digest` are those of the text of the part, see `PartFacts`. Raises OSError;
        then the index is as it was.
        """
        assert new.folder is not None, "`new_part` has made it"
        part = new.finish()
        store.save_part(part, new.folder)
        target = part_folder(self._folder, len(self.manifest.parts))
        shutil.rmtree(target, ignore_errors=True)  # of a writer killed before the manifest
        files = store.sizes(new.folder)
        atomic_files.publish(new.folder, target)
        facts = PartFacts(part.tokens, part.sentences, len(part.words), lines, digest, files)
        self._keep(replace(self.manifest, parts=(*self.manifest.parts, facts)))
        for row in range(len(part.words)):
            self._words[part.words[row]] = part.first_word + row

    def finish(self) -> None:
        """Write the frequent words of all parts, which ends the index. Raises OSError."""
        parts = store.open_parts(self._folder, self.manifest)
        numbers = most_frequent(parts)
        temporary = self._folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
        temporary.mkdir()
        np.save(temporary / "numbers.npy", numbers)
        np.save(temporary / "vectors.npy", word_matrix(parts, numbers))
        shutil.rmtree(self._folder / WORDS, ignore_errors=True)
        files = store.sizes(temporary)
        atomic_files.publish(temporary, self._folder / WORDS)
        self._keep(replace(self.manifest, words=files))

    def _keep(self, manifest: Manifest) -> None:
        manifest.write(self._folder)
        self.manifest = manifest


def refuse_foreign(folder: Path) -> None:
    """Raise IndexFolderError for a file, and for a folder with more than the start of an index."""
    if folder.is_file():
        raise IndexFolderError(f"{folder} is a file, expected a folder")
    begun, found = (CENTRE, LOCK), folder.iterdir() if folder.exists() else ()
    if any(path.name not in begun and not _is_leftover(path) for path in found):
        raise IndexFolderError(f"{folder} is not empty: an index needs a folder of its own")


def _is_leftover(path: Path) -> bool:
    """Tell whether a killed writer has left a file or folder, which no manifest names."""
    return path.name.startswith((_TEMPORARY, atomic_files.TEMPORARY))
