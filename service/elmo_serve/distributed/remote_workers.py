"""The workers of one model on other machines, as the HTTP side sees them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Protocol

from elmo_serve.distributed.messages import (
    EmbedAnswer,
    EmbedCall,
    LoadFault,
    ModelDescription,
    ModelPlace,
)
from elmo_serve.errors import ServiceError
from elmo_serve.workers.messages import ModelInfo

_PING_SECONDS = 2.0
"""Seconds between two questions to a replica; a larger value notices later that none is left."""

_ANSWER_SECONDS = 10.0
"""Seconds after which a replica that does not answer a question counts as lost. A smaller value
refuses requests while replicas are only slow."""


_log = logging.getLogger(__name__)


class ReplicaLostError(Exception):
    """A replica ended, or its machine was lost, before it answered."""


class Replicas(Protocol):
    """The replicas of an engine. Each call goes to one of them."""

    async def describe(self, model: str) -> ModelDescription | LoadFault | ServiceError:
        """Let a replica load the model, if it has not, and describe it.

        Raises ReplicaLostError.
        """

    async def embed(self, call: EmbedCall) -> EmbedAnswer | ServiceError:
        """Compute vectors, or return the error. Raises ReplicaLostError."""


class RemoteWorkers:
    """One model, ready while a replica answers the questions that are sent to it."""

    def __init__(
        self,
        name: str,
        replicas: Replicas,
        ping_seconds: float = _PING_SECONDS,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self._name = name
        self._replicas = replicas
        self._ping_seconds, self._answer_seconds = ping_seconds, answer_seconds
        self._fault: str | None = None
        self._answered_at = time.monotonic()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.info: ModelInfo | None = None
        self.slots: Sequence[ModelPlace] = ()
        self.reason = "no replica has answered yet"
        self.is_ready = False

    @property
    def is_fit(self) -> bool:
        """Whether a replica may still answer; Ray starts replicas anew."""
        return self._fault is None

    def start(self) -> None:
        """Ask a replica for the model, and then again and again."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def first_outcome(self) -> str | None:
        """Wait for the first description: None once it is there, the reason if there is none."""
        while not self.is_ready and self._fault is None:
            await self._change()
        return self._fault

    async def until_down(self) -> None:
        """Wait while a replica answers."""
        while self.is_ready:
            await self._change()

    async def _change(self) -> None:
        # `set` wakes every task that waits, and each looks for itself.
        self._changed.clear()
        await self._changed.wait()

    async def _watch(self) -> None:
        while self._fault is None:
            await self._ask()
            await asyncio.sleep(self._ping_seconds)

    async def _ask(self) -> None:
        # The first answer may take as long as a download.
        limit = self._answer_seconds if self.info is not None else None
        try:
            async with asyncio.timeout(limit):
                found = await self._replicas.describe(self._name)
        except TimeoutError:
            self._note(f"no replica has answered for {self._answer_seconds:g} s")
            return
        except ReplicaLostError as error:
            # Another one may be there: only silence counts as the loss of all.
            if time.monotonic() - self._answered_at > self._answer_seconds:
                self._note(f"no replica answers: {error}")
            return
        except Exception as error:  # a fault of the program; another replica may not have it
            _log.exception("a replica cannot describe model %s", self._name)
            self._note(f"a replica fails: {type(error).__name__}: {error}".splitlines()[0])
            return
        self._answered_at = time.monotonic()
        match found:
            case ModelDescription(info, places):
                self.info, self.slots, self.is_ready, self.reason = info, places, True, ""
                self._changed.set()
            case LoadFault(reason) if self.info is None:
                self._fault = reason
                self._note(reason)
            case LoadFault(reason):
                self._note(reason)
            case ServiceError():
                self._note(found.detail)

    def _note(self, reason: str) -> None:
        self.is_ready, self.reason = False, reason
        self._changed.set()
