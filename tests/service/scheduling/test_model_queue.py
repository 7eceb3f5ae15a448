"""Work of a model waits once for each sentence, retries first, and is dropped with its requests."""

from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_serve.errors import Unavailable
from elmo_serve.scheduling.model_queue import ModelQueue, halves, padded_tokens
from elmo_serve.scheduling.quotas import Budget
from elmo_serve.scheduling.request import JobState, Request, SentenceJob
from tests.support.requests import request_of, vectors_of

VECTORS = vectors_of(1.0)


def run(jobs: list[SentenceJob]) -> None:
    """Do as the dispatcher does with the jobs of a batch."""
    for job in jobs:
        job.start(0.0)


def done(queue: ModelQueue, jobs: list[SentenceJob]) -> None:
    """Do as the dispatcher does with the results of a batch."""
    for job in jobs:
        queue.forget(job)
        job.answer(VECTORS, 0.0)


def end(queue: ModelQueue, request: Request) -> tuple[int, int]:
    """End a request as the engine does when its client leaves."""
    request.end()
    return queue.withdraw(request, request.jobs)


def test_a_request_is_queued_in_slices() -> None:
    queue, request = ModelQueue(), request_of([1, 2, 3, 4, 5], now=10.0, spacing=2.0)
    sizes = []
    for _ in range(3):
        queue.add(request, 2)
        sizes.append((queue.sentences, queue.tokens))

    assert sizes == [(2, 7), (4, 18), (5, 25)]
    assert [job.virtual_start for job in request.jobs] == [10.0, 16.0, 24.0, 34.0, 46.0]


def test_identical_sentences_share_a_job_until_it_ends() -> None:
    queue = ModelQueue()
    first, second, third = (request_of([3], name="same") for _ in range(3))
    queue.add(first, 1)
    queue.add(second, 1)
    assert first.jobs == second.jobs

    jobs = queue.next_jobs(100)
    run(jobs)
    queue.add(third, 1)
    assert (third.jobs, queue.sentences) == (first.jobs, 0)
    done(queue, jobs)
    assert (first.missing, second.missing, third.missing) == (0, 0, 0)
    fourth = request_of([3], name="same")
    queue.add(fourth, 1)
    assert fourth.jobs != first.jobs


def test_a_sentence_moves_forward_for_a_request_that_is_due_earlier() -> None:
    queue = ModelQueue()
    bulk = request_of([3] * 100, name="bulk", now=0.0, spacing=8.0)
    queue.add(bulk, 100)
    short = request_of([3], name="other", now=1.0)
    short.sentences = [bulk.sentences[90]]
    queue.add(short, 1)

    assert bulk.jobs[90].virtual_start == 1.0
    assert bulk.jobs[90] in queue.next_jobs(10)


def test_retries_come_first_in_their_order() -> None:
    queue, request = ModelQueue(), request_of([3] * 20)
    queue.add(request, 20)
    one, two = queue.next_jobs(20), queue.next_jobs(20)
    run(one + two)
    queue.retry(one, two)

    assert {job.state for job in one + two} == {JobState.RETRY}
    assert (queue.sentences, queue.tokens) == (20, 100)
    assert [queue.next_jobs(20), queue.next_jobs(20)] == [one, two]
    assert len(queue.next_jobs(20)) == 4


def test_a_retry_is_split_for_a_smaller_budget() -> None:
    queue, request = ModelQueue(), request_of([3] * 8)
    queue.add(request, 8)
    jobs = queue.next_jobs(40)
    run(jobs)
    queue.retry(jobs)
    batches = [queue.next_jobs(10) for _ in range(4)]

    assert [job for batch in batches for job in batch] == jobs
    assert {padded_tokens(batch) for batch in batches} == {10}
    assert queue.next_jobs(10) == []


def test_withdrawn_sentences_are_dropped_wherever_they_wait() -> None:
    queue, request = ModelQueue(), request_of([3] * 12)
    queue.add(request, 12)
    runs, retried = queue.next_jobs(20), queue.next_jobs(20)
    run(runs + retried)
    queue.retry(retried)

    assert end(queue, request) == (8, 4)
    assert (queue.sentences, queue.tokens) == (0, 0)
    assert queue.next_jobs(1_000) == []
    queue.retry(runs)  # the worker is lost: nobody wants this batch any more
    assert (queue.sentences, queue.next_jobs(1_000)) == (0, [])


