"""GET /metrics: for Prometheus, in both of its formats."""

import asyncio
import re
import shutil
import subprocess
from uuid import uuid4

import httpx
import orjson
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message

from tests.support.engines import until
from tests.support.http_messages import http_scope, pieces
from tests.support.in_process import in_process
from tests.support.servers import Running

CONTRACT = (
    "http_requests_total{method,route,status}",
    "http_request_duration_seconds{route}",
    "tokens_total{model}",
    "queue_sentences{model}",
    "queue_tokens{model}",
    "queue_wait_seconds{model}",
    "batch_tokens{model}",
    "batch_duration_seconds{model,device}",
    "token_cache_hits_total{model}",
    "token_cache_misses_total{model}",
    "failures_total{reason}",
    "cancelled_sentences_total{model,stage}",
    "worker_up{model,device}",
    "worker_restarts_total{model,device}",
    "model_info{model,name,revision,format,precision,version}",
)
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
PROMETHEUS = {
    "Accept": "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
}


@pytest.fixture
def text(client: httpx.Client) -> str:
    """What a server says that has answered something."""
    client.post("/embed", json={"sentences": [["a", "b"]]}).raise_for_status()
    return client.get("/metrics").text


def test_every_metric_of_the_contract_is_there(text: str) -> None:
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = re.sub("_(bucket|count|sum)$", "", sample.name)
            found.setdefault(name, set()).update(sample.labels)

    for entry in CONTRACT:
        name, _, labels = entry.rstrip("}").partition("{")
        assert found[f"elmo_{name}"] - {"le"} == set(filter(None, labels.split(","))), name


def test_names_follow_the_rules(text: str) -> None:
    families = list(text_string_to_metric_families(text))

    for family in families:
        assert family.name.startswith("elmo_")
        assert family.documentation.endswith(".")
        counts = family.type == "counter"
        assert counts == any(sample.name.endswith("_total") for sample in family.samples) or (
            counts and not family.samples
        )
    assert "_created" not in text
    assert not re.search("_(milli|micro)seconds|_(kilo|mega)bytes|_minutes|_percent", text)


def test_promtool_finds_nothing_to_say(text: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")

    run = subprocess.run(
        [promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )

    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_openmetrics_is_for_whoever_asks(client: httpx.Client) -> None:
    for headers in (OPENMETRICS, PROMETHEUS):
        answer = client.get("/metrics", headers=headers)

        assert answer.headers["content-type"] == (
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        )
        assert answer.text.endswith("# EOF\n")
        families = list(openmetrics.text_string_to_metric_families(answer.text))  # type: ignore[no-untyped-call]
        assert len(families) > 20
        assert "_created" not in answer.text


@pytest.mark.parametrize(
    "accept", ["", "*/*", "text/plain", "garbage", ",", "text/html", "text/plain;version=x"]
)
def test_text_is_for_everybody_else(client: httpx.Client, accept: str) -> None:
    answer = client.get("/metrics", headers={"Accept": accept})

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["vary"] == "Accept"


def test_a_request_counts_once_under_its_route(client: httpx.Client, server: Running) -> None:
    labels = {"method": "GET", "route": "/tasks/{name}", "status": "404"}
    timed = "elmo_http_request_duration_seconds_count"

    def counted() -> tuple[float, float]:
        requests = server.metric("elmo_http_requests_total", **labels)
        return requests, server.metric(timed, route=labels["route"])

    requests, times = counted()
    client.get("/tasks/one")
    client.get("/tasks/two")

    assert counted() == (requests + 2, times + 2)


def test_tokens_batches_and_words_are_counted(client: httpx.Client, server: Running) -> None:
    names = ("elmo_tokens_total", "elmo_batch_tokens_count")
    before = [server.metric(name) for name in names]
    words = [uuid4().hex, "again"]

    client.post("/embed", json={"sentences": [words, [], words]}).raise_for_status()

    tokens, batches = (server.metric(name) - was for name, was in zip(names, before, strict=True))
    assert tokens == 4
    assert batches >= 1
    hits = server.metric("elmo_token_cache_hits_total")
    client.post("/embed", json={"sentences": [words]}).raise_for_status()
    assert server.metric("elmo_token_cache_hits_total") >= hits + 2


async def test_a_client_that_leaves_gets_no_response_and_counts_as_499() -> None:
    """`tests/service/scheduling` has the law that its queued sentences are not computed."""
    async with in_process(is_open=False) as serving:
        received, left = pieces(orjson.dumps({"sentences": [["left"]]})), asyncio.Event()

        async def receive() -> Message:
            message = await received()
            if message["type"] == "http.disconnect":
                await left.wait()
            return message

        async def send(message: Message) -> None:
            raise AssertionError("a client that has left gets no response")

        scope = {**http_scope(), "query_string": b"", "raw_path": b"/embed", "app": serving.app}
        asked = asyncio.ensure_future(serving.app(scope, receive, send))
        await until(lambda: serving.server.engine.requests == 1)
        left.set()
        await asked

        assert serving.server.engine.requests == 0
        labels = {"method": "POST", "route": "/embed", "status": "499"}
        registry = serving.server.metrics.registry
        assert registry.get_sample_value("elmo_http_requests_total", labels) == 1
