"""docs/tasks.md: its commands take a table to a served task."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.servers import running

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_take_a_table_to_a_served_task(tmp_path: Path) -> None:
    (table,) = blocks("csv")
    (tmp_path / "intents.csv").write_text(table, encoding="utf-8")
    first, second = blocks("sh")
    fit, serve = first.splitlines()
    assert serve == "ELMO_TASKS=tasks elmo serve"

    shell(fit, tmp_path)
    with running(tmp_path / "server", tasks=tmp_path / "tasks") as server:
        output = shell(second.replace("http://localhost:8000", server.url), tmp_path)

    task, response = (json.loads(line) for line in output.replace("}{", "}\n{").splitlines())
    assert task["name"] == "intent" and len(task["weights"]) == 3
    assert len(response["embeddings"][0]) == response["dimension"]
    files = {path.name for path in (tmp_path / "tasks" / "intent.fit").iterdir()}
    assert files == {"head.safetensors", "report.json", "weights.svg"}


def test_a_server_learns_the_task_as_well(tmp_path: Path) -> None:
    (table,) = blocks("csv")
    (tmp_path / "intents.csv").write_text(table, encoding="utf-8")
    (command,) = blocks("console")
    program = next(block for block in blocks("python") if "localhost" in block)

    with running(tmp_path / "server", tasks=tmp_path / "tasks") as server:
        command = command.removeprefix("$ ").replace("http://localhost:8000", server.url)
        fitted = shell(command, tmp_path)
        program = program.replace("http://localhost:8000", server.url)
        printed = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}", tmp_path)

    assert "serves task intent" in fitted
    assert "('music', 'weather')" in printed


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    program = next(block for block in blocks("python") if "sklearn" in block)
    (tmp_path / "page.py").write_text(program, encoding="utf-8")

    assert shell(f"{sys.executable} page.py", tmp_path).count("\n") == 2


def shell(command: str, folder: Path) -> str:
    """Run commands of the page with the `elmo` of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
