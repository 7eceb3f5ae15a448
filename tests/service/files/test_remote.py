"""Vectors computed by a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from elmo_client import Client
from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.vectors import Remote
from elmo_serve.output import select
from tests.support.embedding_runs import close, done, embed
from tests.support.scripted_server import scripted_server
from tests.support.servers import Running


def test_a_server_computes_the_same(
    text: Path, tmp_path: Path, server: Running, elmo: ElmoNetwork
) -> None:
    for flags in (["--all"], ["--layer", "1"], ["--average"], ["--concat", "--normalize"]):
        here, there = tmp_path / "here.npz", tmp_path / "there.npz"
        done(text, here, *flags, "--force")
        said = embed(text, there, *flags, "--force", "--server", server.url, model=Path("nowhere"))
        assert said.exit_code == 0, said.output
        with np.load(here) as mine, np.load(there) as theirs:
            for name in mine.files:
                close(theirs[name], mine[name])


def test_with_a_server_this_process_loads_no_torch(
    text: Path, tmp_path: Path, server: Running
) -> None:
    code = (
        "import sys; from elmo_serve.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print({'torch', 'fastapi', 'pydantic'} & sys.modules.keys())"
    )
    arguments = ["embed", str(text), str(tmp_path / "out.hdf5"), "--all", "--server", server.url]

    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )

    assert run.stdout.splitlines()[1:] == ["set()"]


def test_vectors_come_in_the_order_of_the_text_and_are_counted() -> None:
    sentences = [[str(number)] * (1 + number % 3) for number in range(1, 12)]
    counted: list[int] = []
    with scripted_server() as scripted, Client(scripted.url) as client:
        remote = Remote(client, "all", select("all", 3))
        arrays = [array for group in remote.groups(sentences, counted.append) for array in group]

    assert remote.info.name == "scripted"
    assert [array.shape for array in arrays] == [(3, len(each), 4) for each in sentences]
    assert all((array == n).all() for n, array in enumerate(arrays, 1))
    assert counted == [len(each) for each in sentences]
