"""ELMO_INDEX on a running server: searched at once, refused before or at the start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from elmo_model.uses.files import open_index
from tests.support.checkpoints import write_pair
from tests.support.command_line import index_of
from tests.support.fork_server import run
from tests.support.made_up import made_up_index
from tests.support.servers import SMALL, free_port, running

TEXT = ["The cat sat on the mat .", "A dog sat near the door .", "The mat is red ."]


def test_each_model_searches_its_own_index(tmp_path: Path) -> None:
    tiny = write_pair(tmp_path / "tiny")
    folders = ",".join(str(index_of(tmp_path, model, TEXT)) for model in (tiny, SMALL))

    with running(tmp_path, models=f"{SMALL},tiny={tiny}", index=folders) as server:
        for model, name in (("small", "small.txt"), ("tiny", "tiny.txt")):
            body = {"text": "The cat sat .", "token": 2, "model": model, "layers": 0, "k": 1}
            with server.client() as client:
                found = client.post("/neighbours", json=body).raise_for_status().json()
            assert found["index"] == {"text": name, "tokens": 19, "sentences": 3}
            (near,) = found["neighbours"]
            assert near["sentence"][near["token"]] == "sat"
            assert near["cosine"] == pytest.approx(1, abs=1e-3)
            assert near["line"] == 1 + TEXT.index(" ".join(near["sentence"]))
            assert found["revision"] == client_revision(server.url, model)


def client_revision(url: str, model: str) -> str:
    revision: str = httpx.get(f"{url}/info?model={model}").json()["revision"]
    return revision


def start(index: Path) -> subprocess.CompletedProcess[str]:
    """Run a server until it ends by itself."""
    options = ("--model", SMALL, "--port", str(free_port()))
    return run(["elmo", "serve", "--index", index, *options])


def test_an_index_of_another_model_stops_the_start(tmp_path: Path) -> None:
    made_up_index(tmp_path / "index", [["a", "b"]])

    found = start(tmp_path / "index")

    assert found.returncode != 0
    (line,) = [line for line in found.stderr.splitlines() if "cannot serve" in line]
    revision = open_index(tmp_path / "index").info.revision
    assert f"it is of the model tiny, revision {revision}; small is " in line
    assert "Serving" not in found.stderr
