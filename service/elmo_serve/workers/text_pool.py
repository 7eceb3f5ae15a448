"""The pool of text workers: processes that split texts into tokens."""

from __future__ import annotations

from elmo_serve.metrics import Metrics
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.task_pool import TaskKind, TaskPool
from elmo_serve.workers.text_worker import TextRefused, Tokenize, TokenizedTexts, work
from elmo_serve.workers.watchdog import EVENT_LOOP_CLOCK, Clock, Timeouts

_KIND = TaskKind(
    name="text",
    title="text process",
    work=work,
    refusal="The text could not be split",
    timeouts=Timeouts(load=120.0, first_batch=30.0, batch=5.0),
    minimum_size=4_096,
)


class TextWorkerPool(TaskPool[Tokenize]):
    """A few processes that are spawned for the first text: many servers are sent tokens alone."""

    def __init__(
        self,
        count: int | None,
        segments: SharedMemoryPool,
        metrics: Metrics,
        clock: Clock = EVENT_LOOP_CLOCK,
    ) -> None:
        super().__init__(_KIND, count, segments, metrics, clock)
        self._is_started = False

    async def tokenize(self, task: Tokenize) -> TokenizedTexts | TextRefused:
        """Return the tokens of some texts, or the text that cannot be split.

        Raises:
            Unavailable: two processes were lost over it, or none can be started.
        """
        if not self._is_started:
            self._is_started = True
            self.start()
        pending = self.submit(task, sum(map(len, task.texts)))
        found: TokenizedTexts | TextRefused = await pending.future
        return found
