"""The context of every request: its id, its count, its line in the access log."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from elmo_serve.http.context import UNKNOWN, count, count_unparsed
from elmo_serve.metrics import Metrics
from tests.support.http_messages import connected, read
from tests.support.in_process import in_process
from tests.support.servers import Running


def logged(server: Running, request_id: str) -> list[dict[str, Any]]:
    """Return the records of one request. They are written after its response: wait for them."""

    def found() -> list[dict[str, Any]]:
        # The last line may be half written.
        lines = [line for line in server.log.splitlines(keepends=True) if line.endswith("}\n")]
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record.get("request_id") == request_id]

    server.until(lambda: bool(found()))
    return found()


def test_no_header_can_be_smuggled_in_by_a_request_id(server: Running) -> None:
    for sent in (b"a\rX-Evil: 1", b"a\nX-Evil: 1", b"a\x00X-Evil: 1", b"a\x0bX-Evil: 1"):
        head = b"GET /info HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: "
        with connected(server) as connection:
            connection.sendall(head + sent + b"\r\n\r\n")
            answer = read(connection)

        assert answer.startswith(b"HTTP/1.1 ")
        assert not re.search(rb"^x-evil", answer, re.IGNORECASE | re.MULTILINE)


def test_a_request_is_logged_with_its_size_and_times(
    narrow: Running, narrow_client: httpx.Client
) -> None:
    body = {"sentences": [["secret", "words"]], "layers": "top"}
    sent = narrow_client.post("/embed", json=body, headers={"X-Request-Id": "cost"})
    sent.raise_for_status()

    (record,) = logged(narrow, "cost")
    assert record["request_bytes"] == len(sent.request.content)
    assert record["response_bytes"] == len(sent.content)
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


async def test_the_access_log_names_the_client_and_its_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text("alice: from-a-file\nunnamed\n")
    caplog.set_level("INFO", "elmo_serve.access")
    async with in_process(api_keys_file=str(file)) as serving:
        for key in ("from-a-file", "unnamed"):
            await serving.client.get("/info", headers={"Authorization": f"Bearer {key}"})
    records = [vars(each) for each in caplog.records if each.name == "elmo_serve.access"]

    assert [record["key"] for record in records] == ["alice", "2"]
    assert {record["client"] for record in records} == {"127.0.0.1"}
    assert "from-a-file" not in str(records)


async def test_the_access_log_has_the_bytes_of_a_body_that_were_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * 100

    caplog.set_level("INFO", "elmo_serve.access")
    json_headers = {"Content-Type": "application/json"}
    async with in_process(max_body_bytes=250) as serving:
        client = serving.client
        statuses = [
            (await client.post("/embed", content=pieces(), headers=json_headers)).status_code,
            (await client.post("/embed", content=b"text")).status_code,
            (await client.get("/info")).status_code,
        ]
    records = [vars(each) for each in caplog.records if each.name == "elmo_serve.access"]

    assert statuses == [413, 415, 200]
    assert [record["request_bytes"] for record in records] == [300, 0, 0]


def test_a_request_without_a_key_counts_under_its_route(narrow: Running) -> None:
    def counted() -> float:
        return narrow.metric(
            "elmo_http_requests_total", method="POST", route="/embed", status="401"
        )

    before = counted()
    httpx.post(narrow.url + "/embed", json={}, headers={"X-Request-Id": "keyless"})

    assert counted() == before + 1
    assert logged(narrow, "keyless")[0]["route"] == "/embed"


def test_the_document_counts_under_its_path(narrow: Running) -> None:
    httpx.get(narrow.url + "/openapi.json", headers={"X-Request-Id": "document"})

    assert logged(narrow, "document")[0]["route"] == "/openapi.json"


def test_clients_cannot_add_series() -> None:
    metrics = Metrics()

    for number in range(50):
        count(metrics, f"METHOD{number}", "/embed", 405, 0)
        count(metrics, f"METHOD{number}", UNKNOWN, 404, 0)
        count_unparsed(metrics, 400)

    counted = {
        tuple(s.labels[name] for name in ("method", "route", "status")): s.value
        for family in metrics.http_requests.collect()
        for s in family.samples
        if s.name.endswith("_total")
    }
    assert counted == {
        ("other", "/embed", "405"): 50,
        ("any", UNKNOWN, "404"): 50,
        ("any", UNKNOWN, "400"): 50,
    }
