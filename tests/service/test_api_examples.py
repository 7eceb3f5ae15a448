"""docs/api.md, and docs/tasks.md over HTTP: examples run in their order; tables are complete."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.http.schemas.server import InfoResponse
from elmo_serve.tasks.schema import TaskResponse
from tests.support.errors import ERRORS
from tests.support.servers import Running

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "api.md").read_text(encoding="utf-8")
TASKS = (DOCS / "tasks.md").read_text(encoding="utf-8").split("\n## Over HTTP\n")[1]
SERVER = "http://127.0.0.1:8000"
EXAMPLES = [
    example
    for example in re.findall(
        r"^```(sh|python)\n(.*?)^```$", PAGE + TASKS, re.DOTALL | re.MULTILINE
    )
    if "http://localhost:8000" not in example[1]  # those of tests/service/test_tasks_page.py
]
COMMANDS = {"sh": ["sh", "-euc"], "python": [sys.executable, "-c"]}


@pytest.mark.usefixtures("tasks")
def test_every_example_runs(server: Running, tmp_path: Path) -> None:
    assert len(EXAMPLES) >= 7
    # The first text starts the processes that split texts, which takes long on a busy machine.
    first = httpx.post(server.url + "/tokenize", json={"text": ["a"]}, timeout=120)
    assert first.status_code == 200
    for language, example in EXAMPLES:
        program = example.replace(SERVER, server.url)

        run = subprocess.run(
            [*COMMANDS[language], program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

        assert run.returncode == 0, f"{example}\n{run.stdout}\n{run.stderr}"


def test_fields_types_and_routes_are_all_on_the_page(client: httpx.Client) -> None:
    for name in EmbedRequest.model_fields:
        assert f"| `{name}` |" in PAGE
    for media_type in ENCODERS:
        assert f"| `{media_type}` |" in PAGE
    for name in TaskResponse.model_fields:
        assert f'"{name}"' in PAGE
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in PAGE
    assert set(InfoResponse.model_fields) <= set(
        re.findall(r"[a-z_]+", PAGE.replace("media types", "media_types"))
    )


def test_every_status_is_on_the_page() -> None:
    table = PAGE[PAGE.index("## Errors") :]

    assert {str(error.status) for error in ERRORS} <= set(re.findall(r"\b[45]\d\d\b", table))
