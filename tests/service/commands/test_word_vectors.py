"""`elmo word-vectors` on the command line."""

from pathlib import Path

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


def test_two_sources_of_words_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("the\n")

    found = elmo(
        *("word-vectors", SMALL, "--words", 3, "--text", path, "--vocabulary", path),
        *("--out", tmp_path / "out"),
    )

    assert found.exit_code == 2 and "exclude each other" in found.output
