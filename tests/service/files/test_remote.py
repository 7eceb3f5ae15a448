"""Vectors computed by a server."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from elmo_client import Client
from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.vectors import Remote
from elmo_serve.selection import select
from tests.support.embedding_runs import done, embed, refused
from tests.support.scripted_server import correct, respond, scripted_server
from tests.support.servers import Running
from tests.support.vectors import close


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


def failing(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Refuse the sentence that begins with 13, as a server does whose model fails on it."""
    firsts = [sentence[0] for sentence in json.loads(body)["sentences"]]
    if "13" not in firsts:
        correct(handler, body)
        return
    pointer = f"/sentences/{firsts.index('13')}"
    fault = {"pointer": pointer, "detail": "not finite"}
    problem = {"type": "urn:x", "title": "No", "status": 500, "detail": "it", "errors": [fault]}
    respond(handler, 500, json.dumps(problem).encode(), "application/problem+json")


def test_a_sentence_that_the_server_refuses_is_named_and_other_files_are_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    for name, numbers in (("a.txt", range(1, 6)), ("b.txt", range(10, 16)), ("c.txt", range(1, 4))):
        (tmp_path / "in" / name).write_text("".join(f"{number}\n" for number in numbers))
    with scripted_server() as scripted:
        flags = ("--all", "--format", "npz", "--part-sentences", 5, "--server", scripted.url)
        scripted.script = [failing] * 99
        line = refused(tmp_path / "in", tmp_path / "out", *flags)
        alone = refused(tmp_path / "in" / "b.txt", tmp_path / "b.npz", *flags[:3], *flags[5:])
        scripted.script = []
        again = done(tmp_path / "in", tmp_path / "out", *flags)

    assert "b.txt: line 4: the server refuses it: 500" in line
    assert "b.txt: line 4: the server refuses it: 500" in alone
    assert "(1 of 4 parts failed)" in line
    assert "14 sentences, 9 of them by an earlier run" in again


@pytest.mark.parametrize("other", [{"revision": "1"}, {"precision": "int8"}])
def test_a_server_that_changes_its_model_or_its_precision_ends_a_run(
    tmp_path: Path, other: dict[str, str]
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{number}\n" for number in range(1, 9)))
    with scripted_server() as scripted:
        scripted.script = [correct, lambda handler, body: correct(handler, body, **other)]
        line = refused(source, tmp_path / "out.npz", "--all", "--server", scripted.url)

    assert "model changed from 0 in float32 to" in line
