"""The requests of a load test and what a server's model makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo_client import Client
from elmo_serve.load_test.requests import Wanted, bodies_for, checker_for
from elmo_serve.load_test.workload import RequestSize, WorkloadError
from elmo_serve.output import Output
from tests.support.scripted_server import ScriptedServer, respond, scripted_server

SAFE = "application/vnd.safetensors"
LIMITS = {"max_sentence_tokens": 10, "max_request_sentences": 3}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as scripted:
        yield scripted


def test_the_fields_of_a_request_are_those_that_are_no_default() -> None:
    assert Wanted(SAFE).fields == {}
    wanted = Wanted(SAFE, layers="0,2", pooling="mean", dtype="float16", normalize=True, model="m")
    assert wanted.fields == {
        "layers": [0, 2],
        "pooling": "mean",
        "dtype": "float16",
        "normalize": True,
        "model": "m",
    }
    assert Wanted(SAFE, layers="top").fields == {"layers": "top"}
    assert str(Wanted(SAFE, task="ner")) == f"task ner, {SAFE}"
    assert str(Wanted(SAFE)) == f"layers all, {SAFE}"


def test_the_output_is_that_of_the_model_of_the_server(server: ScriptedServer) -> None:
    with Client(server.url) as client:
        assert Wanted(SAFE).output(client) == Output(layers=(0, 1, 2), stacked=True)
        with pytest.raises(WorkloadError, match="there is no layer 7"):
            Wanted(SAFE, layers="7").output(client)


def test_a_task_is_asked_for(server: ScriptedServer) -> None:
    task = {
        "name": "ner",
        "weights": [1, 2, 3],
        "gamma": 2.0,
        "layer_norm": True,
        "description": "",
    }
    info = server.info
    body = json.dumps({"tasks": [task]}).encode()
    with Client(server.url) as client:
        client.info()
        server.info = lambda handler, _: respond(handler, 200, body)
        found = Wanted(SAFE, task="ner", pooling="max").output(client)
        with pytest.raises(WorkloadError, match="the server has no task pos"):
            Wanted(SAFE, task="pos").output(client)
    server.info = info

    assert found == Output(weights=(1, 2, 3), gamma=2.0, layer_norm=True, pooling="max")


def test_requests_keep_the_limits_of_the_server(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("one\n")

    bodies = bodies_for(Wanted(SAFE), RequestSize(3), 4, None, 1, LIMITS)

    assert len(bodies) == 4
    assert max(len(each) for body in bodies for each in body.sentences) <= 10
    with pytest.raises(WorkloadError, match="a request has 4 sentences; the server takes 3"):
        bodies_for(Wanted(SAFE), RequestSize(4), 1, None, 1, LIMITS)
    with pytest.raises(WorkloadError, match="a request has 5 sentences"):
        bodies_for(Wanted(SAFE), RequestSize(tokens=5), 1, text, 1, LIMITS)


def test_the_checker_knows_the_width_of_the_model(server: ScriptedServer) -> None:
    with Client(server.url) as client:
        checker = checker_for(Wanted(SAFE), client, None)
        (body,) = bodies_for(Wanted(SAFE), RequestSize(1), 1, None, 1, LIMITS)
        (expected,) = client.embed([["1"] * body.tokens])

    assert expected.shape == (3, body.tokens, 4)
    assert checker.expect(0, [expected])
