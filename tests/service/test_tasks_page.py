"""docs/tasks.md: its commands take a table to a served task."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fork_server import with_elmo
from tests.support.servers import Running, running

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
URL = "http://localhost:8000"


def blocks(language: str) -> list[str]:
    """Return the blocks that are not run by tests/service/test_api_examples.py."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [block for block in found if "http://127.0.0.1:8000" not in block]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The default model and the table of the page, in the folder `tasks` and beside it."""
    folder = tmp_path_factory.mktemp("page")
    (table,) = blocks("csv")
    (folder / "intents.csv").write_text(table, encoding="utf-8")
    with running(folder, tasks=folder / "tasks") as server:
        yield server


def test_the_commands_take_a_table_to_a_served_task(server: Running) -> None:
    folder = server.log_file.parent
    first, second = blocks("sh")
    fit, serve = first.splitlines()
    assert serve == "ELMO_TASKS=tasks elmo serve"

    shell(fit, folder)
    with server.client() as client:
        server.until(lambda: client.get("/tasks/intent").status_code == 200)
    output = shell(second.replace(URL, server.url), folder)

    task, response = (json.loads(line) for line in output.replace("}{", "}\n{").splitlines())
    assert task["name"] == "intent" and len(task["weights"]) == 3
    assert len(response["embeddings"][0]) == response["dimension"]
    files = {path.name for path in (folder / "tasks" / "intent.fit").iterdir()}
    assert files == {"head.safetensors", "report.json"}


def test_the_task_is_learned_from_a_server_as_well(server: Running) -> None:
    (command,) = blocks("console")

    command = command.removeprefix("$ ").replace(URL, server.url)

    assert "serves task intent" in shell(command, server.log_file.parent)


def test_the_python_of_the_page_runs() -> None:
    program = next(block for block in blocks("python") if "sklearn" in block)

    assert printed(program).count("\n") == 2


def shell(command: str, folder: Path) -> str:
    """Run commands of the page and return what they print."""
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=with_elmo(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(program: str) -> str:
    """Run Python of the page in this process, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(program, "tasks.md", "exec"), {"__name__": "__main__"})
    return output.getvalue()
