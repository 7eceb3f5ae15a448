"""`elmo word-vectors` on the command line."""

from pathlib import Path

import pytest

from elmo_serve.commands.serve_settings import with_word_vectors
from elmo_serve.settings import Settings, SettingsError
from tests.support.command_line import elmo
from tests.support.servers import SMALL


def test_it_writes_a_file_that_elmo_embed_appends(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat\n")
    out = tmp_path / "static.safetensors"

    made = elmo("word-vectors", SMALL, "--words", 3, "--text", tmp_path / "text.txt", "--out", out)
    used = elmo(
        *("embed", tmp_path / "text.txt", tmp_path / "vectors.npz", "--top", "--model", SMALL),
        *("--word-vectors", out),
        ELMO_CACHE=str(tmp_path / "cache"),
    )

    assert made.exit_code == 0 and "3 words of width" in made.output
    assert used.exit_code == 0, used.output


def test_text_that_is_not_tokenised_is_told(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The cat sat.\nIt rains.\n")

    made = elmo("word-vectors", SMALL, "--text", text, "--out", tmp_path / "static.txt")

    assert made.exit_code == 0
    assert f"elmo: {text}: lines end in tokens such as 'sat.'" in made.stderr


def test_a_file_that_exists_and_other_endings_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat\n")
    command = ("word-vectors", SMALL, "--text", text, "--out")

    taken = elmo(*command, text)
    assert (taken.exit_code, text.read_text()) == (1, "the cat\n")
    assert "text.txt exists; --force replaces it" in taken.stderr
    for name in ("", "static.bin", "static"):
        other = elmo(*command, name)
        assert other.exit_code == 2 and "expected an ending of .safetensors" in other.stderr
    assert elmo(*command, text, "--force").exit_code == 0
    assert text.read_text().startswith("2 ")


def test_two_sources_of_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("the\n")

    found = elmo(
        *("word-vectors", SMALL, "--words", 3, "--text", path, "--vocabulary", path),
        *("--out", tmp_path / "out"),
    )

    assert found.exit_code == 2 and "exclude each other" in found.output


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
    said = f"^ELMO_WORD_VECTORS: {tmp_path}: is a folder, expected a file of word vectors$"
    with pytest.raises(SettingsError, match=said):
        with_word_vectors(Settings(word_vectors=tmp_path))


@pytest.mark.parametrize(
    ("name", "cause"), [("no.txt", "No such file or directory"), ("x" * 300, "File name too long")]
)
def test_a_file_that_cannot_be_looked_up_is_named_with_its_option(
    tmp_path: Path, name: str, cause: str
) -> None:
    path = tmp_path / name

    found = elmo("serve", "--word-vectors", path, "--cache", tmp_path, "--port", 0)

    assert found.exit_code == 2
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"elmo: --word-vectors='{str(path)[:60]}")  # a longer value is cut
    assert line.endswith(f"' is not allowed: {cause}; allowed: the path of a file")


def test_a_damaged_file_ends_the_start_and_is_named_with_its_setting(tmp_path: Path) -> None:
    path = tmp_path / "static.txt"
    path.write_text("cat 1 2\ndog\n")

    found = elmo("serve", "--word-vectors", path, "--cache", tmp_path, "--port", 0)

    assert found.exit_code == 2
    fault = f"elmo: --word-vectors: {path}:2: has 0 numbers behind 'dog'"
    assert found.stderr.splitlines()[-1].startswith(fault)
