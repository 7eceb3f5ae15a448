"""An index of uses as a folder: its manifest, its centre, its parts and its frequent words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.neighbours import part_files
from elmo_model.neighbours.errors import IndexFolderError
from elmo_model.neighbours.flat_search import FlatSearch
from elmo_model.neighbours.frequent_words import FrequentWords, most_frequent
from elmo_model.neighbours.manifest import Manifest, PartFacts, part_folder
from elmo_model.neighbours.neighbour_index import IndexInfo, NeighbourIndex
from elmo_model.neighbours.part import Part

CENTRE: Final = "centre.npy"
WORDS: Final = "words"


def open_index(folder: Path) -> NeighbourIndex:
    """Open an index; its arrays are memory-mapped, so that opening it takes milliseconds.

    Raises IndexFolderError for a folder that is no index, is not finished or is damaged.
    """
    manifest = Manifest.read(folder)
    if manifest.words is None:
        raise IndexFolderError(
            f"{folder} is not finished: {manifest.tokens:,} tokens are indexed; "
            "the same `elmo index` command continues it"
        )
    parts = open_parts(folder, manifest)
    words = folder / WORDS
    part_files.check(words, manifest.words)
    frequent = FrequentWords(
        part_files.array(words / "numbers.npy"),
        part_files.open_search(words, "vectors", manifest.words),
    )
    return index_of(manifest, read_centre(folder, manifest), parts, frequent)


def index_of(
    manifest: Manifest, centre: NDArray[np.float32], parts: Sequence[Part], frequent: FrequentWords
) -> NeighbourIndex:
    """Return the index of a manifest and its parts."""
    info = IndexInfo(
        manifest.text,
        manifest.model,
        manifest.revision,
        manifest.tokens,
        sum(part.sentences for part in manifest.parts),
        manifest.known_words,
    )
    return NeighbourIndex(info, centre, tuple(parts), frequent)


def index_of_part(manifest: Manifest, centre: NDArray[np.float32], part: Part) -> NeighbourIndex:
    """Return the index of one part in memory, whose manifest has no part."""
    numbers = most_frequent([part])
    frequent = FrequentWords(numbers, FlatSearch(word_matrix([part], numbers)))
    facts = PartFacts(part.tokens, part.sentences, len(part.words), part.sentences, "", {})
    return index_of(manifest.with_part(facts), centre, [part], frequent)


def open_parts(folder: Path, manifest: Manifest) -> list[Part]:
    """Open the finished parts. Raises IndexFolderError for a damaged one."""
    parts, first_word = [], 0
    for number, facts in enumerate(manifest.parts):
        own = part_folder(folder, number)
        part = part_files.open_part(own, facts.files, first_word, manifest.layers)
        if (part.tokens, len(part.words)) != (facts.tokens, facts.words):
            raise IndexFolderError(f"{own}: is of other tokens than its manifest says")
        parts.append(part)
        first_word += facts.words
    return parts


def read_centre(folder: Path, manifest: Manifest) -> NDArray[np.float32]:
    """Return the centre (L + 1, 2P). Raises IndexFolderError where it is missing or damaged."""
    path = folder / CENTRE
    centre = np.asarray(part_files.array(path))
    if centre.shape != (manifest.layers, manifest.dimension) or centre.dtype != np.float32:
        raise IndexFolderError(f"{path}: has the shape {centre.shape}: it is damaged")
    return centre


def word_matrix(parts: Sequence[Part], numbers: NDArray[np.uint32]) -> NDArray[np.float16]:
    """Map word numbers (n,) to their token layers (n, 2P)."""
    found = np.empty((len(numbers), parts[0].word_vectors.shape[1]), np.float16)
    for part in parts:
        own = numbers.astype(np.int64) - part.first_word
        inside = (own >= 0) & (own < len(part.words))
        found[inside] = part.word_vectors[own[inside]]
    return found
