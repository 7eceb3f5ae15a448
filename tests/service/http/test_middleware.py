"""What happens around every route: the request id, the keys, the limits, the log."""

import json
import re
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.conftest import KEY
from tests.support.servers import SMALL, Running, running

MADE = re.compile(r"[0-9a-f]{32}")


def raw(server: Running, request: bytes) -> bytes:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=5) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


def logged(server: Running, request_id: str) -> list[dict[str, Any]]:
    """Return the records of a server that logs JSON; the access record comes after the answer."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        records = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
        found = [record for record in records if record.get("request_id") == request_id]
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing is logged of {request_id}")


@pytest.mark.parametrize("sent", ["a", "abc-DEF_123.x:y", "0" * 128])
def test_a_sane_request_id_comes_back(client: httpx.Client, sent: str) -> None:
    for path in ("/info", "/nowhere", "/metrics"):
        answer = client.get(path, headers={"X-Request-Id": sent})

        assert answer.headers.get_list("x-request-id") == [sent]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"a b",
        b"a;b",
        b"<b>",
        b"a/b",
        b'"',
        b"\xc3\xa9",
        b"\xff",
        b"0" * 129,
        b"a\tb",
        b"%0d%0a",
    ],
)
def test_any_other_is_replaced(client: httpx.Client, sent: bytes) -> None:
    answer = client.get("/info", headers={b"X-Request-Id": sent})

    (made,) = answer.headers.get_list("x-request-id")
    assert MADE.fullmatch(made)


def test_no_header_can_be_smuggled_in_by_a_request_id(server: Running) -> None:
    for sent in (b"a\rX-Evil: 1", b"a\nX-Evil: 1", b"a\x00X-Evil: 1", b"a\x0bX-Evil: 1"):
        answer = raw(
            server,
            b"GET /info HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: "
            + sent
            + b"\r\n\r\n",
        )

        assert not re.search(rb"^x-evil", answer, re.IGNORECASE | re.MULTILINE)


def test_of_several_request_ids_one_is_taken(client: httpx.Client) -> None:
    answer = client.get("/info", headers=[("X-Request-Id", "a b"), ("X-Request-Id", "sane")])

    assert answer.headers.get_list("x-request-id") == ["sane"]


def test_every_request_has_another_id(client: httpx.Client) -> None:
    ids = {client.get("/health/live").headers["x-request-id"] for _ in range(20)}

    assert len(ids) == 20


@pytest.mark.parametrize("path", ["/info", "/tasks", "/tasks/ner", "/docs/x", "/no"])
@pytest.mark.parametrize(
    "value",
    [None, "", "Bearer", f"Bearer {KEY}x", KEY, f"Basic {KEY}", f"Bearer {KEY},other"],
)
def test_without_a_key_there_is_no_answer(narrow: Running, path: str, value: str | None) -> None:
    headers = {} if value is None else {"Authorization": value}

    answer = httpx.get(narrow.url + path, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["instance"] == answer.headers["x-request-id"]
    assert KEY not in answer.text


@pytest.mark.parametrize(
    "value", [f"Bearer {KEY}", f"bearer {KEY}", f"BEARER  {KEY}", "Bearer other"]
)
def test_each_key_opens(narrow: Running, value: str) -> None:
    answer = httpx.get(narrow.url + "/info", headers={"Authorization": value})

    assert answer.status_code == 200


def test_keys_of_a_file_open_and_are_not_logged(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# two of them\nfrom-a-file\nanother-one\n")
    with running(
        tmp_path, model=SMALL, worker="thread", api_keys_file=file, log_level="debug"
    ) as server:
        statuses = [
            httpx.get(server.url + "/tasks", headers={"Authorization": f"Bearer {key}"}).status_code
            for key in ("from-a-file", "another-one", "# two of them", "two", "from-a-fil", "x")
        ]
        log = server.log

    assert statuses == [200, 200, 401, 401, 401, 401]
    assert "from-a-file" not in log
    assert "another-one" not in log


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_probes_and_metrics_need_no_key(narrow: Running, path: str) -> None:
    assert httpx.get(narrow.url + path).status_code == 200


def test_a_key_is_asked_for_before_the_body_is_read(narrow: Running) -> None:
    answer = httpx.post(narrow.url + "/embed", content=b"x" * 100_000)

    assert answer.status_code == 401


def test_keys_are_not_logged(narrow: Running, narrow_client: httpx.Client) -> None:
    narrow_client.get("/info")
    httpx.get(narrow.url + "/info", headers={"Authorization": f"Bearer wrong-{KEY}"})

    assert KEY not in narrow.log


def test_a_request_is_logged_with_what_it_cost(
    narrow: Running, narrow_client: httpx.Client
) -> None:
    narrow_client.post(
        "/embed",
        json={"sentences": [["secret", "words"]], "layers": "top"},
        headers={"X-Request-Id": "cost"},
    ).raise_for_status()

    (record,) = logged(narrow, "cost")
    assert record["logger"] == "elmo_serve.access"
    assert (record["method"], record["route"], record["status"]) == ("POST", "/embed", 200)
    assert (record["sentences"], record["tokens"]) == (1, 2)
    for name in ("seconds", "queue_seconds", "infer_seconds", "encode_seconds"):
        assert record[name] >= 0
    assert "secret" not in narrow.log


def test_a_client_cannot_write_to_the_log(narrow: Running, narrow_client: httpx.Client) -> None:
    before = len(narrow.log.splitlines())

    narrow_client.get("/nowhere%0a%0dinjected", headers={"X-Request-Id": "inject"})

    (record,) = logged(narrow, "inject")
    assert record["route"] == "unknown"
    assert len(narrow.log.splitlines()) <= before + 3
    for line in narrow.log.splitlines():
        assert line.startswith("{")


def test_the_access_log_names_the_client_and_its_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("alice: from-a-file\nunnamed\n")
    with running(tmp_path, model=SMALL, api_keys_file=file, log_format="json") as server:
        for key in ("from-a-file", "unnamed"):
            headers = {"Authorization": f"Bearer {key}", "X-Request-Id": key[:2]}
            httpx.get(server.url + "/info", headers=headers)
        records = [logged(server, name)[0] for name in ("fr", "un")]
        log = server.log

    assert [record["key"] for record in records] == ["alice", "2"]
    assert {record["client"] for record in records} == {"127.0.0.1"}
    assert "from-a-file" not in log


def test_a_request_without_a_key_counts_under_its_route(narrow: Running) -> None:
    def counted() -> float:
        return narrow.metric(
            "elmo_http_requests_total", method="POST", route="/embed", status="401"
        )

    before = counted()
    httpx.post(narrow.url + "/embed", json={}, headers={"X-Request-Id": "keyless"})

    assert counted() == before + 1
    assert logged(narrow, "keyless")[0]["route"] == "/embed"
