"""A request ends once and counts every token once; a batch has room for every result."""

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.processes.arena import Arena, view
from elmo_serve.scheduling.request import (
    Request,
    RunningBatch,
    SentenceJob,
    Sentences,
    cost_of,
)
from elmo_serve.selection import Output
from tests.support.engines import OUTPUT, budget_of, request_of, vectors_of

VECTORS = vectors_of(1.0)


def test_a_sentence_costs_its_tokens_and_two_boundaries() -> None:
    assert cost_of([3, 0, 7]) == 10 + 6
    assert [job.cost for job in request_of([3, 0, 7]).jobs()] == [5, 2, 9]


def test_of_equal_sentences_with_one_output_the_first_is_computed() -> None:
    other = type(OUTPUT)(layers=(1,))
    sentences = Sentences(
        [b"a", b"b", b"a", b"a", b"b"], [3, 1, 3, 3, 1], [OUTPUT, OUTPUT, OUTPUT, other, OUTPUT]
    )

    assert sentences.computed == [0, 1, 3]
    assert sentences.places == [0, 1, 0, 3, 1]
    assert sentences.cost == 5 + 3 + 5


def test_the_virtual_start_times_of_a_request_ascend_from_its_arrival() -> None:
    request = request_of([1, 2, 3, 4, 5], now=10.0, spacing=2.0)

    assert [job.virtual_start for job in request.jobs()] == [10.0, 16.0, 24.0, 34.0, 46.0]


def test_a_request_waits_for_its_first_sentence() -> None:
    request = request_of([3, 1])

    assert [request.start(now) for now in (4.0, 5.0)] == [True, False]
    assert request.started_at == 4.0


def test_the_last_result_ends_a_request() -> None:
    budget, ends = budget_of(), list[str]()
    request = request_of([3, 1], budget=budget, on_end=lambda: ends.append("end"))
    first, second = request.jobs()
    request.answer(second, VECTORS, 1.0)
    assert (budget.used, request.missing, ends) == (5, 1, [])

    request.answer(first, VECTORS, 2.0)
    assert (budget.used, request.missing, ends) == (0, 0, ["end"])
    assert (request.results, request.finished_at, request.error) == ([VECTORS] * 2, 2.0, None)


def test_a_request_has_the_first_of_its_errors() -> None:
    budget, ends = budget_of(), list[str]()
    request = request_of([3, 1], budget=budget, on_end=lambda: ends.append("end"))
    first, second = Unavailable("one", retry_after=1), Unavailable("two", retry_after=1)
    request.fail(first)
    request.fail(second)

    assert (request.error, ends, budget.used) == (first, ["end"], 0)


@pytest.mark.parametrize("ending", ["answered", "failed", "ended"])
def test_an_ended_request_takes_no_result_and_gives_nothing_back(ending: str) -> None:
    budget, ends = budget_of(), list[str]()
    request = request_of([3], budget=budget, on_end=lambda: ends.append("end"))
    other = request_of([30], budget=budget)
    (job,) = request.jobs()
    if ending == "answered":
        request.answer(job, VECTORS, 1.0)
    elif ending == "failed":
        request.fail(Unavailable("gone", retry_after=1))
    else:
        request.end()
    before = list(ends), list(request.results), request.error
    request.answer(job, VECTORS, 2.0)
    request.fail(Unavailable("late", retry_after=1))
    request.end()

    assert (ends, request.results, request.error) == before
    assert budget.used == other.sentences.cost


OUTPUTS = [
    Output(layers=(0, 1, 2), stacked=True),
    Output(weights=(0.0, 0.0), pooling="mean", dtype="float16"),
    Output(layers=(1,)),
]
DIMENSION = 5


def jobs_of(lengths: list[int], outputs: list[Output]) -> list[SentenceJob]:
    """Return the jobs of one request."""
    sentences = Sentences([b"%d" % length for length in lengths], lengths, outputs)
    request = Request(sentences, budget_of().hold("", sentences.cost), 0.0, 1.0, lambda: None)
    return list(request.jobs())


def test_each_sentence_has_its_own_part_of_the_block() -> None:
    jobs = jobs_of([3, 3, 3, 0, 0, 0, 7, 7, 7], OUTPUTS * 3)
    running = RunningBatch.of(jobs, 17, DIMENSION, Arena())
    batch = running.batch
    memory = batch.block.array
    for index, (job, offset) in enumerate(zip(jobs, batch.offsets, strict=True)):
        shape = job.output.shape(job.tokens, DIMENSION)
        view(memory, offset, shape, job.output.dtype)[...] = index  # as a worker writes it

    for index, job in enumerate(jobs):
        found = running.vectors(index).numpy()
        assert found.shape == job.output.shape(job.tokens, DIMENSION)
        assert found.dtype == job.output.dtype
        assert (found == index).all()
    assert all(offset % 64 == 0 for offset in batch.offsets)
    assert (batch.id, batch.tokens, batch.padded_tokens) == (17, 3 * 16, 9 * 9)
    assert batch.sentences == tuple(job.sentence for job in jobs)


def test_a_batch_of_empty_sentences_has_a_block_too() -> None:
    running = RunningBatch.of(jobs_of([0], OUTPUTS[2:]), 1, 4, Arena())

    assert running.vectors(0).numpy().shape == (0, 4)
