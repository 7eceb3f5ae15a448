"""The pages of docs/: blocks of code run as they stand, and tables of the API are complete.

Blocks of `sh` and `python` run, in the order of their page; the others stand for output, or for
programs that are not installed here. tests/openai runs those of clients.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np
import pytest

import elmo_model
from elmo_serve.commands.embed import embed
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.http.schemas.server import InfoResponse
from elmo_serve.http.schemas.tasks import TaskResponse
from tests.support.fork_server import with_elmo
from tests.support.http_messages import ERRORS
from tests.support.servers import SMALL, Running, running

DOCS = Path(__file__).parents[2] / "docs"
TOOLS = (
    *("AllenNLP", "bilm-tf", "TensorFlow Hub", "simple_elmo", "ELMoForManyLangs"),
    *("SeqVec", "bio_embeddings", "flair", "DeLFT", "Spark NLP"),
)
ADDRESS = re.compile(r"http://(localhost|127\.0\.0\.1):8000")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of code in a document."""

    document: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def read(document: str) -> str:
    return (DOCS / document).read_text(encoding="utf-8")


def blocks(document: str, *languages: str) -> list[Block]:
    text = read(document)
    return [
        Block(
            document,
            text.count("\n", 0, match.start()) + 1,
            match[1],
            match[2],
        )
        for match in BLOCK.finditer(text)
        if match[1] in languages
    ]


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of the default model, and the table of docs/tasks.md beside its tasks."""
    folder = tmp_path_factory.mktemp("page")
    (table,) = blocks("tasks.md", "tsv")
    (folder / "intents.tsv").write_text(table.code, encoding="utf-8")
    with running(folder, tasks=folder / "tasks") as server:
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with the files that the blocks name."""
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / name).symlink_to(SMALL / name)
    (tmp_path / "sentences.txt").write_text("The cat sat .\nHello\n", encoding="utf-8")
    (tmp_path / "uniref50_v2").symlink_to(SMALL)
    (tmp_path / "proteins.fasta").write_text(">sp|P1|X\nSEQWENCE\n", encoding="utf-8")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").symlink_to(tmp_path / "sentences.txt")
    (tmp_path / "text.txt").write_text("The cat can't sit.\nHello!\n", encoding="utf-8")
    (tmp_path / "sentences.conllu").write_text("1\t今\t_\n2\t天\t_\n\n", encoding="utf-8")
    with contextlib.chdir(tmp_path):
        yield tmp_path


def run(block: Block, server: Running, names: dict[str, object]) -> str:
    """Run a block with a server of the tests in the place of that of the page; return its output.

    Python runs in this process with `names`, a shell here with the golden model as the default.
    """
    code = ADDRESS.sub(server.url, block.code)
    if block.language == "python":
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile("\n" * block.line + code, str(DOCS / block.document), "exec"), names)
        return output.getvalue()
    return shell(code, ELMO_MODEL=str(SMALL))


def shell(code: str, folder: Path | None = None, **variables: str) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", code],
        cwd=folder,
        env=with_elmo(clean | variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.usefixtures("tasks", "place")
@pytest.mark.parametrize(
    "document",
    [
        "api.md",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("client.md", "files.md")),
    ],
)
def test_blocks_run_in_their_order(document: str, searched: Running) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    found = blocks(document, "sh", "python")

    for block in found:
        run(block, searched, names)

    assert len(found) >= 3


def test_the_load_of_the_operator_is_answered(server: Running) -> None:
    """oha is not installed here: its line is read, and its request sent once."""
    (block,) = (each for each in blocks("operations.md", "sh") if "\noha " in each.code)
    make, closed, opened = block.code.splitlines()
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=["oha"])
    for option in ("-z", "-c", "-m", "-T", "-D"):
        parser.add_argument(option, required=True)
    parser.add_argument("url")
    oha = parser.parse_args(shlex.split(closed))
    _, content, _, path = shlex.split(make)
    response = httpx.request(
        oha.m,
        ADDRESS.sub(server.url, oha.url),
        content=content,
        headers={"Content-Type": oha.T},
    )

    assert response.status_code == 200, response.text
    assert path == oha.D
    assert oha.m in opened and oha.url in opened and f"Content-Type: {oha.T}" in opened
    assert f"-body {path} " in opened


@pytest.mark.long
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("block", blocks("migrate.md", "sh", "python"), ids=str)
def test_code_of_migrate_runs(block: Block, server: Running) -> None:
    run(block, server, {"__name__": "__main__"})


