"""POST /tasks/{name}/fit and /jobs: tasks that the server learns."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy

from elmo_model.files.locks import locked_file
from elmo_serve.http.media_types import ENCODERS, npz
from elmo_serve.jobs.bodies import NDJSON
from elmo_serve.jobs.fit_jobs import SERVER_STOPPED
from elmo_serve.jobs.store import SERVER_ENDED
from tests.support.engines import turns
from tests.support.fits import body, fit, labelled
from tests.support.gated_server import close_gate, gated
from tests.support.processes import children, is_alive
from tests.support.served import Served, served
from tests.support.servers import Running

OLD = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5}


async def vectors(s: Served, sentences: list[list[str]], **wanted: Any) -> list[Any]:
    response = await s.client.post(
        "/embed",
        json={"sentences": sentences, **wanted},
        headers={"Accept": npz.ENCODER.media_type},
    )
    assert response.status_code == 200, response.text
    return ENCODERS[npz.ENCODER.media_type].decode(response.content)


async def features(kind: str, s: Served, test: list[dict[str, Any]]) -> Any:
    """Return the inputs of the head for a test part, from the vectors of the task over HTTP."""

    async def of(sentences: list[list[str]]) -> list[Any]:
        return await vectors(s, sentences, task=f"{kind}-task")

    if kind == "token":
        return np.concatenate(await of([example["tokens"] for example in test]))
    if kind == "sentence":
        return np.stack(
            [each.mean(0) for each in await of([example["tokens"] for example in test])]
        )
    first = await of([example["pair"][0]["tokens"] for example in test])
    second = await of([example["pair"][1]["tokens"] for example in test])
    u, v = np.stack([each.mean(0) for each in first]), np.stack([each[0] for each in second])
    return np.concatenate((u, v, np.abs(u - v), u * v), axis=1)


async def test_a_fitted_task_gives_its_mixture_and_its_score_over_http(tmp_path: Path) -> None:
    async with served(has_model=True, tasks=tmp_path) as s:
        await _check_fit(s, "token", layer_norm=True)
        await _check_fit(s, "sentence", layer_norm=False)
        await _check_fit(s, "pair", layer_norm=False)


async def _check_fit(s: Served, kind: str, *, layer_norm: bool) -> None:
    """Fit a task, and compute its score again from its vectors and its head."""
    name = f"{kind}-task"
    job = await s.ended(await s.fit(name, kind=kind, count=30, layer_norm=layer_norm))

    assert (job["state"], job["progress"], job["reason"]) == ("done", 1.0, None)
    task = await s.get(f"/tasks/{name}")
    assert task == job["task"]
    await _check_mixture(s, task)
    test = [example for example in labelled(kind, 30) if example.get("test")]
    head = (await s.client.get(f"/jobs/{job['id']}/head")).content
    weights = safetensors.numpy.load(head)
    header = json.loads(head[8 : 8 + int.from_bytes(head[:8], "little")])["__metadata__"]
    names = json.loads(header["labels"])
    scores = await features(kind, s, test) @ weights["weight"].T + weights["bias"]
    wanted = [label for each in test for label in each.get("labels") or [each["label"]]]
    right = sum(names[n] == label for n, label in zip(scores.argmax(1), wanted, strict=True))
    assert job["scores"]["scored_on"] == "test"
    assert job["scores"]["mixtures"]["learned"]["accuracy"] == pytest.approx(right / len(wanted))


async def _check_mixture(s: Served, task: dict[str, Any]) -> None:
    """Compare the vectors of a task with those computed by hand from all layers."""
    if task["layer_norm"]:
        return  # the boundaries, which normalisation counts, are not in `layers: "all"`
    sentences = [["The", "cat", "sat"], ["mat"], []]
    shares = np.exp(task["weights"]) / np.exp(task["weights"]).sum()
    mixed = await vectors(s, sentences, task=task["name"])
    for found, layers in zip(mixed, await vectors(s, sentences, layers="all"), strict=True):
        expected = task["gamma"] * np.einsum("l,lnd->nd", shares, layers.astype(np.float64))
        scale = np.abs(expected).max(initial=1e-9)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * scale)


async def test_the_files_of_a_fit_lie_beside_the_task(tmp_path: Path) -> None:
    lines = [json.dumps({"kind": "token", "seeds": 2})]
    lines += [json.dumps({"text": "a b", "labels": ["x", "y"]}), ""] * 9
    async with served(tasks=tmp_path / "tasks", scratch=tmp_path / "scratch") as s:
        response = await s.client.post(
            "/tasks/ner/fit",
            content="\n".join(lines).encode(),
            headers={"Content-Type": NDJSON},
            params={"model": "fake"},
        )
        assert response.status_code == 202, response.text
        job = await s.ended(response.json()["id"])

        assert job["state"] == "done", job
        assert (await s.get("/jobs"))["jobs"] == [job]
        assert s.metric("elmo_jobs_ended_total", state="done") == 1
    assert (job["examples"], job["tokens"]) == (18, 18)
    task = json.loads((tmp_path / "tasks" / "ner.json").read_text())
    assert task["fit"]["job"] == job["id"] and task["fit"]["seeds"] == 2
    assert set(task["fit"]["scores"]) == set(job["scores"]["mixtures"])
    assert set(job["scores"]["mixtures"]) >= {"learned", "average", "sum", "top", "layer 0"}
    files = {path.name for path in (tmp_path / "tasks" / "ner.fit").iterdir()}
    assert files == {"head.safetensors", "report.json"}


BAD: list[tuple[dict[str, Any], int, str, str]] = [
    (body(kind="word"), 422, "/kind", "must be 'token', 'sentence' or 'pair'; found 'word'"),
    (body(seeds=0), 422, "/seeds", "must be at least 1"),
    (body(validation=1), 422, "/validation", "must be below 1"),
    (body(dropout=1.5), 422, "/dropout", "must be below 1"),
    (body(tokenizer="nltk"), 422, "/tokenizer", "must be one of ptb, moses"),
    ({"kind": "token", "examples": []}, 422, "/examples", "must not be empty"),
    (
        {"kind": "token", "examples": [{"tokens": ["a", "b"], "labels": ["x"]}]},
        422,
        "/examples/0/labels",
        "number of labels is 1; expected one a token, 2",
    ),
    (
        {"kind": "token", "examples": [{"tokens": ["a"], "label": "x", "token": 1}]},
        422,
        "/examples/0/token",
        "is 1, expected from 0 to 0",
    ),
    (
        {"kind": "sentence", "examples": [{"tokens": ["a"], "labels": ["x"]}]},
        422,
        "/examples/0",
        "an example of the kind sentence has label; found labels",
    ),
    (
        {"kind": "sentence", "examples": [{"label": "x"}]},
        422,
        "/examples/0",
        "expected tokens or text; found neither",
    ),
    (
        {"kind": "sentence", "examples": [{"tokens": ["a"], "label": "x", "lable": "y"}]},
        422,
        "/examples/0/lable",
        "is no field; did you mean label? There are tokens, text, token, labels, label, pair, test",
    ),
    (
        {"kind": "pair", "examples": [{"pair": [{"tokens": ["a"]}], "label": "x"}]},
        422,
        "/examples/0/pair",
        "has 1 sides; expected two",
    ),
    (
        {"kind": "sentence", "examples": [{"tokens": ["a"], "label": "x"}] * 3},
        422,
        "/examples",
        "every example has the label 'x', expected two labels or more",
    ),
    (
        {"kind": "sentence", "examples": [{"tokens": ["a"], "label": "x", "test": True}]},
        422,
        "/examples",
        "the part to learn from: holds no example",
    ),
    (
        {"kind": "token", "examples": [{"tokens": ["a", "b"], "labels": ["x", "y"]}]},
        422,
        "/validation",
        "holds out 1 of 1 sentences",
    ),
]


@pytest.mark.parametrize(("sent", "status", "pointer", "detail"), BAD)
def test_bad_examples_are_named_and_nothing_is_written(
    client: httpx.Client,
    sent: dict[str, Any],
    status: int,
    pointer: str,
    detail: str,
) -> None:
    before = client.get("/jobs").json()

    response = client.post("/tasks/bad/fit", json=sent)

    assert response.status_code == status, response.text
    (fault,) = response.json()["errors"]
    assert fault["pointer"] == pointer
    assert detail in fault["detail"]
    assert client.get("/jobs").json() == before
    assert client.get("/tasks/bad").status_code == 404


@pytest.mark.parametrize(
    ("sent", "status", "detail"),
    [
        (b'{"kind": "token"}\n{"tokens": ["a"]}', 422, "line 2: an example of the kind token has"),
        (
            b'{"kind": "token"}\n\n{"tokens": ["a"], "labels": [1.5]}',
            422,
            "line 3: must be a string",
        ),
        (b'{"seeds": 1}\n{"tokens": ["a"], "labels": ["x"]}', 422, "/kind: is required"),
        (b'{"kind": "token"}\n{"tokens": ["a"]\n', 400, "Line 2 of the body is not JSON"),
        (b'{"kind": "token"}\n["a"]\n', 422, "Line 2 must be an object, an example"),
        (b'{"kind": "token", "examples": []}\n', 422, "has no place in the first line"),
        (b"\n", 400, "The body is empty"),
        (b"", 400, "The body is empty"),
    ],
)
def test_a_bad_line_is_named(client: httpx.Client, sent: bytes, status: int, detail: str) -> None:
    response = client.post("/tasks/bad/fit", content=sent, headers={"Content-Type": NDJSON})

    assert response.status_code == status, response.text
    assert detail in response.json()["detail"]


def test_bad_names_bodies_models_and_media_types_are_refused(client: httpx.Client) -> None:
    fine = json.dumps(body()).encode()

    def status(path: str, **options: Any) -> int:
        return client.post(path, **{"content": fine, **options}).status_code

    assert status("/tasks/a b/fit") == 422
    assert status("/tasks/x/fit?model=klingon") == 404
    assert status("/tasks/x/fit", content=b"{") == 400
    assert status("/tasks/x/fit", headers={"Content-Type": "text/csv"}) == 415
    assert client.get("/tasks/x/fit").status_code == 405


def test_unknown_jobs_are_404(client: httpx.Client) -> None:
    for path in ("/jobs/0123456789abcdef", "/jobs/..%2fner", "/jobs/0123456789abcdef/head"):
        response = client.get(path)
        assert response.status_code == 404, path
    assert client.delete("/jobs/x").json()["type"] == "urn:elmo-serve:error:unknown-job"


async def test_limits_are_named(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"max_job_examples": 3, "max_job_tokens": 4, "max_job_bytes": 100}
    short = [{"tokens": ["a"], "label": "x"}, {"tokens": ["b"], "label": "y"}]
    long = [{"tokens": ["a"] * 3, "label": "x"}, {"tokens": ["b"] * 3, "label": "y"}]
    three = [*short, {"tokens": ["c"], "label": "y"}]
    async with served(tasks=tmp_path, is_open=False, **limits) as s:

        async def send(examples: list[Any]) -> httpx.Response:
            sent = {"kind": "sentence", "examples": examples}
            return await s.client.post("/tasks/x/fit", json=sent)

        for examples, limit in ((2 * short, "EXAMPLES"), (long, "TOKENS"), (three, "BYTES")):
            response = await send(examples)
            assert response.status_code == 413, response.text
            assert f"ELMO_MAX_JOB_{limit}" in response.json()["detail"]
        assert (await send(short)).status_code == 202  # 2 rows of (3, 4) numbers fit


@pytest.mark.parametrize(("setting", "status"), [("max_jobs", 503), ("max_client_jobs", 429)])
async def test_a_full_server_says_when_to_try_again(
    tmp_path: Path, setting: str, status: int
) -> None:
    limit: dict[str, Any] = {setting: 1}
    async with served(tasks=tmp_path, is_open=False, **limit) as s:
        first = await s.fit("one")

        refused = await s.client.post("/tasks/two/fit", json=body())

        assert refused.status_code == status, refused.text
        assert int(refused.headers["retry-after"]) >= 1
        assert f"ELMO_{setting.upper()}" in refused.json()["detail"]
        await s.client.delete(f"/jobs/{first}")
        await s.fit("two")


async def test_a_folder_that_cannot_be_written_keeps_no_job(tmp_path: Path) -> None:
    async with served(tasks=tmp_path) as s:
        (tmp_path / ".jobs").write_text("in the way")
        response = await s.client.post("/tasks/one/fit", json=body())
    assert response.status_code == 503, response.text


async def test_jobs_are_cancelled_queued_and_running(tmp_path: Path) -> None:
    async with served(tasks=tmp_path, is_open=False) as s:
        first, second = await s.fit("one"), await s.fit("two")
        await s.runs(first)
        assert (await s.get(f"/jobs/{second}"))["state"] == "queued"
        assert s.metric("elmo_jobs", state="running") == 1
        assert s.metric("elmo_jobs", state="queued") == 1
        assert (await s.client.get(f"/jobs/{first}/head")).status_code == 409

        for job_id in (second, first, first):  # the last one has ended
            assert (await s.client.delete(f"/jobs/{job_id}")).json()["state"] == "cancelled"

        assert [process.is_killed for process in s.fits] == [True]
        assert await s.get("/tasks") == {"tasks": []}
        assert s.metric("elmo_jobs_ended_total", state="cancelled") == 2
        assert s.metric("elmo_jobs", state="running") == 0
        s.worker.open()
        assert (await s.ended(await s.fit("one")))["state"] == "done"


async def test_a_name_has_one_fit_at_a_time(tmp_path: Path) -> None:
    async with served(tasks=tmp_path, is_open=False) as s:
        first = await s.fit("one")

        for name in ("one", "ONE"):
            refused = await s.client.post(f"/tasks/{name}/fit", json=body())
            assert refused.status_code == 409 and first in refused.json()["detail"]

        await s.client.delete(f"/jobs/{first}")
        await s.fit("one")


async def test_a_job_whose_processes_are_lost_is_failed_and_the_next_one_runs(
    tmp_path: Path,
) -> None:
    async with served(tasks=tmp_path, is_open=False) as s:
        s.deaths[:] = ["exited with status 1", "was killed by SIGKILL", "was killed by SIGKILL"]
        first, second = await s.fit("one"), await s.fit("two")
        s.worker.open()

        job = await s.ended(first)

        assert job["state"] == "failed"
        assert job["reason"] == "the fit process was killed by SIGKILL, the second one of this job"
        assert (await s.ended(second))["state"] == "done"
        assert s.metric("elmo_failures_total", reason="fit_lost") == 3


async def test_kill_9_of_the_server_leaves_old_tasks_whole(tmp_path: Path) -> None:
    """The one of these tests with a server, and a process of a fit, that can be killed."""
    tasks = tmp_path / "tasks"
    with gated(tmp_path / "held", tasks=tasks) as server, server.client() as client:
        close_gate(server)
        client.put("/tasks/old", json=OLD)
        before = (tasks / "old.json").read_bytes()
        first, second = fit(client, "old"), fit(client, "new")
        server.until(lambda: client.get(f"/jobs/{first}").json()["state"] == "running")
        server.until(lambda: bool(children(server.pid)["fit"]))
        (child,) = children(server.pid)["fit"]
        async with served(tasks=tasks) as beside:
            # in its file, which the owner writes a little later
            while (await beside.get(f"/jobs/{first}"))["state"] != "running":  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            refused = await beside.client.post("/tasks/new/fit", json=body())
            assert refused.status_code == 409

            os.kill(server.pid, signal.SIGKILL)
            server.process.wait()

            for job_id in (first, second):
                job = await beside.get(f"/jobs/{job_id}")
                assert (job["state"], job["reason"]) == ("failed", SERVER_ENDED)
            server.until(lambda: not is_alive(child))
            assert (tasks / "old.json").read_bytes() == before
            assert not list(tasks.glob("*.fit"))
            assert (await beside.get("/tasks/old"))["weights"] == OLD["weights"]
            assert (await beside.client.get("/tasks/new")).status_code == 404


async def test_jobs_of_a_server_that_stops_are_failed(tmp_path: Path) -> None:
    async with served(tasks=tmp_path, is_open=False) as s:
        first, second = await s.fit("one"), await s.fit("two")
        await s.runs(first)

    for job_id in (first, second):
        state = json.loads((tmp_path / ".jobs" / f"{job_id}.json").read_text())
        assert (state["state"], state["reason"]) == ("failed", SERVER_STOPPED)
    assert not list((tmp_path / ".jobs").glob("*.lock"))


async def test_metrics_are_read_while_the_folder_of_jobs_hangs(tmp_path: Path) -> None:
    """Six requests that waited for the folder held every thread, also that of the metrics."""
    (tmp_path / ".jobs").mkdir()
    limits: dict[str, Any] = {"max_jobs": 40, "max_client_jobs": 40}
    async with served(tasks=tmp_path, is_open=False, **limits) as s:
        with locked_file(tmp_path / ".jobs" / ".creation"):  # as a network file system would
            posts = [
                asyncio.ensure_future(s.client.post(f"/tasks/t{number}/fit", json=body()))
                for number in range(40)  # more than any pool has threads
            ]
            await turns()
            metrics = await s.client.get("/metrics")

            assert metrics.status_code == 200
            assert not any(post.done() for post in posts)
        assert {(await post).status_code for post in posts} == {202}


async def test_a_sentence_on_which_the_model_fails_is_named(tmp_path: Path) -> None:
    examples = labelled("sentence", 20)
    examples[7] = {"tokens": ["!raises"], "label": "cat"}
    async with served(tasks=tmp_path) as s:
        sent = {"kind": "sentence", "examples": examples}
        response = await s.client.post("/tasks/one/fit", json=sent)

        job = await s.ended(response.json()["id"])

    assert (job["state"], job["reason"]) == (
        "failed",
        "/examples/7: the model fails on this sentence",
    )


def test_a_server_without_a_task_folder_fits_nothing(narrow_client: httpx.Client) -> None:
    refused = narrow_client.post("/tasks/x/fit", json=body())

    assert (refused.status_code, "ELMO_TASKS" in refused.text) == (409, True)


def test_jobs_need_a_key(narrow: Running) -> None:
    assert httpx.get(f"{narrow.url}/jobs").status_code == 401
    assert httpx.post(f"{narrow.url}/tasks/x/fit", json={}).status_code == 401
    assert httpx.delete(f"{narrow.url}/jobs/0123456789abcdef").status_code == 401
