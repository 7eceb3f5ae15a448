"""The batches that a server computes during a load test, by its own metrics."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from elmo_serve.load_test.connections import Connections, LostError
from elmo_serve.load_test.tally import Batches, Tally
from elmo_serve.output import BOUNDARIES

_PRECISION = 0.02
"""Largest deviation of the server's tokens from those of the answers. With a larger one, batches of
other clients, or of one replica of several, count as those of the test."""

_DURATION, _TOKENS = _FAMILIES = ("elmo_batch_duration_seconds", "elmo_batch_tokens")


class ServerBatches:
    """Reads `GET /metrics` of the server."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def read(self) -> Batches | None:
        """Return the batches since the start of the server; None where it does not tell."""
        try:
            response = await self._connections.get("/metrics")
        except LostError:
            return None
        return None if response.status != 200 else parse(response.body.decode("utf-8", "replace"))


def parse(text: str) -> Batches | None:
    """Return the batches in the text of `GET /metrics`, of all models and devices together."""
    sums: dict[str, float] = {}
    families: set[str] = set()
    try:
        for family in text_string_to_metric_families(text):
            families.add(family.name)
            for sample in family.samples if family.name in _FAMILIES else ():
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    except ValueError:
        return None
    if not families.issuperset(_FAMILIES):
        return None
    # A server that has computed nothing has the families, and no sample.
    count, tokens = sums.get(f"{_DURATION}_count", 0.0), sums.get(f"{_TOKENS}_sum", 0.0)
    return Batches(int(count), int(tokens), sums.get(f"{_DURATION}_sum", 0.0))


def batches_of(tally: Tally, before: Batches | None, after: Batches | None) -> Batches | None:
    """Return the batches of a phase; None where their tokens are not those of its answers."""
    if before is None or after is None:
        return None
    found = Batches(
        after.count - before.count,
        after.tokens - before.tokens,
        after.seconds - before.seconds,
    )
    expected = tally.tokens + BOUNDARIES * tally.sentences
    return found if expected and abs(found.tokens - expected) <= _PRECISION * expected else None
