"""/v2: the health and metadata routes of the Open Inference Protocol."""

import httpx

from elmo_serve.http.state import VERSION
from tests.support.servers import Running

PATHS = ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/small", "/v2/models/small/ready")


def test_a_ready_server_is_described_as_the_protocol_has_it(client: httpx.Client) -> None:
    info = client.get("/info").json()

    found = {path: client.get(path) for path in PATHS}

    assert {path: answer.status_code for path, answer in found.items()} == dict.fromkeys(PATHS, 200)
    assert [answer.json() for answer in found.values()] == [
        {"name": "elmo-serve", "version": VERSION, "extensions": []},
        {"live": True},
        {"ready": True},
        {
            "name": "small",
            "versions": [info["revision"]],
            "platform": "elmo-serve",
            "inputs": [],
            "outputs": [],
        },
        {"name": "small", "ready": True},
    ]
    for path in PATHS:
        assert client.head(path).status_code == 200


def test_an_unknown_model_is_an_error_of_the_protocol(client: httpx.Client) -> None:
    for path in ("/v2/models/klingon", "/v2/models/klingon/ready"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert list(answer.json()) == ["error"]
        assert "'small'" in answer.json()["error"]
    answer = client.get("/v2/models/small/config")
    assert (answer.status_code, "GET /info has it" in answer.json()["error"]) == (404, True)
    for method in ("GET", "POST"):
        answer = client.request(method, "/v2/models/small/infer")
        assert (answer.status_code, "POST /embed" in answer.json()["error"]) == (404, True)
    assert list(client.post("/v2").json()) == ["error"]


def test_only_health_and_the_name_of_the_program_need_no_key(narrow: Running) -> None:
    statuses = [httpx.get(narrow.url + path).status_code for path in PATHS]

    assert statuses == [200, 200, 200, 401, 401]
    assert list(httpx.get(f"{narrow.url}/v2/models/small").json()) == ["error"]
