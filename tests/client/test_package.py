"""The package by itself: its dependencies, and nothing of elmo-serve or the user's own modules."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docker.test_constraints import closure
from tests.support.scripted_server import ScriptedServer

CLIENT = Path(__file__).parents[2] / "client"
PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = sorted((CLIENT / "elmo_client").rglob("*.py"))


def files_of(name: str) -> Iterator[Path]:
    """Yield the modules, packages and shared libraries of a distribution."""
    installed = distribution(name)
    for part in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        yield Path(str(installed.locate_file(part)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client and its dependencies, as `pip install ./client` makes one."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "elmo_client").symlink_to(CLIENT / "elmo_client")
    for name in closure(PROJECT["dependencies"]):
        for path in files_of(name):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    """The folder of a machine-learning project: it has a `model.py` and a package `service`."""
    (tmp_path / "model.py").write_text("raise SystemExit('this model.py was imported')")
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").write_text("raise SystemExit('this service, too')")
    return tmp_path


def python(site: Path, folder: Path, code: str, *arguments: str) -> str:
    # -S leaves out this environment's packages; with -c the working folder comes first.
    run = subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(site), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_it_runs_with_its_dependencies_alone_beside_the_users_modules(
    site: Path, users_folder: Path, scripted: ScriptedServer
) -> None:
    code = (
        "import sys\n"
        "from elmo_client import Client, ElmoEmbedder\n"
        "with Client(sys.argv[1]) as client:\n"
        "    print(client.embed([['7', 'x']])[0][0, 0, 0])\n"
        "with ElmoEmbedder(sys.argv[1]) as elmo:\n"
        "    print(elmo.embed_sentence(['7', 'x']).shape)\n"
        "print({'torch', 'h5py', 'pydantic', 'elmo_model', 'elmo_serve'} & set(sys.modules))\n"
    )

    assert python(site, users_folder, code, scripted.url) == "7.0\n(3, 2, 4)\nset()\n"


def test_every_import_is_declared() -> None:
    declared = {Requirement(text).name for text in PROJECT["dependencies"]}
    imported: set[str] = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module is not None
                imported.add(node.module.partition(".")[0])

    assert imported - sys.stdlib_module_names == {"elmo_client", *declared}


def test_it_is_typed_and_names_no_other_package_of_the_project() -> None:
    assert (CLIENT / "elmo_client" / "py.typed").is_file()
    for path in SOURCES:
        assert not re.search(r"^\s*(from|import) (elmo_model|elmo_serve)", path.read_text(), re.M)
