"""The references of a load test: another server, a model in process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from elmo_client import Client
from elmo_serve.files.in_process import InProcess
from elmo_serve.load_test.checker import Checker
from elmo_serve.load_test.reference import expect, in_process, of_server
from elmo_serve.load_test.requests import Wanted
from elmo_serve.load_test.workload import Body, Sentence, WorkloadError
from elmo_serve.output import Output
from tests.support.scripted_server import scripted_server
from tests.support.servers import SMALL

SAFE = "application/vnd.safetensors"
OUTPUT = Output(layers=(0, 1, 2), stacked=True)


def encoded(arrays: Sequence[Any]) -> bytes:
    tensors = {str(number): array for number, array in enumerate(arrays)}
    return safetensors.numpy.save(tensors)


def info_of_small() -> dict[str, Any]:
    info = InProcess.open(str(SMALL)).info
    return {"model": "small", "revision": info.revision, "precision": "float32"}


def test_another_server_computes_the_expected_vectors() -> None:
    with scripted_server() as server, Client(server.url) as client:
        embed = of_server(client, Wanted(SAFE, model="not of the other server"))
        one, two = embed([["1"], ["2", "0"]])

    assert one.shape == (3, 1, 4) and (two == 2).all()


def test_a_model_in_process_computes_the_expected_vectors() -> None:
    (found,) = in_process(str(SMALL), OUTPUT, info_of_small())([["The", "cat"]])
    (own,) = InProcess.open(str(SMALL)).embed([["The", "cat"]], OUTPUT)

    np.testing.assert_array_equal(found, own)


def test_a_model_of_another_revision_is_no_reference() -> None:
    with pytest.raises(WorkloadError, match=r"has revision .* of revision 0"):
        in_process(str(SMALL), OUTPUT, {**info_of_small(), "revision": "0"})
    with pytest.raises(WorkloadError, match="--reference missing"):
        in_process("missing", OUTPUT, info_of_small())


def test_vectors_are_computed_while_there_is_room() -> None:
    asked: list[str] = []
    bodies = [Body(b"", ([str(number)], ["x"]), 2) for number in range(30)]

    def embed(sentences: Sequence[Sentence]) -> list[Any]:
        asked.extend(sentence[0] for sentence in sentences)
        return [np.full((3, 1, 4), ord(sentence[0][0]), np.float32) for sentence in sentences]

    checker = Checker(SAFE, OUTPUT, 4, 1e-5, kept_bytes=2 * 2 * 48)
    expect(checker, bodies, embed)

    assert asked[:4] == ["0", "x", "1", "x"]
    assert len(asked) < 60, "the third body has no room"
    with scripted_server() as server, Client(server.url) as client:
        right = client.embed([[str(ord("1"))], [str(ord("x"))]])
    assert checker.difference(1, bodies[1], encoded(right)) == 0
    assert checker.difference(2, bodies[2], encoded(right)) is None
