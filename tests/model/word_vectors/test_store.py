"""Files of word vectors of every format, read once into a store of the cache folder."""

import fcntl
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_model.word_vectors.formats import WordVectorsError, tensors_of
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder
from tests.support.full_disk import full_disk

WORDS = ["the", "Zürich", "a b", "\u00a0", "東京"]
VECTORS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


_KILLED = """
import resource, signal, sys
from pathlib import Path
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the first file of 100,000 bytes ends the process
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store_folder(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def glove() -> bytes:
    rows = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, VECTORS, strict=True)]
    return "".join(rows).encode()


def word2vec_text() -> bytes:
    return b"5 3\n" + glove().replace(b"\n", b" \r\n")


def word2vec_binary() -> bytes:
    rows = [word.encode() + b" " + row.tobytes() + b"\n" for word, row in _binary_pairs()]
    return b"5 3\n" + b"".join(rows)


def without_newlines() -> bytes:
    return b"5 3\n" + b"".join(
        word.encode() + b" " + row.tobytes() for word, row in _binary_pairs()
    )


def tensors() -> bytes:
    return tensors_of([word.encode() for word in WORDS], VECTORS)


def _binary_pairs() -> list[tuple[str, np.ndarray]]:
    return [(word.replace("a b", "a_b"), row) for word, row in zip(WORDS, VECTORS, strict=True)]


FORMATS = [glove, word2vec_text, word2vec_binary, without_newlines, tensors]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_rows_of_the_file(
    tmp_path: Path, form: Callable[[], bytes], packed: bool
) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(form()) if packed else form())

    found = WordVectors.open(store_folder(path, tmp_path / "cache"))

    is_binary = form in (word2vec_binary, without_newlines)
    rows, unknown = found.look_up([word.replace(" ", "_") if is_binary else word for word in WORDS])
    np.testing.assert_array_equal(rows, VECTORS)
    np.testing.assert_array_equal(found.vectors, VECTORS)
    assert not unknown.any()
    assert found.info.words == 5 and found.dimension == 3


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path, cache = tmp_path / "vectors.txt", tmp_path / "cache"
    path.write_bytes(b"the 1 2\n")
    first = store_folder(path, cache)
    written = (first / "map.json").stat().st_mtime_ns

    assert store_folder(path, cache) == first
    assert (first / "map.json").stat().st_mtime_ns == written
    path.write_bytes(b"the 3 4\n")
    os.utime(path, ns=(1, 1))
    changed = WordVectors.open(store_folder(path, cache))

    assert changed.look_up(["the"])[0].tolist() == [[3, 4]]


def test_the_words_keep_their_order_and_the_vectors_are_written_once(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(50)]
    vectors = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    (tmp_path / "file").write_bytes(tensors_of([word.encode() for word in words], vectors))

    folder = store_folder(tmp_path / "file", tmp_path)

    found = WordVectors.open(folder)
    assert [found.words[row] for row in range(50)] == words
    np.testing.assert_array_equal(found.look_up(words)[0], vectors)
    assert [each.stat().st_size for each in folder.glob("vectors*")] == [vectors.nbytes]


def test_a_store_of_version_1_is_opened(tmp_path: Path) -> None:
    """It has the vectors as an .npy file."""
    (tmp_path / "file").write_bytes(glove())
    folder = store_folder(tmp_path / "file", tmp_path)
    (folder / "vectors.f32").unlink()
    np.save(folder / "vectors.npy", VECTORS)
    facts = (folder / "map.json").read_text()
    (folder / "map.json").write_text(facts.replace('"version": 2', '"version": 1'))

    found = WordVectors.open(store_folder(folder, tmp_path))

    np.testing.assert_array_equal(found.look_up(WORDS)[0], VECTORS)


def maps(cache: Path) -> list[Path]:
    return [each for each in (cache / "word-vectors").iterdir() if each.is_dir()]


def test_maps_of_older_versions_of_a_file_are_removed(tmp_path: Path) -> None:
    """But for those that another process uses, and those of other files."""
    path, cache = tmp_path / "vectors.txt", tmp_path / "cache"
    (tmp_path / "other.txt").write_bytes(b"the 1 2\n")
    other = store_folder(tmp_path / "other.txt", cache)

    def version(number: int) -> Path:
        path.write_bytes(b"the 1 2\n" * number)
        return store_folder(path, cache)

    version(1)
    second = version(2)
    assert set(maps(cache)) == {second, other}
    descriptor = os.open(second, os.O_RDONLY)  # as another process opens it
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    third = version(3)
    assert set(maps(cache)) == {second, third, other}
    os.close(descriptor)
    fourth = version(4)
    assert set(maps(cache)) == {fourth, other}


def test_a_map_that_a_process_uses_is_locked(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_bytes(b"the 1 2\n")
    folder = store_folder(tmp_path / "vectors.txt", tmp_path / "cache")

    for path in (tmp_path / "vectors.txt", folder):  # the folder of a map stands for its file
        assert store_folder(path, tmp_path / "cache") == folder
        descriptor = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)


def test_a_map_whose_removal_was_cut_short_is_written_again(tmp_path: Path) -> None:
    path, cache = tmp_path / "vectors.txt", tmp_path / "cache"
    path.write_bytes(b"the 1 2\n")
    (store_folder(path, cache) / "map.json").unlink()

    assert WordVectors.open(store_folder(path, cache)).look_up(["the"])[0].tolist() == [[1, 2]]


def test_the_cache_holds_maps_and_no_rest_of_a_failure(tmp_path: Path) -> None:
    path, cache = tmp_path / "vectors.txt", tmp_path / "cache"
    path.write_bytes(b"the 1 2\ncat 1\n")

    with pytest.raises(WordVectorsError, match=r"vectors\.txt:2: has 1 number behind 'cat'"):
        store_folder(path, cache)

    assert not maps(cache)


def test_the_rest_of_a_killed_read_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path, cache = tmp_path / "vectors.txt", tmp_path / "cache"
    path.write_text("".join(f"word{number} 1 2 3 4\n" for number in range(50_000)))
    killed = subprocess.run([sys.executable, "-c", _KILLED, path, cache], check=False)
    assert killed.returncode == -signal.SIGXFSZ

    folder = store_folder(path, cache)

    assert maps(cache) == [folder]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no word"),
        (gzip.compress(glove(), mtime=0)[:-9], "cannot be read: Compressed file ended"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)

    with pytest.raises(WordVectorsError, match=message):
        store_folder(path, tmp_path / "cache")


def test_a_missing_file_and_a_cache_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(WordVectorsError, match="missing: cannot be read: No such file"):
        store_folder(tmp_path / "missing", tmp_path)
    (tmp_path / "file").write_bytes(b"the 1 2\n")
    with pytest.raises(WordVectorsError, match="its map cannot be kept in"):
        store_folder(tmp_path / "file", tmp_path / "file")


@pytest.mark.parametrize("word", ["word", "a-word-of-forty-characters-" + 13 * "x"])
def test_a_full_disk_is_one_of_the_cache_and_not_of_the_file(tmp_path: Path, word: str) -> None:
    """The vectors are the first to find it full, or the words, which are longer."""
    path, cache = tmp_path / "vectors.txt", tmp_path / "cache"
    path.write_text("".join(f"{word}{number} 1 2 3 4\n" for number in range(50_000)))

    with full_disk(100_000), pytest.raises(WordVectorsError, match="its map cannot be kept in"):
        store_folder(path, cache)

    assert not maps(cache)
