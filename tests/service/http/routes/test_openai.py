"""/v1 as OpenAI's API; the clients that speak it are in tests/clients."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.servers import SMALL, Running, running

TEXTS = ["The bank of the river .", "It rains .", "naïve café"]
TOKENS = [text.split() for text in TEXTS]
TASK = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5}


def create(client: httpx.Client, **body: Any) -> Any:
    return client.post("/v1/embeddings", json=body).raise_for_status().json()


def vectors(found: Any) -> NDArray[np.float32]:
    return np.array([each["embedding"] for each in found["data"]], np.float32)


def expected(client: httpx.Client, **selection: Any) -> NDArray[np.float32]:
    """Return the unit vectors of /embed for the tokens of `TEXTS`."""
    body = {"sentences": TOKENS, "pooling": "mean", "normalize": True, **selection}
    answer = client.post("/embed", json=body).raise_for_status()
    return np.array(answer.json()["embeddings"], np.float32)


def test_a_text_is_the_unit_vector_of_its_average_layer(client: httpx.Client) -> None:
    found = create(client, input=TEXTS)

    np.testing.assert_allclose(np.linalg.norm(vectors(found), axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors(found), expected(client, layers="average"), atol=1e-6)
    assert found["object"] == "list"
    assert [each["object"] for each in found["data"]] == ["embedding"] * 3
    assert [each["index"] for each in found["data"]] == [0, 1, 2]
    assert found["model"] == "small"
    count = sum(map(len, TOKENS))
    assert found["usage"] == {"prompt_tokens": count, "total_tokens": count}


def test_one_text_and_lists_of_tokens_are_the_same_vectors(client: httpx.Client) -> None:
    whole = vectors(create(client, input=TEXTS))

    for index, text in enumerate(TEXTS):
        np.testing.assert_allclose(vectors(create(client, input=text))[0], whole[index], atol=1e-6)
    np.testing.assert_allclose(vectors(create(client, input=TOKENS)), whole, atol=1e-6)


@pytest.mark.parametrize("count", [1, 3_000])
def test_base64_holds_the_same_numbers(client: httpx.Client, count: int) -> None:
    """A long response is written by a thread or by JSON processes, in parts."""
    texts = [f"text {number} ." for number in range(count)]
    numbers = create(client, input=texts)
    coded = create(client, input=texts, encoding_format="base64")

    assert [each["index"] for each in coded["data"]] == list(range(count))
    assert [each["index"] for each in numbers["data"]] == list(range(count))
    found = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in coded["data"]]
    np.testing.assert_allclose(found, vectors(numbers), atol=1e-6)
    assert coded["usage"] == numbers["usage"]


@pytest.fixture
def task(client: httpx.Client, tasks: object) -> Iterator[str]:
    client.put("/tasks/ner", json=TASK).raise_for_status()
    yield "ner"


def test_a_model_may_name_a_task(client: httpx.Client, task: str) -> None:
    found = create(client, input=TEXTS, model=f"small@{task}")

    np.testing.assert_allclose(vectors(found), expected(client, task=task), atol=1e-6)
    assert found["model"] == "small@ner"


def test_models_are_those_of_the_server_and_their_tasks(client: httpx.Client, task: str) -> None:
    found = client.get("/v1/models").raise_for_status().json()

    assert found["object"] == "list"
    assert [each["id"] for each in found["data"]] == ["small", "small@ner"]
    for each in found["data"]:
        assert each["object"] == "model"
        assert each["created"] > 1_700_000_000
        assert client.get(f"/v1/models/{each['id']}").json() == each


@pytest.mark.parametrize(
    ("body", "param", "text"),
    [
        ({"input": [[1, 2, 3]]}, "input", "check_embedding_ctx_length=False"),
        ({"input": [1, 2, 3]}, "input", "check_embedding_ctx_length=False"),
        ({"input": "a", "dimensions": 8}, "dimensions", "must be 32, the width"),
        ({"input": "a", "dimensions": 0}, "dimensions", "must be 32, the width"),
        ({"input": "a", "dimensions": "32"}, "dimensions", "a whole number; found '32'"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format", "'float' or 'base64'"),
        ({"input": ["a", ""]}, "input", "/input/1: holds no token"),
        ({"input": " \n\t"}, "input", "holds no token"),
        ({"input": [["a"], []]}, "input", "/input/1: holds no token"),
        ({"input": []}, "input", "an empty list"),
        ({"input": None}, "input", "is required"),
        ({"input": [["a", 3]]}, "input", "/input/0/1: must be a string"),
        ({"model": "small"}, "input", "is required"),
        ({"input": "a", "model": 7}, "model", "must be a string"),
    ],
)
def test_a_faulty_request_is_400_and_names_the_field(
    client: httpx.Client, body: dict[str, Any], param: str, text: str
) -> None:
    answer = client.post("/v1/embeddings", json=body)

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert text in error["message"]
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("name", ["text-embedding-3-small", "other@ner", "@", "small@"])
def test_an_unknown_model_is_404_with_the_names(client: httpx.Client, name: str) -> None:
    for answer in (
        client.post("/v1/embeddings", json={"input": "a", "model": name}),
        client.get(f"/v1/models/{name}"),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"
        assert "'small'" in answer.json()["error"]["message"]


def test_an_unknown_task_is_404_with_the_names(client: httpx.Client, task: str) -> None:
    answer = client.post("/v1/embeddings", json={"input": "a", "model": "small@pos"})

    assert answer.status_code == 404
    assert "'ner'" in answer.json()["error"]["message"]


def test_fields_of_other_servers_are_ignored(client: httpx.Client) -> None:
    body = {"input": "a", "user": "me", "model": None, "dimensions": None, "truncate": "END"}

    assert len(create(client, **body)["data"]) == 1


def test_the_width_of_the_model_may_be_asked_for(client: httpx.Client) -> None:
    width = client.get("/info").json()["dimension"]

    assert create(client, input="a", dimensions=width) == create(client, input="a")


def test_a_text_may_be_as_long_as_a_sentence(client: httpx.Client) -> None:
    longest = " ".join(["a"] * 1_000)

    assert create(client, input=longest)["usage"]["prompt_tokens"] == 1_000
    answer = client.post("/v1/embeddings", json={"input": longest + " a"})
    assert answer.status_code == 413
    assert "ELMO_MAX_SENTENCE_TOKENS" in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == "input"


def test_tokens_that_are_cut_are_counted(client: httpx.Client) -> None:
    answer = client.post("/v1/embeddings", json={"input": ["a" * 60, "b"]})

    assert answer.headers["x-warnings"] == "1"
    assert "x-warnings" not in client.post("/v1/embeddings", json={"input": "b"}).headers


def test_a_request_counts_in_metrics_and_log(client: httpx.Client, server: Running) -> None:
    before = server.metric("elmo_tokens_total")

    answer = client.post("/v1/embeddings", json={"input": "one two three"})

    assert server.metric("elmo_tokens_total") == before + 3
    (line,) = [line for line in server.log.splitlines() if answer.headers["x-request-id"] in line]
    assert "tokens=3" in line and "route=/v1/embeddings" in line


def test_the_memory_of_every_response_is_released(client: httpx.Client, server: Running) -> None:
    create(client, input=TEXTS)
    for body in ({"input": [" "]}, {"input": "a", "model": "none"}):
        client.post("/v1/embeddings", json=body)

    assert server.metric("elmo_answer_bytes") == 0
    assert server.metric("elmo_receiving_bytes") == 0


def test_errors_before_the_route_have_the_same_form(client: httpx.Client) -> None:
    for answer, status, code in (
        (client.get("/v1/none"), 404, "unknown_route"),
        (client.get("/v1/embeddings"), 405, "method_not_allowed"),
        (client.post("/v1/embeddings", content=b"{"), 400, "malformed_body"),
        (
            client.post("/v1/embeddings", content=b"", headers={"Content-Type": "text/plain"}),
            415,
            "unsupported_media_type",
        ),
    ):
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == code
        assert answer.headers["content-type"] == "application/json"


def test_keys_are_bearer_tokens(narrow: Running, narrow_client: httpx.Client) -> None:
    refused = httpx.post(narrow.url + "/v1/embeddings", json={"input": "a"})

    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert httpx.get(narrow.url + "/v1/models").status_code == 401
    assert narrow_client.get("/v1/models").status_code == 200
    assert len(create(narrow_client, input=[["a"]])["data"]) == 1


def test_limits_hold(narrow_client: httpx.Client) -> None:
    """At most 3 sentences, 4 tokens of each, 16 tokens in the queue and 1,000 bytes of a body."""
    for given, name in (
        ([["a"]] * 4, "ELMO_MAX_REQUEST_SENTENCES"),
        ([["a"] * 5], "ELMO_MAX_SENTENCE_TOKENS"),
        ([[word] * 4 for word in "abc"], "ELMO_MAX_QUEUE_TOKENS"),
        ([["a" * 1_000]], "ELMO_MAX_BODY_BYTES"),
    ):
        answer = narrow_client.post("/v1/embeddings", json={"input": given})
        assert answer.status_code == 413
        assert name in answer.json()["error"]["message"]


def test_a_deadline_is_504(client: httpx.Client) -> None:
    answer = client.post(
        "/v1/embeddings", json={"input": "a"}, headers={"X-Request-Timeout": "1e-9"}
    )

    assert answer.status_code == 504
    assert answer.json()["error"]["type"] == "server_error"


def test_the_tokenizer_is_that_of_the_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`english` was trained on Penn Treebank tokens, other models on Moses tokens."""
    folder = tmp_path_factory.mktemp("english")
    text, tokens = "I can't.", ["I", "ca", "n't", "."]
    with (
        running(folder, models=f"english,other={SMALL}") as server,
        server.client() as client,
    ):
        for model, others in (("english", tokens), ("other", ["I", "can", "'t", "."])):
            whole = vectors(create(client, model=model, input=[text]))
            split = vectors(create(client, model=model, input=[others]))
            np.testing.assert_allclose(whole, split, atol=1e-6)
