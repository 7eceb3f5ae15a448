"""Fits through the client: queued, waited for, cancelled, and their heads."""

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from elmo_client import BadAnswer, CannotSend, Client, FitFailed, InvalidRequest, RequestRefused
from elmo_client.transport.requests import fit_body
from elmo_client.transport.responses import head_of, state_of
from tests.support.fits import labelled
from tests.support.gated_server import close_gate, gated
from tests.support.servers import Running


@pytest.mark.usefixtures("tasks")
def test_a_fit_is_waited_for_and_its_task_and_head_are_there(sdk: Client) -> None:
    job = sdk.fit("mine", labelled("sentence", 40), kind="sentence", seeds=1, l2_weights=0.01)
    seen: list[float] = []
    state = job.wait(seen.append)

    assert seen == sorted(seen) and seen[-1] == 1.0
    assert (state.id, state.name, state.state, state.progress) == (job.id, "mine", "done", 1.0)
    assert state.task in sdk.tasks()
    head = job.head()
    assert set(head.labels) <= {"cat", "sat", "The", "mat"}
    assert head.weight.shape == (len(head.labels), sdk.info()["dimension"])
    assert head.bias.shape == (len(head.labels),)
    assert job.cancel() == state  # it has ended


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that computes nothing: jobs run until they are cancelled."""
    folder = tmp_path_factory.mktemp("closed")
    with gated(folder, tasks=folder / "tasks", drain_timeout_seconds=0) as server:
        close_gate(server)
        yield server


def test_a_cancelled_fit_raises_where_it_is_waited_for(client_class: Any, closed: Running) -> None:
    with client_class(closed.url) as client:
        job = client.fit("mine", labelled("token", 20), kind="token")
        assert not job.state().has_ended
        with pytest.raises(RequestRefused, match="409"):
            client.fit("mine", labelled("token", 20), kind="token")
        with pytest.raises(RequestRefused, match="a job has a head when it is done"):
            job.head()

        assert job.cancel().state == "cancelled"

        with pytest.raises(FitFailed, match=r"of task 'mine': cancelled"):
            job.wait()


def test_bad_examples_are_refused_with_their_pointer(sdk: Client) -> None:
    with pytest.raises(InvalidRequest, match=r"/labels: number of labels is 1") as refused:
        sdk.fit("bad", [{"tokens": ["a", "b"], "labels": ["x"]}], kind="token")

    assert refused.value.problem.errors[0].pointer == "/examples/0/labels"

    kind: Any = "tokens"
    with pytest.raises(InvalidRequest, match=": /kind: must be"):
        sdk.fit("bad", labelled("token", 20), kind=kind)


def test_examples_that_are_no_json_are_not_sent(sdk: Client) -> None:
    with pytest.raises(CannotSend, match="example 1 cannot be written as JSON"):
        sdk.fit("bad", [{"label": "x"}, {"label": {1}}], kind="sentence")
    examples: Any = ["a b"]
    with pytest.raises(CannotSend, match="example 0 is 'a b'; expected a mapping"):
        sdk.fit("bad", examples, kind="sentence")


@pytest.mark.parametrize("text", [math.nan, None])
def test_a_text_that_is_missing_is_named_by_its_example(text: Any) -> None:
    examples = [{"text": "A bank.", "label": "x"}, {"text": text, "label": "x"}]

    with pytest.raises(CannotSend, match=f"^text of example 1 is {text}; expected a string$"):
        fit_body(examples, kind="sentence")


def test_a_body_has_the_options_and_arrays_are_lists() -> None:
    body = fit_body([{"token": np.int64(2)}], kind="token", seeds=None)

    assert body == b'{"kind":"token","examples":[{"token":2}]}'


def test_labels_are_lists_or_arrays_of_text_or_whole_numbers() -> None:
    examples: list[dict[str, Any]] = [
        {"label": np.int64(1)},
        {"labels": np.array([0, 1])},
        {"labels": np.array(["x", "y"])},
    ]

    body = json.loads(fit_body(examples, kind="token"))

    assert body["examples"] == [{"label": 1}, {"labels": [0, 1]}, {"labels": ["x", "y"]}]


def test_wait_takes_a_function_and_no_limit() -> None:
    with Client("http://127.0.0.1:1") as client:
        job = client.job("1")
        wrong: Any = 3
        with pytest.raises(CannotSend, match=r"on_progress is 3; expected a function .* no time l"):
            job.wait(wrong)


def test_what_is_no_job_and_no_head_is_refused() -> None:
    with pytest.raises(BadAnswer, match="no whole job: KeyError"):
        state_of({})
    with pytest.raises(BadAnswer, match="the response is not safetensors"):
        head_of(b"nothing of it")
