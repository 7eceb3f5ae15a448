"""`elmo index`: resumed after SIGKILL, refused where it does not fit, with file and line."""

from __future__ import annotations

import json
import lzma
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from elmo_model.models.opening import open_model
from elmo_model.neighbours.store import open_index
from tests.support import fork_server
from tests.support.command_line import elmo
from tests.support.servers import SMALL

LINES = [
    " ".join(f"w{(row * 7 + place) % 23}" for place in range(1 + row % 9)) for row in range(90)
]
TOKENS = sum(len(line.split()) for line in LINES)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join([*LINES[:40], "", " ", *LINES[40:]]) + "\n\n")
    return path


def index(text: Path, folder: Path, *options: object) -> str:
    result = elmo("index", text, folder, "--model", SMALL, *options)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object, code: int = 1) -> str:
    result = elmo("index", *arguments)
    assert result.exit_code == code, result.output
    (line,) = result.output.splitlines()
    return line


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_index_holds_the_vectors_of_every_token(text: Path, tmp_path: Path) -> None:
    output = index(text, tmp_path / "index", "--tokenised", "--part-tokens", 100)

    assert f"{TOKENS:,} tokens, 90 sentences, 23 distinct words" in output
    found = open_index(tmp_path / "index")
    assert len(found.parts) > 3
    network = open_model(str(SMALL))
    token = 0
    for line in LINES:
        words = line.split()
        (layers,) = network.embed([words])
        for place in range(len(words)):
            assert found.place(token) == (tuple(words), place)
            stored = found.mixed(np.array([token]), np.array([0.2, 0.3, 0.5], np.float32))[0]
            exact = np.array([0.2, 0.3, 0.5]) @ (layers[:, place].numpy() - found.centre)
            np.testing.assert_allclose(stored, exact, atol=5e-3)
            token += 1
    assert token == found.info.tokens == TOKENS


def test_a_killed_run_goes_on_and_gives_the_same_index(text: Path, tmp_path: Path) -> None:
    """All runs are processes of their own: other tests leave this one other torch settings."""
    words, source = [f"w{number}" for number in range(23)], random.Random(0)
    lines = {" ".join(source.choices(words, k=5)): None for _ in range(1_200)}  # each line once
    text.write_text("\n".join(lines) + "\n")
    options = ("--tokenised", "--part-tokens", 400)
    started(text, tmp_path / "whole", *options).wait()
    whole = len(parts(tmp_path / "whole"))
    folder = tmp_path / "killed"
    # Where this test was not run in time, the command has ended by itself: begin again.
    while not 2 <= killed_after(2, text, folder, *options) < whole:
        shutil.rmtree(folder)

    again = fork_server.run(command(text, folder, *options), environment())

    assert "of them by an earlier run" in again.stdout
    assert contents(folder) == contents(tmp_path / "whole")


def command(text: Path, folder: Path, *options: object) -> list[str]:
    return ["elmo", "index", str(text), str(folder), "--model", str(SMALL), *map(str, options)]


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}


def started(text: Path, folder: Path, *options: object) -> fork_server.Forked:
    return fork_server.forked(command(text, folder, *options), environment())


def killed_after(count: int, text: Path, folder: Path, *options: object) -> int:
    """Kill `elmo index` when it has so many parts, and return how many it has by then."""
    run = started(text, folder, *options)
    while run.poll() is None and len(parts(folder)) < count:
        time.sleep(0.005)
    run.kill()
    assert run.wait() in (0, -signal.SIGKILL)
    return len(parts(folder))


def parts(folder: Path) -> list[object]:
    try:
        found: list[object] = json.loads((folder / "index.json").read_text())["parts"]
    except FileNotFoundError:
        return []
    return found


def test_a_finished_index_stays_as_it_is(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index(text, folder)
    before = contents(folder)

    assert f"{TOKENS:,} of them by an earlier run" in index(text, folder)
    assert contents(folder) == before


def test_text_is_split_as_the_training_text_of_the_model(tmp_path: Path) -> None:
    text = tmp_path / "text.txt.xz"
    text.write_bytes(lzma.compress(b"It can't rain.\n"))
    for name, words in (("ptb", ["It", "ca", "n't", "rain", "."]), (None, ["It", "can", "'t"])):
        folder = tmp_path / str(name)
        index(text, folder, *(("--tokenizer", name) if name else ()))

        sentence, _ = open_index(folder).place(0)
        assert list(sentence[: len(words)]) == words


def test_another_text_is_refused(text: Path, tmp_path: Path) -> None:
    index(text, tmp_path / "index", "--part-tokens", 100)
    lines = text.read_text().splitlines()
    lines[2] = "other"
    text.write_text("\n".join(lines))

    line = refused(text, tmp_path / "index", "--model", SMALL, "--part-tokens", 100)

    assert line.startswith(f"elmo: {text}: lines 1 to ")
    assert line.endswith("have changed since they were indexed")


def test_a_text_with_more_lines_is_refused(text: Path, tmp_path: Path) -> None:
    index(text, tmp_path / "index")
    text.write_text(text.read_text() + "one more\n")

    line = refused(text, tmp_path / "index", "--model", SMALL)

    assert "has more lines than the finished index of it" in line


def test_another_model_or_tokenizer_is_refused(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index(text, folder)

    model = refused(text, folder, "--model", "random-small")
    split = refused(text, folder, "--model", SMALL, "--tokenizer", "ptb")

    assert "is an index of the model small, revision" in model
    assert "name another folder" in model
    assert "is an index with the tokenizer 'moses', expected 'ptb'" in split


def test_a_folder_that_is_no_index_is_left_alone(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")

    assert "is not empty" in refused(text, folder, "--model", SMALL)
    assert "is a file, expected a folder" in refused(text, text, "--model", SMALL)
    assert contents(folder) == {"thesis.txt": b"mine"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a b\nc \xff d\n", ":2: is not UTF-8: invalid start byte"),
        (b"a\n" * 3 + b"b " * 1_001 + b"\n", ":4: has 1,001 tokens and at most 1,000"),
        (b"\n \n", "has no token"),
        (b"", "has no token"),
    ],
)
def test_a_fault_of_the_text_is_named_with_its_line(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(data)

    line = refused(text, tmp_path / "index", "--model", SMALL, "--tokenised")

    assert line.startswith(f"elmo: {text}")
    assert reason in line
    (other := tmp_path / "other.txt").write_text("a b\n")  # nothing is kept that is in its way
    assert elmo("index", other, tmp_path / "index", "--model", SMALL, "--tokenised").exit_code == 0


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text.txt.xz"
    text.write_bytes(lzma.compress(b"a b c\n" * 1_000)[:-20])

    assert f"elmo: {text}" in refused(text, tmp_path / "index", "--model", SMALL)


def test_a_torn_index_is_named(text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index(text, folder)
    (folder / "index.json").write_text("{")

    assert "index.json is no JSON" in refused(text, folder, "--model", SMALL)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--tokenised", "--tokenizer", "ptb"], "--tokenised says that it is split already"),
    ],
)
def test_options_that_exclude_each_other(text: Path, options: list[str], reason: str) -> None:
    assert reason in refused(text, text.parent / "x", "--model", SMALL, *options, code=2)


def test_a_missing_model_is_one_line(text: Path) -> None:
    assert "nonesuch" in refused(text, text.parent / "x", "--model", "nonesuch")
