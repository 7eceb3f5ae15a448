"""`elmo embed --ray`: combinations that are refused before Ray is started."""

from pathlib import Path

import pytest

from elmo_serve.commands.embed_on_ray import gpus_of
from tests.support.embedding_runs import refused


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("a b\n")
    return path


def test_folders_need_ray(text: Path, tmp_path: Path) -> None:
    assert "--ray embeds" in refused(tmp_path, tmp_path / "x.npz", "--top", code=2)
    assert "--ray embeds" in refused(text, tmp_path, "--top", "--format", "npz", code=2)


@pytest.mark.parametrize("option", ["--actors", "--part-sentences"])
def test_options_of_parts_need_ray(text: Path, tmp_path: Path, option: str) -> None:
    line = refused(text, tmp_path / "x.npz", "--top", option, 3, code=2)

    assert f"{option} goes with --ray" in line


@pytest.mark.parametrize(
    "options",
    [
        ("--server", "http://localhost:1"),
        ("--carry-state",),
        ("--word-vectors", "x.txt"),
        ("--use-sentence-keys",),
    ],
)
def test_other_places_do_not_go_with_ray(text: Path, tmp_path: Path, options: tuple[str]) -> None:
    line = refused(text, tmp_path / "out", "--top", "--ray", "local", *options, code=2)

    assert f"{options[0]} does not go with --ray" in line


@pytest.mark.parametrize("inside", [".", "vectors", "../in/vectors"])
def test_the_parts_do_not_lie_in_the_corpus(tmp_path: Path, inside: str) -> None:
    """The next start would read them as text."""
    corpus = tmp_path / "in"
    corpus.mkdir()

    line = refused(corpus, corpus / inside, "--top", "--ray", "local", code=2)

    assert "lies in INPUT" in line
    assert list(corpus.iterdir()) == []


def test_ray_chooses_the_gpu_of_an_actor(text: Path, tmp_path: Path) -> None:
    options = ("--top", "--ray", "local", "--device", "cuda:1")

    assert "--device is auto, cpu or cuda" in refused(text, tmp_path / "out", *options, code=2)
    assert [gpus_of(name, {"GPU": 2.0}) for name in ("auto", "cpu", "cuda")] == [1, 0, 1]
    assert [gpus_of(name, {"CPU": 2.0}) for name in ("auto", "cpu", "cuda")] == [0, 0, 1]


def test_streams_and_files_are_no_folder_of_parts(text: Path, tmp_path: Path) -> None:
    assert "OUTPUT is a folder" in refused(text, "-", "--top", "--ray", "local", code=2)
    assert "OUTPUT is a folder" in refused(text, text, "--top", "--ray", "local", code=2)
    assert "standard input" in refused("-", tmp_path, "--top", "--ray", "local", code=2)
