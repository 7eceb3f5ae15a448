"""The folder of an index: what is refused at the start."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from elmo_model.files.locks import share_folder
from elmo_model.uses.files import IndexWriter, open_index, temporary_folder
from elmo_model.uses.index import UsesIndex
from elmo_model.uses.indexing import write_index
from elmo_model.uses.text import IndexFolderError
from tests.support.files import full_disk
from tests.support.made_up import DESCRIPTION, LAYERS, WIDTH, MadeUp, made_up_index

SENTENCES = [["a", "b", "\u2028"], ["c\r"], ["a", "\ud800", "c"]]
LINES = [1, 3, 9]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made_up_index(tmp_path / "index", SENTENCES, LINES)
    return tmp_path / "index"


def rewritten(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], object]:
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        assert old in data
        (folder / name).write_bytes(data.replace(old, new, 1))

    return change


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-1])


def test_the_centre_is_the_mean_of_some_10_000_tokens_of_the_text(tmp_path: Path) -> None:
    text = [[f"w{number}"] * 3 for number in range(10_000)]  # three times as many
    write_index(MadeUp(), text, tmp_path / "large", DESCRIPTION, 4_000)

    index = open_index(tmp_path / "large")

    assert (index.info.centre, index.info.centre_tokens) == (DESCRIPTION.text, 10_002)
    expected = np.concatenate([MadeUp.layers(each) for each in text[::3]], axis=1).mean(axis=1)
    # float32 sums in another order
    np.testing.assert_allclose(index.centre, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "damage",
    [
        *(cut(name) for name in ("index.json", "centre.npy", "words.txt", "tokens.npy", "2.npy")),
        *(lambda folder, name=name: (folder / name).unlink() for name in ("index.json", "0.npy")),
        rewritten("tokens.npy", lambda array: array + 9),
        rewritten("tokens.npy", lambda array: array.astype(np.int64)),
        rewritten("starts.npy", lambda array: array[::-1]),
        rewritten("starts.npy", lambda array: array + 1),
        rewritten("lines.npy", lambda array: array[1:]),
        rewritten("1.npy", lambda array: array[:, 1:]),
        rewritten("1.npy", np.asfortranarray),
        rewritten("1.npy", lambda array: array.astype(np.float32)),
        replaced("1.npy", b"{'descr'", b"{{{{{{{{"),
        replaced("1.npy", b"'<f2'", b"'|O8'"),
        replaced("words.txt", b"b\n", b"\xff\n"),
        replaced("words.txt", b"b\n", b"\n\n"),
        replaced("index.json", b'"version": 4', b'"version": 2'),
        replaced("index.json", b'"examples": []', b'"examples": [5]'),
        replaced("index.json", b'"layers": 3', b'"layers": "x"'),
        replaced("index.json", b'"dimension": 8', b'"dimension": 9'),
        lambda folder: (folder / "index.json").write_text("[]"),
        lambda folder: (folder / "index.json").write_text("[" * 100_000),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(
    folder: Path, damage: Callable[[Path], object]
) -> None:
    damage(folder)

    with pytest.raises(IndexFolderError, match="is no index"):
        open_index(folder)


def test_changed_bytes_are_searched_or_refused(folder: Path) -> None:
    """Wherever they are: at the start or later no other error is raised, nor the process ended."""
    draw = np.random.default_rng(0)
    for path in sorted(folder.glob("*.*")):
        whole = path.read_bytes()
        for _ in range(30):
            data = np.frombuffer(whole, np.uint8).copy()
            data[draw.integers(len(data))] ^= np.uint8(1 << draw.integers(8))
            path.write_bytes(data.tobytes())
            with suppress(IndexFolderError):
                searched(open_index(folder))
        path.write_bytes(whole)


@np.errstate(all="ignore")  # a changed bit may make a NaN
def searched(index: UsesIndex) -> None:
    index.nearest_uses(MadeUp.layers(["a"])[:, 0], (0.2, 0.3, 0.5), 5)
    index.nearest_words(MadeUp.layers(["a"])[0, 0], 5)


def test_an_index_without_lines_knows_none(folder: Path) -> None:
    assert [use.line for use in open_index(folder).uses_of("a", 0, 9)[1]] == [1, 9]
    (folder / "lines.npy").unlink()

    assert [use.line for use in open_index(folder).uses_of("a", 0, 9)[1]] == [None, None]


def test_an_index_in_memory_is_that_of_the_folder(folder: Path) -> None:
    stored = open_index(folder)
    writer = IndexWriter(stored.info, stored.centre, SENTENCES)
    for number, sentence in enumerate(SENTENCES):
        writer.write(number, MadeUp.layers(sentence))

    index = writer.finish()

    assert (index.info, index.words) == (stored.info, stored.words)
    for one, two in zip(index.vectors, stored.vectors, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("number", [1e5, np.nan])
def test_vectors_beyond_float16_are_refused(number: float) -> None:
    writer = IndexWriter(DESCRIPTION, np.zeros((LAYERS, WIDTH), np.float32), [["a"]])

    with pytest.raises(IndexFolderError, match="float16"):
        writer.write(0, np.full((LAYERS, 1, WIDTH), number, np.float32))


def test_a_folder_that_exists_is_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()

    for taken in (folder, tmp_path, tmp_path / "file"):
        with pytest.raises(IndexFolderError, match="exists"):
            write_index(MadeUp(), SENTENCES, taken, DESCRIPTION, 100)
    write_index(MadeUp(), SENTENCES, tmp_path / "empty", DESCRIPTION, 100)

    assert open_index(tmp_path / "empty").info == open_index(folder).info
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "index"]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with full_disk(100), pytest.raises(OSError, match="File too large"):
        made_up_index(tmp_path / "index", SENTENCES)

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    for name in (".elmo-uses-killed.tmp", ".elmo-uses-running.tmp"):
        (tmp_path / name / "part").mkdir(parents=True)
    (tmp_path / ".elmo-uses-renamed.tmp").symlink_to("nowhere")
    lock = share_folder(tmp_path / ".elmo-uses-running.tmp")

    with temporary_folder(tmp_path) as folder:
        assert folder.is_dir()
    os.close(lock)

    left = [".elmo-uses-renamed.tmp", ".elmo-uses-running.tmp"]
    assert sorted(path.name for path in tmp_path.iterdir()) == left
