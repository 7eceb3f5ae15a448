"""The code blocks of docs/migrate.md, client.md, files.md and proteins.md, run as they stand."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from elmo_serve.commands.embed import embed
from tests.support.fork_server import with_elmo
from tests.support.golden import GOLDEN
from tests.support.servers import SMALL, Running, running

DOCS = Path(__file__).parents[2] / "docs"
URL = "http://localhost:8000"
TOOLS = (
    *("AllenNLP", "bilm-tf", "TensorFlow Hub", "simple_elmo", "ELMoForManyLangs"),
    *("SeqVec", "bio_embeddings", "flair", "DeLFT", "Spark NLP"),
)

_BLOCK = re.compile(r"^```(sh|python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of code in a document; `before` is the last line of text above it."""

    document: str
    line: int
    language: str
    code: str
    before: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: str) -> list[Block]:
    text = (DOCS / document).read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        above = text[: match.start()].rstrip()
        found.append(
            Block(
                document,
                text.count("\n", 0, match.start()) + 1,
                match[1],
                match[2],
                above.rsplit("\n", 1)[-1],
            )
        )
    return found


@pytest.fixture(scope="module")
def documented_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server started as the documents say: `ELMO_MODEL=<your model> elmo serve`."""
    with running(tmp_path_factory.mktemp("documented"), model=SMALL) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with the files that the blocks name."""
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / name).symlink_to(SMALL / name)
    (tmp_path / "zhs.model").symlink_to(GOLDEN / "elmoformanylangs" / "word_and_char")
    (tmp_path / "sentences.txt").write_text("The cat sat .\nHello\n", encoding="utf-8")
    (tmp_path / "uniref50_v2").symlink_to(SMALL)
    (tmp_path / "proteins.fasta").write_text(">sp|P1|X\nSEQWENCE\n", encoding="utf-8")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").symlink_to(tmp_path / "sentences.txt")
    (tmp_path / "text.txt").write_text("The cat can't sit.\nHello!\n", encoding="utf-8")
    (tmp_path / "sentences.conllu").write_text("1\t今\t_\n2\t天\t_\n\n", encoding="utf-8")
    with contextlib.chdir(tmp_path):
        yield tmp_path


def run(block: Block, server: Running, names: dict[str, object]) -> None:
    code = block.code.replace(URL, server.url)
    if block.language == "python":
        exec(compile("\n" * block.line + code, str(DOCS / block.document), "exec"), names)
        return
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    done = subprocess.run(
        ["bash", "-euc", code],
        env=with_elmo({**clean, "ELMO_MODEL": str(SMALL)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "block", [block for block in blocks("migrate.md") if block.before == "**After**"], ids=str
)
def test_new_code_runs(block: Block, place: Path, documented_server: Running) -> None:
    run(block, documented_server, {"__name__": "__main__"})


def test_every_tool_has_old_and_new_code_in_turn() -> None:
    found = blocks("migrate.md")

    marks = [block.before for block in found]
    assert set(marks) == {"**Before**", "**After**"}
    for number, mark in enumerate(marks):
        if mark == "**Before**":
            assert marks[number + 1] == "**After**", found[number]
    text = (DOCS / "migrate.md").read_text(encoding="utf-8")
    for tool in TOOLS:
        section = text.split(f"\n## {tool}\n")[1].split("\n## ")[0]
        assert "**Before**" in section and "**After**" in section, tool


@pytest.mark.long
@pytest.mark.parametrize("document", ["client.md", "files.md", "proteins.md"])
def test_examples_run_in_their_order(
    document: str, place: Path, documented_server: Running
) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    found = blocks(document)

    for block in found:
        run(block, documented_server, names)

    assert len(found) >= 4
    vectors = [path.name for path in place.iterdir() if path.name.startswith("vectors")]
    assert (document != "client.md") == bool(vectors)


def test_every_option_of_the_command_is_documented() -> None:
    text = (DOCS / "files.md").read_text(encoding="utf-8")

    for parameter in embed.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert re.search(rf"{parameter.opts[0]}\b", text), parameter.opts
