"""`elmo tokenize`: the tokens of each line, as the model's training text had them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elmo_serve.cli import main


def tokenize(*arguments: str, text: str | bytes = "It can't rain.\n\nZürich, 東京\n") -> Result:
    return CliRunner().invoke(main, ["tokenize", *arguments], input=text)


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        ([], "It ca n't rain ."),
        (["--model", "original"], "It can 't rain ."),
        (["--tokenizer", "whitespace"], "It can't rain."),
        (["--model", "multilingual-fr"], "It can' t rain ."),
        (["--tokenizer", "moses", "--language", "fr"], "It can' t rain ."),
        (["--model", "/models/seqvec"], "I T C A N ' T R A I N ."),
        (["--model", "seqvec/weights.hdf5"], "I T C A N ' T R A I N ."),
        (["--model", "/models/mine"], "It can 't rain ."),
    ],
)
def test_lines_are_split_as_the_model_wants_it(arguments: list[str], first: str) -> None:
    result = tokenize(*arguments)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[:2] == [first, ""]


def test_json_has_offsets(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a  b\n", encoding="utf-8")
    result = tokenize(str(tmp_path / "in.txt"), "--json")

    assert json.loads(result.stdout) == {
        "text": "a  b",
        "tokens": ["a", "b"],
        "offsets": [[0, 1], [3, 4]],
    }


def test_lines_are_those_that_embed_reads() -> None:
    """Without a byte order mark, and with an end at a newline alone."""
    result = tokenize("--tokenizer", "whitespace", text="\ufeffa b\r\nc\rd\n".encode())

    assert result.stdout_bytes == b"a b\nc d\n"
