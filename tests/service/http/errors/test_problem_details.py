"""Errors on the wire: each with its status, its place, and words that name the good values."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from elmo_serve.errors import TYPE_PREFIX
from tests.support.engines import until
from tests.support.errors import ERRORS
from tests.support.in_process import InProcess, in_process
from tests.support.servers import Running

JSON = {"Content-Type": "application/json"}
STATUS = {error.slug: error.status for error in ERRORS}
GIVEN = [["a"]]
INTERNAL = ("Traceback", "pydantic", "Error:", "Exception", "Input should", "/work", "service/")


def problem(response: httpx.Response, slug: str) -> dict[str, Any]:
    """Check everything that is true of every error, and return its members."""
    assert response.headers["content-type"] == "application/problem+json"
    members: dict[str, Any] = response.json()
    assert members["type"] == TYPE_PREFIX + slug, members
    assert response.status_code == members["status"] == STATUS[slug]
    assert members["instance"] == response.headers["x-request-id"]
    assert set(members) - {"errors"} == {"type", "title", "status", "detail", "instance"}
    for fault in members.get("errors", []):
        assert set(fault) == {"pointer", "detail"}
    assert not any(word in response.text for word in INTERNAL), response.text
    return members


def refused(client: httpx.Client, slug: str = "invalid-request", **body: Any) -> dict[str, Any]:
    return problem(client.post("/embed", json=body), slug)


async def test_a_sentence_on_which_the_model_fails_is_pointed_to_in_its_own_body() -> None:
    fine, bad = {"tokens": ["a"]}, {"text": "the !raises"}
    bodies: list[tuple[str, dict[str, Any], str]] = [
        ("/embed", {"sentences": [["a"], ["!raises"]]}, "/sentences/1"),
        ("/embed", {"text": ["a", "!raises"], "tokenizer": "whitespace"}, "/text/1"),
        (
            "/similarity",
            {"pairs": [[fine, fine], [fine, bad]], "tokenizer": "whitespace"},
            "/pairs/1/1",
        ),
    ]
    async with in_process() as serving:
        for path, body, place in bodies:
            members = problem(await serving.client.post(path, json=body), "sentence-failed")
            assert [fault["pointer"] for fault in members["errors"]] == [place]
        body = {"input": [["a"], ["!raises"]]}
        answer = await serving.client.post("/v1/embeddings", json=body)

    assert (answer.status_code, answer.json()["error"]["param"]) == (500, "input")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "EOF"),
        (b'{"sentences": [["a"]],}', "line 1 column 23"),
        (b'{"sentences": [["\xff"]]}', "unicode"),
        ('{"sentences": []}'.encode("utf-16"), "line 1 column 1"),
        (rb'{"sentences": [["\ud800"]]}', "hex escape"),
        (b'{"sentences": [[%s]]}' % (b"9" * 5_000), "number out of range"),
        (b"[" * 100_000, "recursion limit"),
        (b'{"sentences": [["' + b"x" * 100_000, "EOF"),
        (b"sentences=a", "line 1 column 1"),
    ],
)
def test_a_body_that_is_not_json_is_400(client: httpx.Client, content: bytes, said: str) -> None:
    members = problem(client.post("/embed", content=content, headers=JSON), "malformed-body")

    assert members["detail"].startswith("The body is not JSON: ")
    assert said in members["detail"]


def test_an_empty_body_is_named(client: httpx.Client) -> None:
    members = problem(client.post("/embed", content=b"", headers=JSON), "malformed-body")

    assert members["detail"] == "The body is empty, expected JSON."


def test_a_byte_order_mark_is_named(client: httpx.Client) -> None:
    content = b'\xef\xbb\xbf{"sentences": []}'
    members = problem(client.post("/embed", content=content, headers=JSON), "malformed-body")

    assert members["detail"].startswith("The body begins with a byte order mark")


def test_an_unknown_route_names_the_list(client: httpx.Client) -> None:
    assert "/docs" in problem(client.get("/embedd"), "unknown-route")["detail"]


@pytest.mark.parametrize("path", ["/embeddings", "/models"])
def test_clients_of_openai_that_lack_v1_are_shown_why(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert f"/v1{path}" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({}, "/sentences", "is required"),
        ({"sentences": "abc"}, "/sentences", "use `text`"),
        ({"sentences": ["abc"]}, "/sentences/0", "use `text`"),
        ({"sentences": [[], None]}, "/sentences/1", "must be a list of tokens; found null"),
        ({"sentences": [["a", "b"], ["c", 3]]}, "/sentences/1/1", "must be a string; found 3"),
        ({"sentences": [[True]]}, "/sentences/0/0", "must be a string; found true"),
        ({"sentences": [["a", {}]]}, "/sentences/0/1", "must be a string; found an empty object"),
        (
            {"sentences": GIVEN, "a/b~": 1},
            "/a~1b~0",
            "sentences, text, tokenizer, model, layers, task, mix, pooling, dtype",
        ),
        ({"sentences": GIVEN, "list[": 1}, "/list[", "is no field"),
        (
            {"sentences": GIVEN, "layers": True},
            "/layers",
            "'sum', 'concat', the number",
        ),
        ({"sentences": GIVEN, "layers": []}, "/layers", "must not be empty"),
        ({"sentences": GIVEN, "layers": ["1"]}, "/layers/0", "a whole number; found '1'"),
        ({"sentences": GIVEN, "layers": [True]}, "/layers/0", "a whole number; found true"),
        (
            {"sentences": GIVEN, "layers": [{}]},
            "/layers/0",
            "a whole number; found an empty object",
        ),
        ({"sentences": GIVEN, "layers": [10**40]}, "/layers/0", "there is no layer 1000"),
        ({"sentences": GIVEN, "layers": [0, 3]}, "/layers/1", "no layer 3; there are 0 to 2"),
        ({"sentences": GIVEN, "layers": [0, 1, 2, 0]}, "/layers", "4 layers; there are 3"),
        ({"sentences": GIVEN, "layers": [0] * 300}, "/layers", "at most 256"),
        ({"sentences": GIVEN, "task": "../x"}, "/task", "A-Z a-z 0-9 . _ -"),
        ({"sentences": GIVEN, "task": "ner\n"}, "/task", "A-Z a-z 0-9 . _ -"),
        ({"sentences": GIVEN, "mix": {}}, "/mix/weights", "is required"),
        (
            {"sentences": GIVEN, "mix": {"weights": [1, 2]}},
            "/mix/weights",
            "2 numbers, this model takes 3",
        ),
        (
            {"sentences": GIVEN, "mix": {"weights": [1, True, 3]}},
            "/mix/weights/1",
            "a number; found true",
        ),
        ({"sentences": GIVEN, "mix": {"weights": [1, 2, 1e39]}}, "/mix/weights/2", "at most 3.4"),
        (
            {"sentences": GIVEN, "mix": {"weights": [1, 2, 3], "gamma": 1e6}},
            "/mix/gamma",
            "at most 1000",
        ),
        (
            {"sentences": GIVEN, "mix": {"weights": [1, 2, 3], "gamma": 10**400}},
            "/mix/gamma",
            "a number",
        ),
        (
            {"sentences": GIVEN, "dtype": "float64"},
            "/dtype",
            "'float32' or 'float16'; found 'float64'",
        ),
        (None, "", "must be an object; found null"),
    ],
)
def test_a_body_that_breaks_the_schema_is_422_with_pointers(
    client: httpx.Client, body: Any, pointer: str, said: str
) -> None:
    response = client.post("/embed", content=json.dumps(body), headers=JSON)

    members = problem(response, "invalid-request")
    faults = {fault["pointer"]: fault["detail"] for fault in members["errors"]}
    assert said in faults[pointer]
    assert said in members["detail"]


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" + "0" * 400]
)
def test_numbers_are_finite(client: httpx.Client, number: str) -> None:
    content = f'{{"sentences": [], "mix": {{"weights": [1, 2, {number}]}}}}'

    members = problem(client.post("/embed", content=content, headers=JSON), "invalid-request")

    assert members["errors"][0]["pointer"] == "/mix/weights/2"
    assert "must be" in members["detail"]


def test_every_fault_beside_the_first_is_listed(client: httpx.Client) -> None:
    members = refused(client, sentences=[[1]], layers=[-1, 0, "x"], pooling="sum", foo=1)

    pointers = [fault["pointer"] for fault in members["errors"]]
    assert pointers == ["/sentences/0/0", "/layers/0", "/layers/2", "/pooling", "/foo"]


def test_a_million_faults_make_a_short_response(client: httpx.Client) -> None:
    for content in (
        b'{"sentences": [[' + b"0," * 1_000_000 + b"0]]}",
        b'{"sentences": [' + b"0," * 1_000_000 + b"0]}",
        b'{"sentences": [],' + b",".join(b'"%d": 0' % number for number in range(50_000)) + b"}",
    ):
        response = client.post("/embed", content=content, headers=JSON)

        problem(response, "invalid-request")
        assert len(response.content) < 5_000


def test_an_unknown_task_is_404_and_names_the_known_ones(
    client: httpx.Client, tasks: object
) -> None:
    assert (
        "none is registered" in refused(client, "unknown-task", sentences=[], task="ner")["detail"]
    )

    client.put("/tasks/sentiment", json={"weights": [1, 2, 3]}).raise_for_status()

    members = refused(client, "unknown-task", sentences=GIVEN, task="ner")
    assert "'ner'" in members["detail"]
    assert "'sentiment'" in members["detail"]


@pytest.mark.parametrize("path", ["/nothing", "/embed/", "/v1", "/tasks/a/b", "/healthz", "/%00"])
def test_an_unknown_route_is_404(client: httpx.Client, path: str) -> None:
    problem(client.get(path), "unknown-route")


METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"}


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/embed", {"POST"}),
        ("/tasks", {"GET", "HEAD"}),
        ("/tasks/ner", {"DELETE", "GET", "HEAD", "PUT"}),
        ("/info", {"GET", "HEAD"}),
        ("/health/live", {"GET", "HEAD"}),
        ("/health/ready", {"GET", "HEAD"}),
        ("/metrics", {"GET", "HEAD"}),
        ("/docs", {"GET", "HEAD"}),
        ("/openapi.json", {"GET", "HEAD"}),
    ],
)
def test_another_method_is_405_and_names_the_allowed_ones(
    client: httpx.Client, path: str, allowed: set[str]
) -> None:
    for method in METHODS:
        response = client.request(method, path)

        assert (response.status_code == 405) == (method not in allowed), method
        if method not in allowed:
            assert set(response.headers["allow"].split(", ")) == allowed
            if method != "HEAD":
                members = problem(response, "method-not-allowed")
                assert all(name in members["detail"] for name in allowed)


@pytest.mark.parametrize(
    "path", ["/tasks", "/info", "/health/live", "/health/ready", "/metrics", "/openapi.json"]
)
def test_head_answers_like_get_without_a_body(client: httpx.Client, path: str) -> None:
    got, headed = client.get(path), client.head(path)

    assert headed.status_code == got.status_code == 200
    assert headed.content == b""
    assert headed.headers["content-type"] == got.headers["content-type"]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Content-Type", "text/plain"),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Type", "application/jsonx"),
        ("Content-Type", ""),
        ("Content-Encoding", "gzip"),
        ("Content-Encoding", "gzip, identity"),
    ],
)
def test_another_media_type_is_415(client: httpx.Client, header: str, value: str) -> None:
    for method, path in (("POST", "/embed"), ("PUT", "/tasks/ner")):
        response = client.request(method, path, content=b"{}", headers={**JSON, header: value})

        members = problem(response, "unsupported-media-type")
        assert repr(value) in members["detail"]
        assert "application/json" in members["detail"] or "not compressed" in members["detail"]
        assert ("curl -H" in members["detail"]) is (value == "application/x-www-form-urlencoded")


@pytest.mark.parametrize(
    "value", ["Application/JSON", "application/json; charset=utf-8", "application/json ;x=y"]
)
def test_json_is_known_by_its_type_alone(client: httpx.Client, value: str) -> None:
    response = client.post("/embed", content=b'{"sentences": []}', headers={"Content-Type": value})

    assert response.status_code == 200


@pytest.mark.parametrize(
    "value",
    ["0", "-1", "0.0", "nan", "inf", "1e400", "abc", "", "1_0", "0x10", "60s", "1,5", "+1", "1 2"],
)
def test_a_deadline_is_a_number_above_0(client: httpx.Client, value: str) -> None:
    response = client.post("/embed", json={"sentences": []}, headers={"X-Request-Timeout": value})

    members = problem(response, "invalid-request")
    assert repr(value) in members["detail"]
    assert "seconds above 0" in members["detail"]


@pytest.mark.parametrize("value", ["1", "0.5", ".5", "5.", "1e2", "3E+1", "999999999", "1e300"])
def test_a_deadline_is_any_number_of_seconds(client: httpx.Client, value: str) -> None:
    response = client.post("/embed", json={"sentences": []}, headers={"X-Request-Timeout": value})

    assert response.status_code == 200


@pytest.mark.parametrize("value", ["1e-9", "5e-324"])
def test_a_deadline_that_passes_is_504(slow: Running, value: str) -> None:
    body = {"sentences": [[str(number)] for number in range(1_000)]}

    response = httpx.post(slow.url + "/embed", json=body, headers={"X-Request-Timeout": value})

    members = problem(response, "deadline-exceeded")
    assert " s" in members["detail"]


@asynccontextmanager
async def held(serving: InProcess, sentences: int, **headers: str) -> AsyncIterator[None]:
    """Hold a request of one-token sentences behind a closed gate, and answer it in the end."""
    bulk = {"sentences": [[f"{index}"] for index in range(sentences)], "pooling": "mean"}
    serving.worker.close()
    held = asyncio.ensure_future(serving.client.post("/embed", json=bulk, headers=headers))
    await until(lambda: serving.server.engine.admission.outstanding > 0)
    yield
    serving.worker.open()
    assert (await held).status_code == 200


async def test_a_full_queue_is_503_and_says_when_to_come_again() -> None:
    """Whole or not at all: the second request does not fit beside the first, the third does."""
    bulk = {"sentences": [[f"{index}"] for index in range(1_800)], "pooling": "mean"}
    small = {"sentences": [["small"]]}
    async with in_process(max_queue_tokens=6_000, request_timeout_seconds=86_400) as serving:
        async with held(serving, 1_800):
            second = await serving.client.post("/embed", json=bulk)
            third = asyncio.ensure_future(serving.client.post("/embed", json=small))

            members = problem(second, "overloaded")
            assert "6000 tokens" in members["detail"]
            assert 1 <= int(second.headers["retry-after"]) <= 60
        assert (await third).status_code == 200


async def test_a_client_over_its_share_is_429_and_another_is_answered() -> None:
    """A client is a key. The first call is the whole share, so nothing fits beside it."""
    limits: dict[str, Any] = {
        "max_client_tokens": 3_000,
        "request_timeout_seconds": 86_400,
        "api_keys": "mine,yours",
    }
    small = {"sentences": [["small"]]}
    mine, yours = ({"Authorization": f"Bearer {key}"} for key in ("mine", "yours"))
    async with in_process(**limits) as serving:
        async with held(serving, 1_000, **mine):
            second = await serving.client.post("/embed", json=small, headers=mine)
            third = asyncio.ensure_future(serving.client.post("/embed", json=small, headers=yours))

            members = problem(second, "client-over-share")
            assert second.status_code == 429
            assert "3000 of its 3000 tokens" in members["detail"]
            assert int(second.headers["retry-after"]) >= 1
        assert (await third).status_code == 200


def test_limits_are_413_and_named_with_their_values(narrow_client: httpx.Client) -> None:
    for body, said in (
        (
            {"sentences": [[]] * 4},
            "4 sentences and at most 3 are allowed (ELMO_MAX_REQUEST_SENTENCES",
        ),
        (
            {"sentences": [["a"] * 5]},
            "5 tokens and at most 4 are allowed (ELMO_MAX_SENTENCE_TOKENS",
        ),
        (
            {"sentences": [[word] * 4 for word in "abc"], "pooling": "mean", "layers": "top"},
            "18 tokens, boundaries included, and at most 16",
        ),
        ({"sentences": [["x" * 1_000]]}, "at most 1000 are allowed (ELMO_MAX_BODY_BYTES"),
        ({"sentences": [["a"] * 4] * 2}, "at most 4000 are allowed (ELMO_MAX_ANSWER_BYTES"),
    ):
        members = problem(narrow_client.post("/embed", json=body), "too-large")
        assert said in members["detail"]


def test_a_sentence_over_the_limit_is_pointed_to(narrow_client: httpx.Client) -> None:
    response = narrow_client.post("/embed", json={"sentences": [[], ["a"] * 5]})

    assert problem(response, "too-large")["errors"][0]["pointer"] == "/sentences/1"


def test_nothing_acceptable_is_406_before_any_work(client: httpx.Client, server: Running) -> None:
    before = server.metric("elmo_sentences_total")

    response = client.post("/embed", json={"sentences": GIVEN}, headers={"Accept": "text/html"})

    members = problem(response, "not-acceptable")
    assert response.headers["vary"] == "Accept"
    for media_type in ("application/json", "application/x-npz", "application/vnd.safetensors"):
        assert media_type in members["detail"]
    assert server.metric("elmo_sentences_total") == before


def test_no_message_repeats_a_long_value(client: httpx.Client) -> None:
    long = "x" * 4_000
    numbers = "9" * 4_000
    answers = [
        client.post("/embed", json={"sentences": [[]], long: 1}),
        client.post("/embed", json={"sentences": long}),
        client.post("/embed", json={"sentences": [], "task": long}),
        client.post("/embed", json={"sentences": [], "pooling": long}),
        client.post("/embed", content=f'{{"sentences": [], "layers": [{numbers}]}}', headers=JSON),
        client.post("/embed", json={"sentences": []}, headers={"Accept": long}),
        client.post("/embed", json={"sentences": []}, headers={"X-Request-Timeout": long}),
        client.post("/embed", json={"sentences": []}, headers={"Content-Type": long}),
        client.get(f"/{long}"),
        client.get(f"/tasks/{long}"),
        client.put(f"/tasks/{long}", json={"weights": [0, 0, 0]}),
        client.put("/tasks/t", json={"weights": [0, 0, 0], "name": long}),
        client.put("/tasks/t", json={"weights": [0, 0, 0], "gamma": long}),
    ]

    for answer in answers:
        members = answer.json()
        assert answer.status_code >= 400
        assert len(members["detail"]) < 400, members
        for fault in members.get("errors", []):
            assert len(fault["detail"]) < 400, members
