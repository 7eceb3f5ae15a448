"""`elmo word-vectors` on the command line, and ELMO_WORD_VECTORS at the start of the server."""

from pathlib import Path

import pytest

from elmo_model.word_vectors import WordVectors
from tests.support.command_line import elmo
from tests.support.servers import SMALL

GLOVE = "cat 1 2\nsat 3 4\nthe 5 6\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("glove.txt").write_text(GLOVE)
    Path("text.txt").write_text("The cat sat.\nIt rains.\n")


def test_a_text_becomes_the_file_that_commands_take() -> None:
    made = elmo("word-vectors", "glove.txt", "--words", 2, "--out", "out.safetensors")
    command = ("embed", "text.txt", "vectors.npz", "--top", "--model", SMALL, "--word-vectors")

    assert made.exit_code == 0 and "2 words of width 2" in made.output
    assert WordVectors.open(Path("out.safetensors")).info.words == 2
    assert elmo(*command, "out.safetensors").exit_code == 0
    assert elmo(*command, "glove.txt", "--force").exit_code == 1


def test_the_token_layer_of_a_model_becomes_one_and_raw_text_is_told() -> None:
    made = elmo("word-vectors", "--model", SMALL, "--text", "text.txt", "--out", "out.safetensors")

    assert made.exit_code == 0 and "5 words" in made.output
    assert "sat." in made.stderr


@pytest.mark.parametrize("name", ["glove.txt", ".", "no.safetensors", "x" * 300])
def test_another_file_ends_the_start_in_one_line_with_its_setting(name: str) -> None:
    found = elmo("serve", "--model", SMALL, "--word-vectors", name, "--port", 0)

    assert found.exit_code == 2
    (line,) = found.stderr.splitlines()
    assert line.startswith("elmo: --word-vectors")
    assert ("elmo word-vectors glove.txt --out" in line) == (name == "glove.txt")
