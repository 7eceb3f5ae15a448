"""A JSON object as `elmo bench --json` prints it, of a server with a known batch time."""

from __future__ import annotations

from typing import Any


def measurement(
    fixed: float = 0.02, per_token: float = 1e-4, latency: float = 0.05
) -> dict[str, Any]:
    """Return the JSON of one client and of many; a request has two sentences of ten tokens.

    `latency` is the mean of one client, in seconds.
    """
    return {
        "server": {
            "model": "made",
            "dimension": 8,
            "layers": 3,
            "devices": ["cpu"],
            "limits": {"max_batch_tokens": 240, "max_queue_tokens": 100_000},
        },
        "requests": {"lengths": [[10, 10]]},
        "phases": [
            _phase("1 client", 1, fixed + 24 * per_token, 24, latency),
            _phase("64 clients", 10, fixed + 240 * per_token, 240, 1.0),
        ],
    }


def _phase(
    load: str, requests_a_batch: int, seconds: float, tokens: int, latency: float
) -> dict[str, Any]:
    count = 50
    requests = count * requests_a_batch
    return {
        "load": load,
        "latency_ms": {"mean": 1e3 * latency},
        "batches": {"count": count, "tokens": count * tokens, "seconds": count * seconds},
        "answered_in_all": {
            "requests": requests,
            "sentences": 2 * requests,
            "tokens": 20 * requests,
        },
        "sent_bytes_per_token": 8.0,
        "received_bytes_per_token": 100.0,
    }
