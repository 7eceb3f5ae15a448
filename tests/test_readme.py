"""Every command of README.md, in its order, in a fresh shell in a fresh copy of the tree.

`make test`, `make test-long` and `make lint` are what CI runs; Docker's command runs in
tests/docker.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from elmo_model.models.catalogue import CATALOGUE
from tests.support.checkpoints import original_size_pair
from tests.support.download_server import serving_files
from tests.support.servers import SMALL, free_port

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [(language, text) for language, text in BLOCK.findall(README) if language]
RUN_BY_CI = ("make test", "make test-long", "make lint")
ACTIVATE = ". .venv/bin/activate"
SECONDS = 600


def commands(block: str) -> list[str]:
    """Return the commands of a block, each with its continued lines."""
    return block.replace("\\\n", " ").splitlines()


def is_server(command: str) -> bool:
    return command == "make serve" or bool(re.match(r"elmo serve\b", command))


@dataclass
class Shell:
    """A terminal of somebody who has just cloned the repository; at most one server runs in it."""

    folder: Path
    environment: dict[str, str]
    url: str
    active: str = ":"
    outputs: list[str] = field(default_factory=list)
    server: subprocess.Popen[bytes] | None = None

    def here(self, text: str) -> str:
        """Replace the port of the documentation by one that is free on this machine."""
        return text.replace("http://localhost:8000", self.url)

    def run(self, command: str, text: str | None = None) -> str:
        done = subprocess.run(
            ["bash", "-euc", f"{self.active}\n{self.here(command)}"],
            cwd=self.folder,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def serve(self, command: str) -> None:
        """Start a server in a process group of its own, and wait until it is ready."""
        self.interrupt()
        with (self.folder / "server.log").open("wb") as log:
            self.server = subprocess.Popen(
                ["bash", "-euc", f"{self.active}\n{command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + SECONDS
        while not self._is_ready():
            written = (self.folder / "server.log").read_text(encoding="utf-8")
            assert self.server.poll() is None, f"{command}\n{written[-4000:]}"
            assert time.monotonic() < deadline, f"{command}\n{written[-4000:]}"
            time.sleep(0.1)  # between two questions; nothing depends on its length

    def interrupt(self) -> None:
        """Press Ctrl-C, which signals the whole process group."""
        if self.server is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.server.pid, signal.SIGINT)
            self.server.wait(60)
            self.server = None

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health/ready").status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    base = tmp_path_factory.mktemp("readme")
    clone, published = base / "clone", base / "published"
    for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    shutil.copytree(SMALL, clone / "path" / "to" / "your" / "checkpoint")
    original_size_pair(published / "elmo" / "original")
    _rename_as_published(published / "elmo" / "original")
    port = free_port()
    with serving_files(published) as address:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ELMO_", "VIRTUAL_ENV", "PYTHON", "MAKE", "MFLAGS"))
        }
        environment |= {
            "ELMO_PORT": str(port),
            "ELMO_MIRROR": address,
            "ELMO_CACHE": str(base / "cache"),
        }
        shell = Shell(clone, environment, f"http://localhost:{port}")
        yield shell
        shell.interrupt()
    shutil.rmtree(base)


def _rename_as_published(folder: Path) -> None:
    """Give the two files of a pair the names of the model `original` in AllenNLP's bucket."""
    target = folder.parents[1]
    for file in CATALOGUE["original"].files:
        (target / file.path).parent.mkdir(parents=True, exist_ok=True)
        suffix = Path(file.path).suffix
        (found,) = folder.glob(f"*{suffix}")
        found.rename(target / file.path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_readme_is_right(shell: Shell, number: int) -> None:
    language, text = BLOCKS[number]
    match language:
        case "sh":
            for command in commands(text):
                if is_server(command):
                    shell.serve(command)
                elif command == ACTIVATE:
                    shell.active = command
                elif command not in RUN_BY_CI:
                    shell.outputs.append(shell.run(command))
        case "json":
            assert_equal_as_printed(json.loads(shell.outputs[-1]), text)
        case "python":
            printed = shell.run("python -", text=shell.here(text))
            (expected,) = re.findall(r"^print\(.*\)  # (.*)$", text, re.MULTILINE)
            assert expected.startswith(printed.strip())
        case _:
            pytest.fail(f"nothing is known of blocks of {language}")


def assert_equal_as_printed(found: dict[str, object], printed: str) -> None:
    """Compare a response with a documented one, in which … stands for the rest of a list."""
    expected = json.loads(printed.replace(", …", ""))
    vectors, shown = found.pop("embeddings"), expected.pop("embeddings")
    assert found == expected
    assert isinstance(vectors, list)
    for row, start in zip(vectors, shown, strict=True):
        assert row[: len(start)] == pytest.approx(start, abs=1e-5)


def test_the_readme_has_no_command_outside_of_its_blocks() -> None:
    """A block without a language is not run here: it is Docker's alone."""
    others = [text for language, text in BLOCK.findall(README) if not language]

    assert others == ["docker compose up --build --wait\n"]


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell_name: str) -> None:
    environment = {**os.environ, "_ELMO_COMPLETE": f"{shell_name}_complete"}
    # fish gives the word that is being typed, the others its number.
    environment |= {"COMP_WORDS": "elmo ser", "COMP_CWORD": "ser" if shell_name == "fish" else "1"}
    elmo = Path(sys.executable).with_name("elmo")

    found = subprocess.run(
        [elmo], env=environment, capture_output=True, text=True, check=False
    ).stdout

    assert "serve" in found
