"""A request ends once, and counts every token of its account once."""

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.scheduling.quotas import Budget
from elmo_serve.scheduling.request import JobState, Request, SentenceJob, cost_of
from tests.support.requests import OUTPUT, request_of, vectors_of

VECTORS = vectors_of(1.0)


def job_of(*requests: Request, tokens: int = 3) -> SentenceJob:
    """Return a job that is the first sentence of every one of these requests."""
    job = SentenceJob(b"", OUTPUT, tokens, 0.0, requests[0].cost)
    for request in requests:
        job.add(request, 0)
    return job


def test_a_sentence_costs_its_tokens_and_two_boundaries() -> None:
    assert cost_of([3, 0, 7]) == 10 + 6
    assert job_of(request_of([3])).cost == 5


def test_the_last_result_ends_a_request() -> None:
    budget, ends = Budget(), list[str]()
    request = request_of([3, 1], budget=budget, on_end=lambda: ends.append("end"))
    request.answer(1, VECTORS, 3, 1.0)
    assert (budget.used, request.missing, ends) == (5, 1, [])

    request.answer(0, VECTORS, 5, 2.0)
    assert (budget.used, request.missing, ends) == (0, 0, ["end"])
    assert (request.results, request.finished_at, request.error) == ([VECTORS] * 2, 2.0, None)


def test_a_request_has_the_first_of_its_errors() -> None:
    budget, ends = Budget(), list[str]()
    request = request_of([3, 1], budget=budget, on_end=lambda: ends.append("end"))
    first, second = Unavailable("one", retry_after=1), Unavailable("two", retry_after=1)
    request.fail(first)
    request.fail(second)

    assert (request.error, ends, budget.used) == (first, ["end"], 0)


@pytest.mark.parametrize("ending", ["answered", "failed", "ended"])
def test_an_ended_request_takes_no_result_and_gives_nothing_back(ending: str) -> None:
    budget, ends = Budget(), list[str]()
    request = request_of([3], budget=budget, on_end=lambda: ends.append("end"))
    other = request_of([30], budget=budget)
    if ending == "answered":
        request.answer(0, VECTORS, 5, 1.0)
    elif ending == "failed":
        request.fail(Unavailable("gone", retry_after=1))
    else:
        request.end()
    before = list(ends), list(request.results), request.error
    request.answer(0, VECTORS, 5, 2.0)
    request.fail(Unavailable("late", retry_after=1))
    request.end()

    assert (ends, request.results, request.error) == before
    assert budget.used == other.cost


def test_a_job_answers_every_request_that_waits_for_it() -> None:
    requests = [request_of([3]), request_of([3, 9])]
    job = job_of(*requests)
    assert job.start(4.0) == requests
    assert job_of(*requests).start(4.5) == []  # their second sentence
    job.answer(VECTORS, 5.0)

    assert [request.started_at for request in requests] == [4.0, 4.0]
    assert [request.missing for request in requests] == [0, 1]
    assert (job.state, job.waiting) == (JobState.RUNNING, [])


def test_a_job_fails_every_request_with_an_error_of_its_own() -> None:
    requests = [request_of([3]), request_of([3, 9])]
    job = job_of(*requests)
    job.fail(lambda index: Unavailable(f"sentence {index}", retry_after=1))

    errors = [request.error for request in requests]
    assert [str(error) for error in errors] == ["sentence 0"] * 2
    assert errors[0] is not errors[1]


def test_a_job_counts_the_smallest_request_that_waits_for_it() -> None:
    large, small = request_of([3] * 100), request_of([3])
    job = job_of(large)
    assert job.request_cost == 500

    job.add(small, 0)
    assert job.request_cost == 5
    job.remove(large)
    assert [request for request, _ in job.waiting] == [small]
