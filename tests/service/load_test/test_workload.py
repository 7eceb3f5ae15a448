"""Requests of a load test, and the comparison of their responses."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from elmo_client import Client
from elmo_model.errors import ElmoError
from elmo_serve.http.media_types import ENCODERS, safetensors
from elmo_serve.http.media_types.encoder import Embeddings
from elmo_serve.load_test.sender import Request
from elmo_serve.load_test.workload import (
    LONGEST,
    MEDIAN_TOKENS,
    SPREAD,
    TOLERANCES,
    Checker,
    Workload,
    WorkloadError,
    made_sentences,
    sentences_of,
)
from elmo_serve.output import Dtype, Output
from tests.support.scripted_server import INFO, ScriptedServer, respond, scripted_server

SAFE = "application/vnd.safetensors"
TASK = {"name": "ner", "weights": [1, 2, 3], "gamma": 100.0, "layer_norm": True, "description": ""}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as scripted:
        yield scripted


def test_lengths_of_made_sentences_are_log_normal_and_cut() -> None:
    make = made_sentences(random.Random(1), longest=1_000)
    lengths = sorted(len(make()) for _ in range(20_000))

    assert statistics.median(lengths) == MEDIAN_TOKENS
    assert lengths[0] >= 1 and lengths[-1] == LONGEST
    assert lengths[19_000] == pytest.approx(MEDIAN_TOKENS * math.exp(1.645 * SPREAD), rel=0.05)
    assert statistics.mean(lengths) == pytest.approx(24, rel=0.02)


def test_the_limit_of_the_server_cuts_made_sentences() -> None:
    make = made_sentences(random.Random(1), longest=3)

    assert {len(make()) for _ in range(200)} <= {1, 2, 3}
    assert max(len(make()) for _ in range(200)) == 3


def requests_of(workload: Workload, url: str, count: int = 1) -> list[Request]:
    with Client(url) as client:
        return workload.requests(client, count, None)


def sentences_in(request: Request) -> list[list[str]]:
    found: list[list[str]] = json.loads(request.content)["sentences"]
    return found


def test_a_seed_makes_the_same_requests(server: ScriptedServer) -> None:
    first, again, other = (
        [
            each.content
            for each in requests_of(Workload(SAFE, sentences=2, seed=seed), server.url, 5)
        ]
        for seed in (7, 7, 8)
    )

    assert first == again != other
    assert len(set(first)) == 5


def test_a_request_has_its_number_of_sentences_or_of_tokens(
    server: ScriptedServer, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("a b c d\ne f g h\n")
    wide = Workload(SAFE, {"layers": "top"}, sentences=2, text=text)
    narrow = Workload(SAFE, tokens=6, text=text)

    (two,) = requests_of(wide, server.url)
    (tokens,) = requests_of(narrow, server.url)

    assert json.loads(two.content) == {"layers": "top", "sentences": [[*"abcd"], [*"efgh"]]}
    assert two.tokens == 8
    assert sentences_in(tokens) == [[*"abcd"], [*"ef"]] and tokens.tokens == 6
    assert (wide.size, narrow.size, Workload(SAFE, tokens=1).size) == (
        *("2 sentences", "6 tokens"),
        "1 token",
    )


def test_requests_keep_the_limits_of_the_server(server: ScriptedServer, tmp_path: Path) -> None:
    """At most two sentences of ten tokens each."""
    text = tmp_path / "text"
    text.write_text("one\n")

    requests = requests_of(Workload(SAFE, sentences=2), server.url, 4)

    assert len(requests) == 4
    assert max(len(each) for request in requests for each in sentences_in(request)) <= 10
    for asked in (Workload(SAFE, sentences=3), Workload(SAFE, tokens=3, text=text)):
        with pytest.raises(WorkloadError, match="a request has 3 sentences; the server takes 2"):
            requests_of(asked, server.url)


def test_the_vectors_of_a_request_are_those_of_the_model(server: ScriptedServer) -> None:
    (request,) = requests_of(Workload(SAFE, tokens=3), server.url)
    response = httpx.post(
        f"{server.url}/embed", content=b'{"sentences": [["1", "2", "3"]]}', timeout=60
    )

    assert request.difference(response.content) is None
    assert request.difference(response.content) == 0
    assert request.difference(response.content[:-4]) == math.inf


def test_a_layer_or_a_task_that_the_server_lacks_is_named(server: ScriptedServer) -> None:
    with pytest.raises(ElmoError, match="there is no layer 7"):
        requests_of(Workload(SAFE, {"layers": [7]}), server.url)
    info, tasks = json.dumps(INFO).encode(), json.dumps({"tasks": [TASK]}).encode()
    server.info = lambda handler, _: respond(
        handler, 200, tasks if handler.path.startswith("/tasks") else info
    )
    with pytest.raises(WorkloadError, match="the server has no task pos"):
        requests_of(Workload(SAFE, {"task": "pos"}, sentences=1), server.url)


def test_a_large_gamma_allows_no_larger_difference(server: ScriptedServer) -> None:
    """The largest number of a sentence contains it already."""
    info, tasks = json.dumps(INFO).encode(), json.dumps({"tasks": [TASK]}).encode()
    server.info = lambda handler, _: respond(
        handler, 200, tasks if handler.path.startswith("/tasks") else info
    )
    (request,) = requests_of(Workload(SAFE, {"task": "ner"}, tokens=1), server.url)

    def response(number: float) -> bytes:
        array = np.full((1, 4), number, np.float32)
        answer = Embeddings("m", "0", 4, (), 1, [array], [b'["a"]'], (-1, 4), "float32")
        return b"".join(safetensors.encode(answer))

    assert request.difference(response(100)) is None
    found = request.difference(response(100.05))
    assert found is not None and found > 10


def test_the_vectors_are_told_in_words() -> None:
    assert str(Workload(SAFE, {"task": "ner", "model": "m"})) == f"task ner, {SAFE}"
    assert str(Workload(SAFE, {"pooling": "mean"})) == f"layers all, pooling mean, {SAFE}"


def test_a_text_is_used_line_by_line_again_and_again(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\ufeffa b c\n\n  d \n")
    next_sentence = sentences_of(text, longest=2)

    assert [next_sentence() for _ in range(3)] == [["a", "b"], ["d"], ["a", "b"]]


def test_a_text_without_tokens_or_without_a_file_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n \n")

    with pytest.raises(WorkloadError, match="empty: holds no token"):
        sentences_of(empty, 10)
    with pytest.raises(ElmoError, match="missing: cannot be read: No such file"):
        sentences_of(tmp_path / "missing", 10)


OUTPUT = Output(layers=(0, 1), stacked=True)
LENGTHS = (2, 0)


def vectors(dtype: str = "float32") -> list[NDArray[Any]]:
    return [
        np.linspace(-1, 2, 2 * 2 * 3).reshape(2, 2, 3).astype(dtype),
        np.zeros((2, 0, 3), dtype),
    ]


def encoded(
    arrays: Sequence[NDArray[Any]], media_type: str = SAFE, dtype: Dtype = "float32"
) -> bytes:
    sentences = [b'["a","b"]', b"[]"][: len(arrays)]
    answer = Embeddings("m", "0", 3, (0, 1), 2, arrays, sentences, (2, -1, 3), dtype)
    return b"".join(ENCODERS[media_type].encode(answer))


@pytest.mark.parametrize("media_type", ENCODERS)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_difference_is_in_tolerances(media_type: str, dtype: Dtype) -> None:
    output = Output(layers=(0, 1), stacked=True, dtype=dtype)
    difference = Checker(media_type, output, 3, TOLERANCES[dtype]).of(LENGTHS)
    moved = vectors()
    moved[0][1, 1, 2] += 4 * TOLERANCES[dtype]  # the largest number of the sentence is 2

    found = [
        difference(encoded([array.astype(dtype) for array in arrays], media_type, dtype))
        for arrays in (vectors(), vectors(), moved)
    ]

    assert found[:2] == [None, 0]
    assert found[2] == pytest.approx(2, rel=0.5)  # float16 rounds 2.004 to a multiple of 0.00195


def test_each_request_has_a_reference_of_its_own() -> None:
    checker = Checker(SAFE, OUTPUT, 3, 1e-5)
    first, second = checker.of(LENGTHS), checker.of(LENGTHS)

    assert [first(encoded(vectors())), first(encoded(vectors()))] == [None, 0]
    assert second(encoded(vectors())) is None


@pytest.mark.parametrize(
    "content",
    [
        b"no vectors",
        encoded(vectors()[:1]),
        encoded([vectors()[0][:, :1], vectors()[1]]),
        encoded([vectors()[0] * np.float32("nan"), vectors()[1]]),
    ],
    ids=["damaged", "one sentence short", "a token short", "not finite"],
)
def test_a_first_response_that_cannot_be_right_is_wrong(content: bytes) -> None:
    difference = Checker(SAFE, OUTPUT, 3, 1e-5).of(LENGTHS)

    assert difference(content) == math.inf
    assert difference(encoded(vectors())) is None, "it is no reference"


def test_beyond_the_kept_bytes_nothing_is_compared() -> None:
    checker = Checker(SAFE, OUTPUT, 3, 1e-5, kept_bytes=4 * vectors()[0].size)
    first, second = checker.of(LENGTHS), checker.of(LENGTHS)

    assert [first(encoded(vectors())), first(encoded(vectors()))] == [None, 0]
    assert [second(encoded(vectors())), second(encoded(vectors()))] == [None, None]


def test_zeros_are_compared_exactly() -> None:
    pooled = Output(layers=(0, 1), stacked=True, pooling="mean")
    difference = Checker(SAFE, pooled, 3, 1e-5).of([0])
    zeros = encoded([np.zeros((2, 3), np.float32)])

    assert [difference(zeros), difference(zeros)] == [None, 0]
    assert difference(encoded([np.full((2, 3), 1e-9, np.float32)])) == math.inf
