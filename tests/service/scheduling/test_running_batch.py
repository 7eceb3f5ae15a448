"""A running batch has room for every result, and finds each of them again."""

from elmo_serve.output import Output
from elmo_serve.processes.arena import Arena, view
from elmo_serve.scheduling.budgets import Budget
from elmo_serve.scheduling.request import Request, SentenceJob, Sentences
from elmo_serve.scheduling.running_batch import RunningBatch

OUTPUTS = [
    Output(layers=(0, 1, 2), stacked=True),
    Output(weights=(0.0, 0.0), pooling="mean", dtype="float16"),
    Output(layers=(1,)),
]
DIMENSION = 5


def jobs_of(lengths: list[int], outputs: list[Output]) -> list[SentenceJob]:
    """Return the jobs of one request."""
    sentences = Sentences([b"%d" % length for length in lengths], lengths, outputs)
    request = Request(sentences, Budget().hold("", sentences.cost), 0.0, 1.0, lambda: None)
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