def test_a_sentence_that_another_request_wants_stays() -> None:
    queue = ModelQueue()
    leaves, stays = request_of([3, 4], name="same"), request_of([3], name="same")
    queue.add(leaves, 2)
    queue.add(stays, 1)

    assert end(queue, leaves) == (1, 0)
    assert queue.next_jobs(100) == stays.jobs


def test_a_dropped_sentence_is_computed_for_a_later_request() -> None:
    queue = ModelQueue()
    first, again = request_of([3], name="same"), request_of([3], name="same")
    queue.add(first, 1)
    end(queue, first)
    queue.add(again, 1)

    assert queue.next_jobs(100) == again.jobs != first.jobs


def test_a_failed_job_ends() -> None:
    queue, request = ModelQueue(), request_of([3], name="same")
    queue.add(request, 1)
    jobs = queue.next_jobs(100)
    run(jobs)
    queue.fail(jobs, lambda index: Unavailable(f"sentence {index}", retry_after=1))
    again = request_of([3], name="same")
    queue.add(again, 1)

    assert str(request.error) == "sentence 0"
    assert again.jobs != jobs


def test_tokens_before_a_virtual_time_include_retries() -> None:
    queue, request = ModelQueue(), request_of([3] * 20, now=100.0)
    queue.add(request, 20)
    jobs = queue.next_jobs(20)
    run(jobs)
    queue.retry(jobs)

    assert queue.tokens_before(0.0) == 20
    assert queue.tokens_before(1e9) == 100


def test_halves_are_all_of_a_batch() -> None:
    jobs = request_of([1] * 7)
    queue = ModelQueue()
    queue.add(jobs, 7)
    first, second = halves(jobs.jobs)

    assert first + second == jobs.jobs
    assert abs(len(first) - len(second)) == 1


# A step: a request with sentences of these lengths and some names arrives; a batch is cut; the
# oldest batch is done, runs again or fails; a request ends.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.lists(st.integers(0, 20), min_size=1, max_size=12)),
        st.tuples(st.sampled_from(["cut", "done", "retry", "fail", "end"]), st.integers(0, 200)),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(STEPS)
def test_every_request_ends_and_gives_back_its_tokens(steps: list[tuple[str, object]]) -> None:
    """Whatever happens to batches and requests, nothing waits for nobody and nothing is lost."""
    queue, budget = ModelQueue(), Budget()
    requests: list[Request] = []
    running: list[list[SentenceJob]] = []
    for number, (step, value) in enumerate(steps):
        if step == "arrive":
            assert isinstance(value, list)
            name = f"name {number % 3}"  # equal names and lengths are equal sentences
            request = request_of(sorted(value), name=name, now=float(number), budget=budget)
            request.sentences = [f"{name} {length}".encode() for length in request.lengths]
            queue.add(request, len(value))
            requests.append(request)
        elif step == "cut":
            assert isinstance(value, int)
            if jobs := queue.next_jobs(value):
                run(jobs)
                running.append(jobs)
        elif step == "end" and requests:
            assert isinstance(value, int)
            end(queue, requests[value % len(requests)])
        elif running:
            finish_oldest(queue, running, step)
        waiting = {id(job) for request in requests for job in request.jobs if job.waiting}
        moving = {id(job) for jobs in running for job in jobs}
        assert queue.sentences == len(waiting - moving)
        assert budget.used == sum(request.held.left for request in requests)
        withdraw_failed(queue, requests)
    while jobs := queue.next_jobs(100):
        run(jobs)
        done(queue, jobs)
    for jobs in running:
        done(queue, jobs)
    assert all(request.is_over for request in requests)
    assert (queue.sentences, queue.tokens, budget.used) == (0, 0, 0)


def finish_oldest(queue: ModelQueue, running: list[list[SentenceJob]], step: str) -> None:
    """Let the oldest batch be done, run again, or fail."""
    jobs = running.pop(0)
    if step == "done":
        done(queue, jobs)
    elif step == "retry":
        queue.retry(*halves(jobs))
    else:
        queue.fail(jobs, lambda index: Unavailable(f"sentence {index}", retry_after=1))


def withdraw_failed(queue: ModelQueue, requests: list[Request]) -> None:
    """Do as the engine does with requests that have failed."""
    for request in requests:
        if request.error is not None:
            queue.withdraw(request, request.jobs)
