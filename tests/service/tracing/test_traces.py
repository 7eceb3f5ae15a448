"""Traces of requests, as a collector receives them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from elmo_serve.http.middleware.request_checks import PROBES
from tests.support.collector import Collector, collector, values
from tests.support.engines import until
from tests.support.in_process import InProcess, in_process
from tests.support.servers import free_port

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
STAGES = ["receive", "parse", "tokenize", "queue", "batch", "encode", "send"]
BODY = {"sentences": [["The", "bank"], ["a"]], "layers": "top"}


@pytest.fixture
def to(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


async def embed(serving: InProcess, **headers: str) -> httpx.Response:
    return await serving.client.post("/embed", json=BODY, headers=headers)


async def test_a_request_is_a_tree_of_its_stages_below_the_span_of_its_client(
    to: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "tenant=elmo")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    async with in_process(environment=os.environ) as serving:
        response = await embed(
            serving, traceparent=SAMPLED, tracestate="vendor=1", **{"X-Request-Id": "mine"}
        )
    root, *stages = to.spans(8)

    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert (root.name, root.kind, root.trace_state) == (
        "POST /embed",
        Span.SPAN_KIND_SERVER,
        "vendor=1",
    )
    assert [each.name for each in stages] == STAGES
    assert {each.parent_span_id for each in stages} == {root.span_id}
    assert {each.trace_id.hex() for each in stages} == {TRACE}
    for each in (root, *stages):
        assert root.start_time_unix_nano <= each.start_time_unix_nano <= each.end_time_unix_nano
        assert each.end_time_unix_nano <= root.end_time_unix_nano
    assert response.headers["traceresponse"] == f"00-{TRACE}-{root.span_id.hex()}-01"
    assert to.headers[0]["tenant"] == "elmo"
    assert to.resources[0].items() >= {
        ("service.name", "elmo-serve"),
        ("deployment.environment.name", "test"),
    }


async def test_spans_say_what_was_asked_and_computed(to: Collector) -> None:
    async with in_process(environment=os.environ, api_keys="secret") as serving:
        response = await embed(serving, Authorization="Bearer secret", **{"X-Request-Id": "mine"})
    root, *stages = to.spans(8)

    assert values(root.attributes) == {
        "http.request.method": "POST",
        "http.route": "/embed",
        "http.response.status_code": 200,
        "http.request.body.size": len(response.request.content),
        "http.response.body.size": len(response.content),
        "url.path": "/embed",
        "url.scheme": "http",
        "client.address": "127.0.0.1",
        "elmo.request_id": "mine",
        "elmo.key": "1",
        "elmo.sentences": 2,
        "elmo.tokens": 3,
    }
    (batch,) = (each for each in stages if each.name == "batch")
    assert values(batch.attributes) == {
        "elmo.model": serving.server.models.first.name,
        "elmo.device": "cpu",
        "elmo.batch.sentences": 2,
        "elmo.batch.tokens": 7,
        "elmo.batch.padded_tokens": 8,
    }
    assert not batch.links
    assert root.status.code == Status.STATUS_CODE_UNSET


async def test_a_batch_is_linked_to_the_other_requests_in_it(to: Collector) -> None:
    async with in_process(environment=os.environ, is_open=False) as serving:
        admission = serving.server.engine.admission
        first = asyncio.create_task(embed(serving))
        await until(lambda: bool(serving.worker.batches))
        held = admission.outstanding
        others = [
            asyncio.create_task(
                serving.client.post("/embed", json={"sentences": [[word]]}, headers=sent)
            )
            for word, sent in (("b", {}), ("c", {}), ("d", {"traceparent": NOT_SAMPLED}))
        ]
        await until(lambda: admission.outstanding == held + 9)
        serving.worker.open()
        for each in (first, *others):
            (await each).raise_for_status()
    spans = to.spans(24)

    roots = {each.span_id: each.trace_id for each in spans if each.name == "POST /embed"}
    assert len(set(roots.values())) == 3
    shared = [each for each in spans if each.name == "batch" and each.links]
    assert len(shared) == 2
    for batch in shared:
        (link,) = batch.links
        (other,) = (each for each in shared if each is not batch)
        assert (link.span_id, link.trace_id) == (other.parent_span_id, roots[link.span_id])
        assert values(batch.attributes)["elmo.batch.sentences"] == 3


async def test_a_batch_that_raised_and_its_halves_are_in_the_trace(to: Collector) -> None:
    async with in_process(environment=os.environ) as serving:
        body = {"sentences": [["!raises"], ["a"]]}
        response = await serving.client.post("/embed", json=body)
    spans = to.spans(7)

    assert response.status_code == 500
    assert [each.name for each in spans if each.name == "batch"][:2] == ["batch", "batch"]
    (root,) = (each for each in spans if not each.parent_span_id)
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert values(root.attributes)["error.type"] == "500"


async def test_other_routes_have_a_span_and_what_is_asked_all_the_time_has_none(
    to: Collector,
) -> None:
    async with in_process(environment=os.environ) as serving:
        for path in sorted(PROBES):
            await serving.client.get(path, headers={"traceparent": SAMPLED})
        await serving.client.get("/info")
        await serving.client.request("BREW", "/nowhere")
    info, nowhere = to.spans(2)

    assert (info.name, nowhere.name) == ("GET /info", "HTTP")
    assert "http.route" not in values(nowhere.attributes)
    assert values(nowhere.attributes)["http.request.method"] == "_OTHER"


async def test_what_the_client_does_not_sample_is_not_sent_but_logged(
    to: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with in_process(environment=os.environ) as serving:
        response = await embed(serving, traceparent=NOT_SAMPLED)
        await embed(serving)
    assert len(to.spans(8)) == 8

    assert "traceresponse" not in response.headers
    unsampled, sampled = (each for each in caplog.records if each.name == "elmo_serve.access")
    assert unsampled.__dict__["trace_id"] == TRACE
    assert sampled.__dict__["trace_id"] == to.spans(8)[0].trace_id.hex()
    assert sampled.__dict__["request_bytes"] == len(response.request.content)
    assert sampled.__dict__["response_bytes"] == len(response.content)


async def test_problem_documents_name_the_trace_and_other_bodies_stay_as_they_are(
    to: Collector,
) -> None:
    async with in_process(environment=os.environ) as serving:
        problems = [
            await serving.client.post(path, json={}, headers=sent)
            for path in ("/embed", "/v1/embeddings")
            for sent in ({}, {"traceparent": NOT_SAMPLED})
        ]
    made, given, *others = (response.json() for response in problems)

    assert re.fullmatch("[0-9a-f]{32}", made["trace_id"])
    assert given["trace_id"] == TRACE
    assert [each.keys() for each in others] == [{"error"}, {"error"}]


async def test_a_server_whose_collector_is_gone_answers_and_stops(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{free_port()}/v1")
    async with in_process(environment=os.environ) as serving:
        (await embed(serving)).raise_for_status()

    assert [each for each in caplog.records if "Transient error" in each.getMessage()]


async def test_a_collector_that_does_not_answer_holds_up_no_stop(
    to: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_serve.tracing.tracer._CLOSE_SECONDS", 0.1)
    to.gate.clear()
    async with in_process(environment=os.environ) as serving:
        (await serving.client.get("/info")).raise_for_status()

    assert not to.gate.is_set()


@pytest.mark.parametrize("name", ["always_off", "traceidratio"])
async def test_a_request_that_is_not_sampled_has_no_trace(
    name: str, to: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", name)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    async with in_process(environment=os.environ) as serving:
        response = await embed(serving)

    assert "traceresponse" not in response.headers
    assert not to.spans(0)
