"""Word vectors of the command line lie in the cache folder."""

from pathlib import Path

import pytest

from elmo_serve.commands.word_vector_map import with_word_vectors, word_vector_map
from elmo_serve.settings import Settings


def test_settings_get_the_folder_of_the_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "static.txt"
    path.write_text("cat 1 2\n")
    settings = Settings(word_vectors=path, cache=tmp_path / "cache")

    found = with_word_vectors(settings)

    assert found.word_vectors is not None and found.word_vectors.is_dir()
    assert found.word_vectors.parent == tmp_path / "cache" / "word-vectors"
    assert f"elmo: reading {path}" in capsys.readouterr().err
    assert with_word_vectors(found) == found
    assert with_word_vectors(Settings()) == Settings()


def test_a_file_that_cannot_be_looked_up_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("x" * 300)

    with pytest.raises(SystemExit) as ended:
        with_word_vectors(Settings(word_vectors=path, cache=tmp_path))

    assert ended.value.code == 1
    assert f"elmo: {path}: cannot be read: File name too long" in capsys.readouterr().err


def test_a_damaged_file_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "static.txt").write_text("cat 1 2\ndog\n")

    with pytest.raises(SystemExit) as ended:
        word_vector_map(tmp_path / "static.txt", tmp_path)

    assert ended.value.code == 1
    assert "static.txt:2: has 0 numbers behind 'dog'" in capsys.readouterr().err