@pytest.mark.filterwarnings("ignore:unclosed file.*glove:ResourceWarning")  # of gensim
@pytest.mark.usefixtures("place")
def test_glove_stands_beside_elmo(server: Running) -> None:
    Path("glove.6B.100d.txt").write_text("the 1 2\nbank 3 4\nIt 5 6\nit 7 8\n", encoding="utf-8")
    section = read("features.md").split("\n## GloVe beside ELMo\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {"__name__": "__main__"}
    programs = [code for language, code in BLOCK.findall(section) if language == "python"]

    for code in programs:
        run(Block("features.md", 0, "python", code), server, names)

    first, second = names["joined"]
    assert first[:, :2].tolist() == [[1, 2], [3, 4], [0, 0], [1, 2], [0, 0], [0, 0]]
    assert second[:, :2].tolist() == [[5, 6], [0, 0], [0, 0]]
    np.testing.assert_array_equal(first[:, 2:], names["vectors"][0])
    assert names["scores"].shape == (2, 6, 9)
    tagger = names["Tagger"](1)
    tagger(names["sentences"]).sum().backward()
    is_learned = tagger.words.weight.grad.any(dim=1).tolist()
    assert is_learned == [False, True, True, True, False]  # zeros for unknown words stay


def test_the_library_gives_the_vectors_of_its_page(server: Running) -> None:
    (block,) = blocks("library.md", "python")
    names: dict[str, Any] = {}

    assert run(block, server, names) == "torch.Size([3, 5, 512])\n"
    assert names["second"].shape == (3, 1, 512)
    assert set(re.findall(r"^\| `(\w+)", read("library.md"), re.MULTILINE)) <= {*elmo_model.__all__}


def test_every_tool_of_migrate_has_a_section_or_a_row() -> None:
    found = re.findall(r"^(?:#+|\|) ([\w -]+)", read("migrate.md"), re.MULTILINE)

    assert {tool for tool in TOOLS if not any(each.startswith(tool) for each in found)} == set()


@pytest.mark.long
def test_tasks_takes_a_table_to_a_served_task(english: Running) -> None:
    folder = english.log_file.parent
    first, ask = blocks("tasks.md", "sh")
    fit, serve = first.code.splitlines()
    assert serve == "ELMO_TASKS=tasks elmo serve"
    shell(fit, folder)
    with english.client() as client:
        english.until(lambda: client.get("/tasks/intent").status_code == 200)

    output = run(ask, english, {})

    task, response = (json.loads(line) for line in output.replace("}{", "}\n{").splitlines())
    assert task["name"] == "intent" and len(task["weights"]) == 3
    assert len(response["embeddings"][0]) == response["dimension"]
    files = {path.name for path in (folder / "tasks" / "intent.fit").iterdir()}
    assert files == {"head.safetensors", "report.json"}
    again = fit.replace("--out tasks", f"--out learned --server {english.url}")
    assert "ELMO_TASKS" in shell(again, folder)
    assert (folder / "learned" / "intent.json").is_file()
    (program,) = blocks("tasks.md", "python")
    with contextlib.chdir(folder):
        assert run(program, english, {"__name__": "__main__"}).count("\n") == 1


@pytest.mark.long
def test_the_program_of_explore_prints_the_table_of_the_page(english: Running) -> None:
    section = read("explore.md").split("\n## The nearest uses of a word\n")[1]
    shown = dict(reversed(BLOCK.findall(section)))
    english.until_embedded()

    program = Block("explore.md", 0, "python", shown["python"])
    assert run(program, english, {"__name__": "__main__"}) == shown[""]


def test_every_option_of_elmo_embed_is_documented() -> None:
    for parameter in embed.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert re.search(rf"{parameter.opts[0]}\b", read("files.md")), parameter.opts


def test_fields_types_routes_and_statuses_are_all_on_the_page_of_the_api(
    client: httpx.Client,
) -> None:
    page = read("api.md")
    for name in EmbedRequest.model_fields:
        assert f"| `{name}` |" in page
    for media_type in ENCODERS:
        assert f"| `{media_type}` |" in page
    for name in TaskResponse.model_fields:
        assert f'"{name}"' in page
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in page
    assert set(InfoResponse.model_fields) <= set(
        re.findall(r"[a-z_]+", page.replace("media types", "media_types"))
    )
    table = page[page.index("## Errors") :]
    assert {str(error.status) for error in ERRORS} <= set(re.findall(r"\b[45]\d\d\b", table))
