"""An index of uses as a folder: its manifest, its centre, its parts and its frequent words.

index.json             the manifest; `centre.npy` is float32 (L + 1, 2P)
words/                 the frequent words: `numbers.npy` and `vectors.npy`
part-00000/            a part, a folder of arrays, which processes share through the page cache:

words.bin              the UTF-8 of the words that the part has first; `word_ends.npy` their ends
word_vectors.npy       float16 (W, 2P), layer 0 of these words
token_words.npy        uint32 (N,), the number of each token's word
postings_words.npy     uint32 (W',), the different words of the part, in the order of their numbers
postings_starts.npy    uint32 (W' + 1,), where the tokens of each start in the next file, and N
postings_tokens.npy    uint32 (N,), the tokens of the first of them, of the second one, ...
sentence_starts.npy    uint64 (S + 1,), the first token of each sentence, and N
1.npy, 2.npy           float16 (N, 2P), one for each layer above 0
average.npy            float16 (N, 2P), the mean of all layers
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.files.arrays import WordList
from elmo_model.neighbours.index import NeighbourIndex
from elmo_model.neighbours.manifest import Manifest
from elmo_model.neighbours.part import AVERAGE, Part, Postings, most_frequent, word_matrix
from elmo_model.neighbours.search import FlatSearch
from elmo_model.neighbours.text import IndexFolderError, PartFacts

CENTRE: Final = "centre.npy"
WORDS: Final = "words"

_POSTINGS: Final = ("words", "starts", "tokens")
_NO_ARRAY: Final = (OSError, ValueError, EOFError, SyntaxError, TokenError)
"""What numpy raises for a damaged header, which it evaluates as Python."""


def part_folder(folder: Path, number: int) -> Path:
    """Return the folder of a part, which are numbered from 0."""
    return folder / f"part-{number:05}"


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
    check(words, manifest.words)
    return NeighbourIndex(
        manifest,
        read_centre(folder, manifest),
        tuple(parts),
        array(words / "numbers.npy", np.uint32, 1),
        FlatSearch(array(words / "vectors.npy", np.float16, 2, manifest.dimension)),
    )


def index_of_part(manifest: Manifest, centre: NDArray[np.float32], part: Part) -> NeighbourIndex:
    """Return the index of one part in memory, whose manifest has no part."""
    numbers = most_frequent([part])
    by_word = FlatSearch(word_matrix([part], numbers))
    facts = PartFacts(part.tokens, part.sentences, len(part.words), part.sentences, "", {})
    return NeighbourIndex(replace(manifest, parts=(facts,)), centre, (part,), numbers, by_word)


def open_parts(folder: Path, manifest: Manifest) -> list[Part]:
    """Open the finished parts. Raises IndexFolderError for a damaged one."""
    parts, first_word = [], 0
    for number, facts in enumerate(manifest.parts):
        own = part_folder(folder, number)
        part = open_part(own, facts.files, first_word, manifest)
        if (part.tokens, len(part.words)) != (facts.tokens, facts.words):
            raise IndexFolderError(f"{own}: is of other tokens than its manifest says")
        parts.append(part)
        first_word += facts.words
    return parts


def read_centre(folder: Path, manifest: Manifest) -> NDArray[np.float32]:
    """Return the centre (L + 1, 2P). Raises IndexFolderError where it is missing or damaged."""
    path = folder / CENTRE
    centre = array(path, np.float32, 2, manifest.dimension)
    if len(centre) != manifest.layers:
        raise IndexFolderError(f"{path}: has the shape {centre.shape}: it is damaged")
    return centre


def save_part(part: Part, folder: Path) -> None:
    """Write all of a part but the vectors, which are in files of the folder already.

    Raises OSError.
    """
    (folder / "words.bin").write_bytes(part.words.text.tobytes())
    np.save(folder / "word_ends.npy", part.words.ends)
    np.save(folder / "token_words.npy", part.token_words)
    for name in _POSTINGS:
        np.save(folder / f"postings_{name}.npy", getattr(part.postings, name))
    np.save(folder / "sentence_starts.npy", part.sentence_starts)


def sizes(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each file of a folder."""
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def check(folder: Path, files: Mapping[str, int]) -> None:
    """Check that the files of a folder are whole. Raises IndexFolderError, which names the file."""
    for name, size in files.items():
        path = folder / name
        try:
            found = path.stat().st_size
        except OSError as error:
            raise IndexFolderError(f"{path}: cannot be read: {error.strerror}") from error
        if found != size:
            raise IndexFolderError(f"{path}: has {found:,} bytes, expected {size:,}: it is damaged")


def open_part(folder: Path, files: Mapping[str, int], first_word: int, manifest: Manifest) -> Part:
    """Open a part of the index of a manifest; its words are numbered from `first_word`.

    `files` has the size of each file. Raises IndexFolderError for a file that is missing, of
    another size, or no array of its type and shape.
    """
    check(folder, files)
    if "words.bin" not in files:
        raise IndexFolderError(f"{folder}: the manifest names no words.bin: it is damaged")
    try:
        words = WordList.open(folder / "words.bin", folder / "word_ends.npy")
    except _NO_ARRAY as error:
        raise IndexFolderError(f"{folder}: words.bin or word_ends.npy: {error}") from error
    tokens, width = array(folder / "token_words.npy", np.uint32, 1), manifest.dimension
    names = [*map(str, range(1, manifest.layers)), AVERAGE]
    vectors = {name: array(folder / f"{name}.npy", np.float16, 2, width) for name in names}
    if any(len(each) != len(tokens) for each in vectors.values()):
        raise IndexFolderError(f"{folder}: has layers of different lengths: it is damaged")
    return Part(
        first_word,
        words,
        array(folder / "word_vectors.npy", np.float16, 2, width),
        tokens,
        Postings(*(array(folder / f"postings_{name}.npy", np.uint32, 1) for name in _POSTINGS)),
        array(folder / "sentence_starts.npy", np.uint64, 1),
        [vectors[name] for name in names[:-1]],
        {name: FlatSearch(each) for name, each in vectors.items()},
    )


def array(path: Path, dtype: type[np.generic], axes: int, width: int | None = None) -> NDArray[Any]:
    """Map an array of this type, number of axes and width into memory.

    Raises IndexFolderError for a file that holds another one.
    """
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except _NO_ARRAY as error:
        raise IndexFolderError(f"{path}: is no array: {error}") from error
    found: NDArray[Any] = np.asarray(mapped)  # over the same memory; much faster in small parts
    if (found.dtype, found.ndim) != (np.dtype(dtype), axes) or width not in (None, found.shape[-1]):
        fault = f"has the type {found.dtype} and the shape {found.shape}"
        raise IndexFolderError(f"{path}: {fault}: it is damaged")
    return found
