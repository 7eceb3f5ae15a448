"""The table of refusals: for each route what it does not take, the status and the place at fault.

A word of the message is named where it says what a client can do. Every refusal has the form of its
route, a bounded length and nothing of the program's inside.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi.routing import APIRoute

from elmo_serve.errors import TYPE_PREFIX
from tests.support.http_messages import ERRORS
from tests.support.in_process import InProcess, in_process
from tests.support.servers import write_task
from tests.support.training import write_bundle

pytestmark = pytest.mark.asyncio(loop_scope="module")

Row = tuple[Any, int, str | None, str]
"""A body, as JSON unless it is bytes; the status; the pointer, None for no fault of a field; a word
of the message or nothing."""

SLUGS = {error.slug: error.status for error in ERRORS}
INTERNAL = ("Traceback", "pydantic", "Exception", "Input should", "/work", "service/")
OPENAI = ("/v1/", "/embeddings", "/models")
JSON = {"Content-Type": "application/json"}
UNASKED = (None, "text/plain", "multipart/form-data", "application/x-www-form-urlencoded")
"""Types of a body, or none, that a browser sends to another origin without asking it before."""

LONG = "x" * 4_000
A = [["a"]]
USE: dict[str, Any] = {"tokens": ["a"], "token": 0}
WEIGHTS = {"weights": [1, 2, 3]}
MIX = b'{"sentences": [], "mix": {"weights": [1, 2, %b]}}'
NUMBERS = (b"NaN", b"-Infinity", b"1e400", b"1" + b"0" * 400)
MANY_NAMES = b'{"sentences": [],' + b",".join(b'"%d": 0' % n for n in range(9_999)) + b"}"

NOT_JSON: list[Row] = [
    (b"", 400, None, "EOF"),
    (b"{", 400, None, "EOF"),
    (b'{"sentences": [["a"]],}', 400, None, "column"),
    (b'{"sentences": [["\xff"]]}', 400, None, ""),
    (b'\xef\xbb\xbf{"sentences": []}', 400, None, ""),
    ('{"sentences": []}'.encode("utf-16"), 400, None, ""),
    (rb'{"description": "\ud800"}', 400, None, ""),
    (rb'{"task": null, "text": ["\udc00\ud800"]}', 400, None, ""),
    (b'{"weights": [1, 2, ' + b"9" * 5_000 + b"]}", 400, None, ""),
    (b"[" * 60_000, 400, None, ""),
    (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, 400, None, ""),
    (b"sentences=a", 400, None, ""),
]
"""Of every route with a body."""

BODIES: dict[str, list[Row]] = {
    "POST /embed": [
        *NOT_JSON,
        (None, 422, "", "object"),
        ([], 422, "", "object"),
        ({}, 422, "/sentences", "required"),
        ({"sentences": None, "text": None}, 422, "/sentences", "required"),
        ({"text": ["a"], "sentences": A}, 422, "/sentences", "both"),
        ({"sentences": "abc"}, 422, "/sentences", "`text`"),
        ({"sentences": ["abc"]}, 422, "/sentences/0", "`text`"),
        ({"sentences": [[], None]}, 422, "/sentences/1", "array"),
        ({"sentences": [["a", "b"], ["c", 3]]}, 422, "/sentences/1/1", "string"),
        ({"sentences": [[True]]}, 422, "/sentences/0/0", "string"),
        ({"sentences": [["a", {}]]}, 422, "/sentences/0/1", "string"),
        ({"text": "a"}, 422, "/text", "array"),
        ({"text": [1]}, 422, "/text/0", "string"),
        ({"text": ["a"], "tokenizer": "spacy"}, 422, "/tokenizer", "'moses'"),
        ({"text": [], "sentences": A, "tokenizer": "ptb"}, 422, "/tokenizer", "`text`"),
        ({"sentences": A, "a/b~": 1}, 422, "/a~1b~0", ""),
        ({"sentences": A, "list[": 1}, 422, "/list[", ""),
        ({"sentences": A, LONG: 1}, 422, "", ""),
        ({"sentences": LONG}, 422, "/sentences", ""),
        ({"sentences": [["The river bank"]]}, 422, "/sentences/0/0", "`text`"),
        ({"sentences": A, "layers": True}, 422, "/layers", "'concat'"),
        ({"sentences": A, "layers": []}, 422, "/layers", ""),
        ({"sentences": A, "layers": ["1"]}, 422, "/layers/0", "integer"),
        ({"sentences": A, "layers": [True]}, 422, "/layers/0", "integer"),
        ({"sentences": A, "layers": [{}]}, 422, "/layers/0", "integer"),
        ({"sentences": A, "layers": [-1]}, 422, "/layers/0", ""),
        ({"sentences": A, "layers": [10**40]}, 422, "/layers/0", ""),
        ({"sentences": A, "layers": [0, 3]}, 422, "/layers/1", "2"),
        ({"sentences": A, "layers": [0, 1, 2, 0]}, 422, "/layers", "3"),
        ({"sentences": A, "layers": [0] * 300}, 422, "/layers", "256"),
        ({"sentences": A, "layers": "all", "task": "ner"}, 422, "/layers", "task"),
        ({"sentences": A, "task": "ner", "mix": WEIGHTS}, 422, "/task", "mix"),
        ({"sentences": A, "layers": "all", "mix": WEIGHTS}, 422, "/layers", "mix"),
        ({"sentences": A, "task": "../x"}, 422, "/task", "A-Z"),
        ({"sentences": A, "task": "ner\n"}, 422, "/task", "A-Z"),
        ({"sentences": A, "task": LONG}, 422, "/task", ""),
        ({"sentences": A, "task": "pos"}, 404, None, "'ner'"),
        ({"sentences": A, "model": "none"}, 404, None, "'small'"),
        ({"sentences": A, "mix": {}}, 422, "/mix/weights", "required"),
        ({"sentences": A, "mix": {"weights": [1, 2]}}, 422, "/mix/weights", "3"),
        ({"sentences": A, "mix": {"weights": [1, True, 3]}}, 422, "/mix/weights/1", "number"),
        ({"sentences": A, "mix": {"weights": [1, 2, 1e39]}}, 422, "/mix/weights/2", "less than"),
        ({"sentences": A, "mix": {**WEIGHTS, "gamma": 1e6}}, 422, "/mix/gamma", "1000"),
        ({"sentences": A, "mix": {**WEIGHTS, "gamma": 10**400}}, 422, "/mix/gamma", "number"),
        *[(MIX % number, 422, "/mix/weights/2", "") for number in NUMBERS],
        ({"sentences": A, "dtype": "float64"}, 422, "/dtype", "'float16'"),
        ({"sentences": A, "pooling": LONG}, 422, "/pooling", "'mean'"),
        (b'{"sentences": [[' + b"0," * 500_000 + b"0]]}", 422, "/sentences/0/0", ""),
        (b'{"sentences": [' + b"0," * 500_000 + b"0]}", 413, None, "10000"),
        (MANY_NAMES, 422, "", ""),
        ({"sentences": [["a"], ["!raises"]]}, 500, "/sentences/1", ""),
        ({"text": ["a", "!raises"], "tokenizer": "whitespace"}, 500, "/text/1", ""),
    ],
    "POST /tokenize": [
        *NOT_JSON[:2],
        ({}, 422, "/text", "required"),
        ({"text": "a"}, 422, "/text", "array"),
        ({"text": [1]}, 422, "/text/0", "string"),
        ({"text": [], "sentences": []}, 422, "/sentences", ""),
        ({"text": ["a"], "tokenizer": "spacy"}, 422, "/tokenizer", "'moses'"),
        ({"text": ["a"], "model": "nowhere"}, 404, None, "'small'"),
        ({"text": ["DOTMULTI"], "tokenizer": "moses"}, 422, "/text/0", "'DOTMULTI'"),
        ({"text": ["a "] * 10_001}, 413, None, "10000"),
        ({"text": ["a " * 35_001]}, 413, "/text/0", "35000"),
        ({"text": ["a", "x" * 2_300_000]}, 413, "/text/1", "characters"),
    ],
    "POST /neighbours": [
        *NOT_JSON[:2],
        ({"token": 0}, 422, "/tokens", "neither"),
        ({**USE, "text": "a"}, 422, "/tokens", "both"),
        ({"tokens": ["a"]}, 422, "/token", "required"),
        ({"tokens": ["a"], "token": -1}, 422, "/token", "0"),
        ({"tokens": ["a"], "token": "a"}, 422, "/token", "integer"),
        ({"tokens": [], "token": 0}, 422, "/tokens", "empty"),
        ({"tokens": ["The river bank"], "token": 0}, 422, "/tokens/0", "`text`"),
        ({"tokens": "a", "token": 0}, 422, "/tokens", "array"),
        ({"text": "a", "tokenizer": "x", "token": 0}, 422, "/tokenizer", "'ptb'"),
        ({**USE, "tokenizer": "ptb"}, 422, "/tokenizer", "`text`"),
        ({**USE, "k": 0}, 422, "/k", "1"),
        ({**USE, "k": 101}, 422, "/k", "100"),
        ({**USE, "k": 1e300}, 422, "/k", "100"),
        ({**USE, "layers": "all"}, 422, "/layers", "'average'"),
        ({**USE, "layers": [1]}, 422, "/layers", "'average'"),
        ({**USE, "layers": True}, 422, "/layers", "'average'"),
        ({**USE, "layers": 3}, 422, "/layers", "2"),
        ({**USE, "layers": 10**99}, 422, "/layers", ""),
        ({**USE, "mix": {"weights": [1]}}, 422, "/mix/weights", "3"),
        ({**USE, "mix": {**WEIGHTS, "layer_norm": True}}, 422, "/mix/layer_norm", "index"),
        ({**USE, "near": 1}, 422, "/near", ""),
        ({**USE, "layers": "top", "task": "x"}, 422, "/layers", "task"),
        ({**USE, "model": "none"}, 404, None, "'small'"),
        ({**USE, "task": "none"}, 404, None, "'ner'"),
        ({"tokens": ["a"] * 35_001, "token": 0}, 413, "/tokens", "35000"),
    ],
    "POST /score": [({"sentences": A}, 409, None, "softmax")],
    "POST /substitutes": [
        ({"sentences": A, "positions": [[0]]}, 409, None, "softmax"),
        ({"sentences": A, "positions": [[0]], "k": 101}, 422, "/k", "100"),
        ({"sentences": A, "positions": [[*range(40)], [*range(25)]]}, 422, "/positions", "64"),
    ],
    "POST /v1/embeddings": [
        *NOT_JSON[:6],
        (None, 400, None, "object"),
        ({"model": "small"}, 400, "/input", "required"),
        ({"input": None}, 400, "/input", "text"),
        ({"input": 3}, 400, "/input", "text"),
        ({"input": []}, 400, "/input", "text"),
        ({"input": [7, 8]}, 400, "/input", "check_embedding_ctx_length=False"),
        ({"input": [[7]]}, 400, "/input", "check_embedding_ctx_length=False"),
        ({"input": [["a", 3]]}, 400, "/input", "/input/0/1"),
        ({"input": ["a", {}]}, 400, "/input", "/input/1"),
        ({"input": [{}]}, 400, "/input", "/input/0"),
        ({"input": [["The river bank"]]}, 400, "/input", "a string"),
        ({"input": ["a", ["b"]]}, 400, "/input", "/input/1"),
        ({"input": ["a", "b", ["c"]]}, 400, "/input", "/input/2"),
        ({"input": [["a"], "b"]}, 400, "/input", "/input/1"),
        ({"input": [["a"], [7]]}, 400, "/input", "check_embedding_ctx_length=False"),
        ({"input": ["a", ""]}, 400, "/input", "/input/1"),
        ({"input": [["a"], []]}, 400, "/input", "/input/1"),
        ({"input": " \n\t"}, 400, "/input", "no token"),
        ({"input": "a", "dimensions": 8}, 400, "/dimensions", "must be 4"),
        ({"input": "a", "dimensions": 0}, 400, "/dimensions", "must be 4"),
        ({"input": "a", "dimensions": "4"}, 400, "/dimensions", "integer"),
        ({"input": "a", "encoding_format": "int8"}, 400, "/encoding_format", "'base64'"),
        ({"input": "a", "model": 7}, 400, "/model", "string"),
        ({"input": "a", "model": "text-embedding-3-small"}, 404, None, "'small'"),
        ({"input": "a", "model": "other@ner"}, 404, None, "'small'"),
        ({"input": "a", "model": "@"}, 404, None, "'small'"),
        ({"input": "a", "model": "small@"}, 404, None, "'small'"),
        ({"input": "a", "model": "small@pos"}, 404, None, "'ner'"),
        ({"input": " ".join(["a"] * 35_001)}, 413, "/input", "35000"),
        ({"input": [["a"], ["!raises"]]}, 500, "/input", ""),
    ],
    "POST /embed?other=1&model=five": [({"sentences": A}, 422, None, "query")],
    "POST /v1/embeddings?model=five": [({"input": "a"}, 400, None, "query")],
    "GET /tasks/none": [(b"", 404, None, "'ner'")],
    "GET /uses": [(b"", 422, "/word", "required")],
    "GET /uses?word=": [(b"", 422, "/word", "1")],
    "GET /uses?word=a%20b": [(b"", 422, "/word", "space")],
    "GET /uses?word=%C2%A0": [(b"", 422, "/word", "space")],
    "GET /uses?word=a&limit=0": [(b"", 422, "/limit", "1")],
    "GET /uses?word=a&limit=101": [(b"", 422, "/limit", "100")],
    "GET /uses?word=a&offset=-1": [(b"", 422, "/offset", "0")],
    "GET /uses?word=a&offset=x": [(b"", 422, "/offset", "integer")],
    f"GET /uses?word=a&offset={'9' * 5_000}": [(b"", 422, "/offset", "")],
    "GET /uses?word=a&ofset=1": [(b"", 422, "/ofset", "")],
    "GET /uses?word=a&model=five": [(b"", 404, None, "'small'")],
    "GET /uses?word=a": [(b"", 404, None, "ELMO_INDEX")],
    "GET /info?model=five": [(b"", 404, None, "'small'")],
    **{
        f"GET {path}": [(b"", 404, None, "/docs")]
        for path in ("/no", "/embed/", "/v1", "/tasks/a/b", "/%00", "/info%0a", f"/{LONG}")
    },
    "GET /v1/none": [(b"", 404, None, "/docs")],
    "GET /v1/models/other": [(b"", 404, None, "'small'")],
}

HEADERS: list[tuple[dict[str, str], int, str]] = [
    *[
        ({"Content-Type": value}, 415, "application/json")
        for value in ("text/plain", "application/jsonx", "", LONG)
    ],
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "curl"),
    *[
        ({"Content-Encoding": value}, 415, "compressed")
        for value in ("gzip", "gzip, identity", "deflate", "br", "zstd", "x-unknown")
    ],
    *[
        ({"X-Request-Timeout": value}, 422, "seconds")
        for value in (
            *("0", "-1", "0.0", "nan", "inf", "1e400", "abc", "", "1_0", "0x10", "60s", "1,5"),
            *("+1", "1 2", LONG),
        )
    ],
    ({"X-Request-Timeout": "1e-9"}, 504, "time"),
    ({"X-Request-Timeout": "5e-324"}, 504, ""),
    ({"Accept": "text/html"}, 406, "application/x-npz"),
    ({"Accept": "text/" + LONG}, 406, ""),
    ({"Content-Length": "3", "Transfer-Encoding": "chunked"}, 400, "both"),
]
"""Heads of a POST /embed that is right otherwise."""

NARROW: dict[str, Any] = {
    "max_request_sentences": 3,
    "max_sentence_tokens": 4,
    "max_batch_tokens": 6,
    "max_queue_tokens": 16,
    "max_answer_bytes": 300,
    "max_body_bytes": 1_000,
}
LIMITS: dict[str, list[Row]] = {
    "POST /embed": [
        ({"sentences": [[]] * 4}, 413, None, "ELMO_MAX_REQUEST_SENTENCES"),
        ({"sentences": [[], ["a"] * 5]}, 413, "/sentences/1", "ELMO_MAX_SENTENCE_TOKENS"),
        ({"text": ["a"] * 4}, 413, None, "ELMO_MAX_REQUEST_SENTENCES"),
        ({"text": ["a b c d"] * 3}, 413, None, "ELMO_MAX_QUEUE_TOKENS"),
        ({"text": ["", "x" * 257]}, 413, "/text/1", "256"),
        ({"sentences": [[w] * 4 for w in "abc"], "pooling": "mean", "layers": 1}, 413, None, "16"),
        ({"sentences": [["x" * 1_000]]}, 413, None, "ELMO_MAX_BODY_BYTES"),
        ({"sentences": [["a"] * 4] * 2}, 413, None, "ELMO_MAX_ANSWER_BYTES"),
    ],
    "POST /tokenize": [
        ({"text": ["a b c d e"]}, 413, "/text/0", "5 words"),
        ({"text": ["((((("], "tokenizer": "ptb"}, 413, "/text/0", "ELMO_MAX_SENTENCE_TOKENS"),
        ({"text": [" ".join(["x" * 60] * 4)] * 2}, 413, None, "ELMO_MAX_ANSWER_BYTES"),
    ],
    "POST /v1/embeddings": [
        ({"input": [{}] * 4}, 413, None, "ELMO_MAX_REQUEST_SENTENCES"),
        ({"input": [["a"] * 5]}, 413, "/input", "ELMO_MAX_SENTENCE_TOKENS"),
        ({"input": [[word] * 4 for word in "abc"]}, 413, None, "ELMO_MAX_QUEUE_TOKENS"),
        ({"input": [["a" * 1_000]]}, 413, None, "ELMO_MAX_BODY_BYTES"),
    ],
}

THREE = {"sentences": [["a"] * 3, [], ["a"] * 3]}
WITH_SOFTMAX: dict[str, list[Row]] = {
    "POST /substitutes": [
        ({**THREE, "positions": [[0]]}, 422, "/positions", ""),
        ({**THREE, "positions": [[3], [], []]}, 422, "/positions/0/0", ""),
        ({**THREE, "positions": [[0], [0], []]}, 422, "/positions/1/0", ""),
        ({**THREE, "positions": [[0, 0], [], []]}, 422, "/positions/0", ""),
    ],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def serving(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcess]:
    tasks = tmp_path_factory.mktemp("tasks")
    write_task(tasks, "ner", **WEIGHTS)
    async with in_process(model="small", tasks=tasks) as serving:
        yield serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcess]:
    settings = {**NARROW, "tasks": tmp_path_factory.mktemp("tasks")}
    async with in_process(**settings) as serving:
        yield serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def with_softmax(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcess]:
    model = str(write_bundle(tmp_path_factory.mktemp("language") / "bilm_tf"))
    async with in_process(has_model=True, model=model) as serving:
        yield serving


def rows(table: dict[str, list[Row]]) -> list[Any]:
    return [
        pytest.param(route, *row, id=f"{route[:24]}-{index}")
        for route, found in table.items()
        for index, row in enumerate(found)
    ]


async def ask(serving: InProcess, route: str, body: Any) -> httpx.Response:
    method, path = route.split(" ", 1)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await serving.client.request(method, path, content=content, headers=JSON)


def check(answer: httpx.Response, status: int, pointer: str | None, word: str) -> None:
    """Check what is true of every refusal, and what one row says."""
    assert answer.status_code == status, answer.text
    assert len(answer.content) < 5_000 and not any(each in answer.text for each in INTERNAL)
    members = answer.json()
    assert ("error" in members) == answer.url.path.startswith(OPENAI)
    if "error" in members:
        assert answer.headers["content-type"] == "application/json"
        assert set(members["error"]) == {"message", "type", "param", "code"}
        detail, places = members["error"]["message"], [members["error"]["param"]]
        pointer = None if pointer is None else pointer[1:]
    else:
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(members) - {"errors"} == {"type", "title", "status", "detail", "instance"}
        assert SLUGS[members["type"].removeprefix(TYPE_PREFIX)] == members["status"] == status
        assert members["instance"] == answer.headers["x-request-id"]
        detail, faults = members["detail"], members.get("errors", [])
        assert all(set(each) == {"pointer", "detail"} for each in faults)
        places = [each["pointer"] for each in faults] or [None]
    assert pointer in places[:1]
    assert word in detail and len(detail) < 400


@pytest.mark.parametrize(("route", "body", "status", "pointer", "word"), rows(BODIES))
async def test_a_body_is_refused_at_its_place(
    serving: InProcess, route: str, body: Any, status: int, pointer: str | None, word: str
) -> None:
    check(await ask(serving, route, body), status, pointer, word)


@pytest.mark.parametrize(("route", "body", "status", "pointer", "word"), rows(LIMITS))
async def test_a_body_over_a_limit_is_too_large(
    narrow: InProcess, route: str, body: Any, status: int, pointer: str | None, word: str
) -> None:
    check(await ask(narrow, route, body), status, pointer, word)


@pytest.mark.parametrize(("route", "body", "status", "pointer", "word"), rows(WITH_SOFTMAX))
async def test_a_body_for_the_language_model_is_refused_at_its_place(
    with_softmax: InProcess, route: str, body: Any, status: int, pointer: str | None, word: str
) -> None:
    check(await ask(with_softmax, route, body), status, pointer, word)


@pytest.mark.parametrize(("headers", "status", "word"), HEADERS)
async def test_a_head_is_refused(
    serving: InProcess, headers: dict[str, str], status: int, word: str
) -> None:
    before = len(serving.worker.batches)
    body = json.dumps({"sentences": [[f"a{number}"] for number in range(40)]}).encode()
    sent = {**JSON, **headers}
    answer = await serving.client.post("/embed", content=body, headers=sent)

    check(answer, status, None, word)
    assert status == 504 or len(serving.worker.batches) == before
    if status == 415 and "Content-Encoding" in headers:
        assert answer.headers["accept-encoding"] == "identity"
    if status == 406:
        assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/embed", {"POST"}),
        ("/v1/embeddings", {"POST"}),
        ("/tasks", {"GET", "HEAD"}),
        ("/tasks/ner", {"GET", "HEAD"}),
        *[
            (path, {"GET", "HEAD"})
            for path in ("/info", "/health/live", "/health/ready", "/metrics", "/docs", "/")
        ],
    ],
)
async def test_another_method_is_405_and_names_the_allowed_ones(
    serving: InProcess, path: str, allowed: set[str]
) -> None:
    for method in {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} - allowed:
        answer = await serving.client.request(method, path)

        assert answer.status_code == 405
        assert set(answer.headers["allow"].split(", ")) == allowed
        if method != "HEAD":
            check(answer, 405, None, min(allowed))


async def test_every_route_refuses_a_body_that_a_page_may_send_unasked(serving: InProcess) -> None:
    paths = {
        route.path
        for route in serving.app.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ())
    }
    assert len(paths) > 4
    for path in paths:
        for kind in UNASKED:
            sent = {} if kind is None else {"Content-Type": kind}
            answer = await serving.client.post(path, content=b'{"text": ["a"]}', headers=sent)
            check(answer, 415, None, "application/json")


async def test_every_fault_is_listed_after_the_first(serving: InProcess) -> None:
    body = {"sentences": [[1]], "layers": [-1, 0, "x"], "pooling": "sum", "foo": 1}
    members = (await ask(serving, "POST /embed", body)).json()

    pointers = [fault["pointer"] for fault in members["errors"]]
    assert pointers == ["/sentences/0/0", "/layers/0", "/layers/2", "/pooling", "/foo"]
    assert members["detail"].startswith("/sentences/0/0: ")


async def test_heads_that_differ_in_form_alone_are_taken(serving: InProcess) -> None:
    for name, values in {
        "Content-Type": ("Application/JSON", "application/json; charset=utf-8"),
        "X-Request-Timeout": ("60", "60.5", ".6e3", "600.", "1e2", "6E+1", "999999999", "1e300"),
        "Content-Encoding": ("identity",),
    }.items():
        for value in values:
            headers = {**JSON, name: value}
            answer = await serving.client.post("/embed", content=b'{"text":[]}', headers=headers)
            assert answer.status_code == 200, (name, value)
