"""Replicas of an engine that answer, fail or wait as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
import orjson

from elmo_serve.distributed.messages import (
    EmbedAnswer,
    EmbedCall,
    LoadFault,
    ModelDescription,
    ModelPlace,
)
from elmo_serve.distributed.remote_workers import ReplicaLostError
from elmo_serve.errors import ServiceError
from tests.support.gated_worker import DIMENSION, INFO, mark

DESCRIPTION = ModelDescription(INFO, [ModelPlace("cpu", 64)])

Answer = Callable[[EmbedCall], Awaitable[EmbedAnswer | ServiceError]]


@dataclass
class ScriptedReplicas:
    """Each call of `embed` gets the next of `answers`, the last one again and again.

    `describes` likewise: a description, a fault, an error, or an event to wait for.
    """

    answers: list[Answer]
    describes: list[ModelDescription | LoadFault | ServiceError | asyncio.Event | Exception] = (
        field(default_factory=lambda: [DESCRIPTION])
    )
    calls: list[EmbedCall] = field(default_factory=list)
    cancelled: int = 0

    async def describe(self, _model: str) -> ModelDescription | LoadFault | ServiceError:
        found = self.describes.pop(0) if len(self.describes) > 1 else self.describes[0]
        if isinstance(found, asyncio.Event):
            await found.wait()
            return DESCRIPTION
        if isinstance(found, ServiceError | ModelDescription | LoadFault):
            return found
        raise found

    async def embed(self, call: EmbedCall) -> EmbedAnswer | ServiceError:
        self.calls.append(call)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            return await answer(call)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def right(call: EmbedCall) -> EmbedAnswer:
    """Answer each sentence with the number of its text."""
    arrays = [
        np.full(
            call.output.shape(len(orjson.loads(sentence)), DIMENSION),
            mark(sentence),
            call.output.dtype,
        )
        for sentence in call.sentences
    ]
    return EmbedAnswer(arrays, [], 0.5, 0.25)


async def lost(_call: EmbedCall) -> EmbedAnswer:
    """End before there is an answer."""
    raise ReplicaLostError("the node is gone")


def failing(error: ServiceError) -> Answer:
    """Return an answer that is this error."""

    async def answer(_call: EmbedCall) -> ServiceError:
        return error

    return answer


async def silent(_call: EmbedCall) -> EmbedAnswer:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
