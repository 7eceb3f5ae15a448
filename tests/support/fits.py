"""Examples to fit, and jobs that are waited for."""

from __future__ import annotations

import random
from typing import Any

import httpx

from tests.support.servers import Running

WORDS = ("cat", "sat", "The", "mat")
ENDED = {"done", "failed", "cancelled"}


def labelled(kind: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return examples whose label is a word; the last fifth is the test part."""
    source = random.Random(seed)
    found: list[dict[str, Any]] = []
    for number in range(count):
        words = source.choices(WORDS, k=source.randint(1, 6))
        other = source.choices(WORDS, k=3)
        example: dict[str, Any]
        match kind:
            case "token":
                example = {"tokens": words, "labels": [word[-1] for word in words]}
            case "sentence":
                example = {"tokens": words, "label": words[0]}
            case _:
                sides = [{"tokens": words}, {"tokens": other, "token": 0}]
                example = {"pair": sides, "label": str(words[0] == other[0])}
        if number >= 0.8 * count:
            example["test"] = True
        found.append(example)
    return found


def body(kind: str = "sentence", count: int = 40, **options: Any) -> dict[str, Any]:
    """Return the body of a fit with one seed."""
    return {"kind": kind, "seeds": 1, "examples": labelled(kind, count), **options}


def fit(client: httpx.Client, name: str, **options: Any) -> str:
    """Queue a fit and return the id of its job."""
    return queued(client.post(f"/tasks/{name}/fit", json=body(**options)))


def queued(response: httpx.Response) -> str:
    """Return the id of the job of a response to a fit."""
    assert response.status_code == 202, response.text
    # Relative to the request: a proxy may serve all paths below another one.
    below = httpx.URL("http://proxy/elmo/tasks/ner/fit").join(response.headers["location"])
    assert below == f"http://proxy/elmo/jobs/{response.json()['id']}"
    found: str = response.json()["id"]
    return found


def ended(server: Running, client: httpx.Client, job_id: str) -> dict[str, Any]:
    """Wait until a job has ended, and return it."""
    server.until(lambda: client.get(f"/jobs/{job_id}").json()["state"] in ENDED, seconds=300)
    job: dict[str, Any] = client.get(f"/jobs/{job_id}").json()
    return job
