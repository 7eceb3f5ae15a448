"""The batches of a server during a load test, read from its metrics."""

from __future__ import annotations

from prometheus_client import generate_latest

from elmo_serve.load_test.connections import Connections
from elmo_serve.load_test.server_batches import ServerBatches, batches_of, parse
from elmo_serve.load_test.tally import Batches, Tally
from elmo_serve.metrics import Metrics
from tests.support.scripted_server import respond, scripted_server
from tests.support.servers import free_port

TEXT = """
# TYPE elmo_batch_duration_seconds histogram
elmo_batch_duration_seconds_sum{device="cpu",model="a"} 1.5
elmo_batch_duration_seconds_count{device="cpu",model="a"} 3
elmo_batch_duration_seconds_sum{device="cpu",model="b"} 0.5
elmo_batch_duration_seconds_count{device="cpu",model="b"} 1
# TYPE elmo_batch_tokens histogram
elmo_batch_tokens_sum{model="a"} 300
elmo_batch_tokens_count{model="a"} 3
"""


def test_the_batches_of_all_models_are_added() -> None:
    assert parse(TEXT) == Batches(4, 300, 2.0)
    assert parse("") is None
    assert parse("no metrics at all {") is None


def test_a_server_that_has_computed_nothing_has_no_batches() -> None:
    text = generate_latest(Metrics().registry).decode()

    assert parse(text) == Batches(0, 0, 0.0)


def test_the_names_are_those_of_the_service() -> None:
    metrics = Metrics()
    metrics.batch_duration.labels("m", "cpu").observe(0.25)
    metrics.of("m").batch_tokens.observe(40)
    names = {sample.name for family in metrics.registry.collect() for sample in family.samples}

    assert {"elmo_batch_duration_seconds_sum", "elmo_batch_tokens_sum"} <= names


async def test_a_server_that_does_not_tell_has_none() -> None:
    dead = ServerBatches(Connections(f"http://127.0.0.1:{free_port()}", 1))
    assert await dead.read() is None
    with scripted_server() as server:
        connections = Connections(server.url, 1)
        server.info = lambda handler, _: respond(handler, 404, b"")
        assert await ServerBatches(connections).read() is None
        server.info = lambda handler, _: respond(handler, 200, TEXT.encode())
        assert await ServerBatches(connections).read() == Batches(4, 300, 2.0)
        await connections.close()


def test_batches_of_others_are_no_batches_of_the_phase() -> None:
    tally = Tally("", 0.0, 1.0, tokens=80, sentences=10)  # 100 tokens with boundaries
    before = Batches(1, 1_000, 5.0)

    assert batches_of(tally, before, Batches(3, 1_100, 5.5)) == Batches(2, 100, 0.5)
    assert batches_of(tally, before, Batches(3, 1_150, 5.5)) is None
    assert batches_of(tally, None, before) is None
    assert batches_of(Tally("", 0.0, 1.0), before, before) is None
