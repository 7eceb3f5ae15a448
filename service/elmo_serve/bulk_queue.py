"""Bulk work of the server's queue: sentences that nobody waits for interactively."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import orjson

from elmo_model.text.batches import by_length
from elmo_serve.errors import (
    ClientOverShare,
    DeadlineExceeded,
    Overloaded,
    SentenceFailed,
    TooLarge,
    Unavailable,
)
from elmo_serve.output import ITEM_SIZES, Output
from elmo_serve.scheduling.engine import Embedded, Engine
from elmo_serve.settings import Settings
from elmo_serve.workers.messages import ModelInfo

Text = Sequence[Sequence[str]]
Write = Callable[[Sequence[int], Embedded], None]

_AHEAD = 2
"""Pieces of one work that are queued at once: a worker finds the next one when it is done. More of
them take more memory for their vectors (`benchmarks/RESULTS.md`)."""

_ATTEMPTS = 5
"""Times that a piece may time out, or lose its worker, before the work fails."""

_READY_SECONDS = 1.0
"""Pause between two looks at a model without a ready worker."""

_OUTAGE_SECONDS = 600.0
"""Seconds without a ready worker after which the work fails. With a larger value a model whose
device is lost is given up later."""


def piece_tokens_of(settings: Settings, info: ModelInfo, budget: int) -> int:
    """Return the largest piece in tokens, for workers whose batches have `budget` tokens.

    A piece fills neither the queue nor the budget of answers: others need room as well.
    """
    row_bytes = info.layers * info.dimension * ITEM_SIZES["float32"]
    most = min(settings.max_queue_tokens // 4, settings.max_answer_bytes // (8 * row_bytes))
    return min(most, settings.max_client_tokens or most, budget)


class WorkFailedError(Exception):
    """Work for which no client waits cannot be done; the message is one line."""


@dataclass(frozen=True, slots=True)
class BulkQueue:
    """Where and how pieces of bulk work, sentences of a text, are queued.

    `model` is the name of the model, `info` its description, `client` the name that the quota of
    the work is counted under. A piece has at most `piece_tokens` tokens, boundaries included, or
    one sentence. `in_thread` runs a function that waits for the disk.
    """

    engine: Engine
    model: str
    info: ModelInfo
    client: str
    piece_tokens: int
    timeout_seconds: float
    in_thread: Callable[..., Awaitable[None]] = asyncio.to_thread

    async def run(
        self, text: Text, output: Output, write: Write, on_tokens: Callable[[int], None]
    ) -> None:
        """Compute all sentences of a text and pass the vectors of each piece to `write`.

        It is called in a thread, with the numbers of the sentences in the text. Each piece is a
        bulk request of its own, so that interactive requests wait for one batch of it at most. A
        refused piece is queued again. The bytes of a piece count as an answer until they are
        written. `on_tokens` is called with the tokens of each piece.

        Raises:
            WorkFailedError: a piece is too large, or is never answered; or no worker has been ready
                for some minutes, or may recover.
            SentenceFailed: the model fails on a sentence, whose number in the text is `index`.
            Any error of `write`.
        """
        pieces = by_length(range(len(text)), text, self.piece_tokens)

        async def work() -> None:
            for numbers in pieces:
                await self._compute(numbers, text, output, write)
                on_tokens(sum(len(text[number]) for number in numbers))

        tasks = [asyncio.ensure_future(work()) for _ in range(_AHEAD)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _compute(
        self, numbers: Sequence[int], text: Text, output: Output, write: Write
    ) -> None:
        """Compute a piece, again where it is refused, and write it."""
        sentences = [text[number] for number in numbers]
        failures = 0
        while True:
            await self._ready()
            try:
                return await self._attempt(sentences, output, partial(write, numbers))
            except SentenceFailed as error:
                raise SentenceFailed(error.detail, numbers[error.index]) from error
            except TooLarge as error:
                raise WorkFailedError(error.detail) from error
            except (Overloaded, ClientOverShare) as error:  # the queue is full: everybody waits
                await asyncio.sleep(error.retry_after)
            except (DeadlineExceeded, Unavailable) as error:
                failures += 1
                if failures == _ATTEMPTS:
                    raise WorkFailedError(f"no vectors came: {error.detail}") from error
                if isinstance(error, Unavailable):  # memory is short, for one: it may pass
                    await asyncio.sleep(error.retry_after)

    async def _ready(self) -> None:
        """Wait until a worker is ready. Raises WorkFailedError."""
        waited = 0.0
        while (reason := self.engine.unavailable_reason(self.model)) is not None:
            if not self.engine.pool_of(self.model).can_recover:
                raise WorkFailedError(f"no vectors came: {reason}")
            if waited >= _OUTAGE_SECONDS:
                raise WorkFailedError(f"no vectors came: {reason}, for {waited:.0f} s")
            await asyncio.sleep(_READY_SECONDS)
            waited += _READY_SECONDS

    async def _attempt(
        self, sentences: Text, output: Output, write: Callable[[Embedded], None]
    ) -> None:
        size = sum(output.size(len(each), self.info.dimension) for each in sentences)
        held = self.engine.answers.hold(self.client, size)
        try:
            await self.in_thread(write, await self._embed(sentences, output))
        finally:
            held.release()

    async def _embed(self, sentences: Text, output: Output) -> Embedded:
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await self.engine.embed(
                    [orjson.dumps(sentence) for sentence in sentences],
                    [len(sentence) for sentence in sentences],
                    [output] * len(sentences),
                    self.timeout_seconds,
                    self.client,
                    self.model,
                    is_bulk=True,
                )
        except TimeoutError:
            raise DeadlineExceeded(f"not within {self.timeout_seconds:g} s") from None


def bulk_queue(engine: Engine, model: str, settings: Settings, client: str) -> BulkQueue:
    """Return the queue of bulk work for a model, which is loaded."""
    pool = engine.pool_of(model)
    assert pool.info is not None, "the model is loaded"
    budget = max(slot.budget for slot in pool.slots)
    return BulkQueue(
        engine,
        model,
        pool.info,
        client,
        piece_tokens_of(settings, pool.info, budget),
        settings.request_timeout_seconds,
    )
