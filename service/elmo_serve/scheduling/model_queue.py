"""All work of one model that waits for a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from elmo_serve.output import Wanted
from elmo_serve.scheduling.fair_queue import FairQueue
from elmo_serve.scheduling.request import JobState, Request, SentenceJob


class ModelQueue:
    """A fair queue of new sentences, and batches that have to run again, which come first.

    Sentences with the same tokens and output share one job from their arrival until it ends.
    """

    def __init__(self) -> None:
        self._fair = FairQueue()
        self._retries: deque[list[SentenceJob]] = deque()
        self._jobs: dict[Wanted, dict[bytes, SentenceJob]] = {}  # that have not ended

    @property
    def sentences(self) -> int:
        """The number of sentences that wait for a worker."""
        return len(self._fair) + sum(map(len, self._retries))

    @property
    def tokens(self) -> int:
        """Their cost in tokens, boundaries included."""
        return self._fair.tokens + self._retry_tokens

    @property
    def _retry_tokens(self) -> int:
        return sum(job.cost for jobs in self._retries for job in jobs)

    def tokens_before(self, virtual_time: float) -> float:
        """Estimate the tokens that run before a sentence with this virtual start time."""
        return self._retry_tokens + self._fair.tokens_before(virtual_time)

    def add(self, request: Request, most: int) -> None:
        """Queue at most so many sentences of a request: those that follow the ones queued before.

        The virtual start times of a request ascend from its arrival, by
        `virtual_seconds_per_token`.
        """
        start = len(request.jobs)
        output: Wanted | None = None
        known: dict[bytes, SentenceJob] = {}
        virtual_start = request.next_virtual_start
        new = []
        for index in range(start, min(start + most, len(request.sentences))):
            sentence = request.sentences[index]
            if request.outputs[index] is not output:  # most requests have one for all sentences
                output = request.outputs[index]
                known = self._jobs.setdefault(output, {})
            job = known.get(sentence)
            if job is None:
                job = known[sentence] = SentenceJob(
                    sentence, output, request.lengths[index], virtual_start, request.cost
                )
                new.append(job)
            elif job.state is JobState.QUEUED and virtual_start < job.virtual_start:
                self._fair.advance(job, virtual_start)
            job.add(request, index)
            request.jobs.append(job)
            virtual_start += request.virtual_seconds_per_token * job.cost
        request.next_virtual_start = virtual_start
        self._fair.add(new)

    def withdraw(self, request: Request, jobs: Sequence[SentenceJob]) -> tuple[int, int]:
        """Take an ended request off some of its jobs; a job that nobody else wants is dropped.

        Returns the numbers of dropped jobs that were queued, and that were running.

        A job that runs may be computed no further, so a later request for its sentence gets a job
        of its own.
        """
        queued = running = 0
        has_dropped_retry = False
        for job in jobs:
            if not job.waiting:
                continue  # it has ended, or stands twice in the request
            job.remove(request)
            if job.waiting:
                continue
            self.forget(job)
            if job.state is JobState.RUNNING:
                running += 1
                continue
            queued += 1
            if job.state is JobState.QUEUED:
                self._fair.remove(job)
            else:
                has_dropped_retry = True
        if has_dropped_retry:
            kept = ([job for job in jobs if job.waiting] for jobs in self._retries)
            self._retries = deque(jobs for jobs in kept if jobs)
        return queued, running

    def next_interactive(self, requests: Iterable[Request], budget: int) -> list[SentenceJob]:
        """Remove and return a batch of the interactive ones among some requests.

        They come first whatever is before them in the queue: late bulk, for one.
        """
        waiting = (
            job
            for request in requests
            if request.cost <= budget
            for job in request.jobs
            if job.state is JobState.QUEUED and job.waiting
        )
        return self._fair.take(waiting, budget)

    def next_jobs(self, budget: int) -> list[SentenceJob]:
        """Remove and return the jobs of the next batch: first those that have to run again.

        The padded size is at most `budget` tokens, except that a single job always fits.
        """
        if not self._retries:
            return self._fair.next_batch(budget)
        jobs = self._retries.popleft()
        while len(jobs) > 1 and padded_tokens(jobs) > budget:  # budgets differ, and shrink
            jobs, second = halves(jobs)
            self._retries.appendleft(second)
        return jobs

    def retry(self, *batches: list[SentenceJob]) -> None:
        """Run these batches again, before all others and in this order; drop unwanted jobs."""
        for jobs in reversed(batches):
            wanted = [job for job in jobs if job.waiting]
            for job in jobs:
                if job.waiting:
                    job.state = JobState.RETRY
                else:
                    self.forget(job)
            if wanted:
                self._retries.appendleft(wanted)

    def fail(self, jobs: Sequence[SentenceJob], error_at: Callable[[int], Exception]) -> None:
        """Fail every request that waits for these jobs, which end."""
        for job in jobs:
            self.forget(job)
            job.fail(error_at)

    def forget(self, job: SentenceJob) -> None:
        """Let later requests for the same sentence have a job of their own."""
        known = self._jobs.get(job.output)
        if known is not None and known.get(job.sentence) is job:
            del known[job.sentence]
            if not known:
                del self._jobs[job.output]


def padded_tokens(jobs: Sequence[SentenceJob]) -> int:
    """Return the padded size of a batch: the cost of its longest sentence for each of them."""
    return max(job.cost for job in jobs) * len(jobs)


def halves(jobs: list[SentenceJob]) -> tuple[list[SentenceJob], list[SentenceJob]]:
    """Return the first and the second half of a batch."""
    middle = len(jobs) // 2
    return jobs[:middle], jobs[middle:]
