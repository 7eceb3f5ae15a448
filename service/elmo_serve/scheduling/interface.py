"""The interface of an engine and of a model's workers, as the routes and the jobs use them."""

from collections.abc import Collection, Sequence
from typing import Protocol

from elmo_serve.output import Output
from elmo_serve.scheduling.admission import Admission
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.workers.messages import ModelInfo


class WorkerPlace(Protocol):
    """A place for one worker: its device, and its largest batch in padded tokens."""

    @property
    def device(self) -> str: ...

    @property
    def budget(self) -> int: ...


class ModelWorkers(Protocol):
    """The workers of one model: a `WorkerPool`, or replicas on other machines."""

    @property
    def info(self) -> ModelInfo | None:
        """The description of the model, once a worker has loaded it."""

    @property
    def is_ready(self) -> bool:
        """Whether a worker can answer."""

    @property
    def is_fit(self) -> bool:
        """Whether a worker may still recover without a restart of this process."""

    @property
    def reason(self) -> str:
        """Why no worker is ready."""

    @property
    def slots(self) -> Sequence[WorkerPlace]: ...

    async def first_outcome(self) -> str | None:
        """Wait for the first start: None once a worker is ready, the reason when none can be."""

    async def stop(self) -> None:
        """Let every worker end."""


class EmbeddingEngine(Protocol):
    """An `Engine`, or replicas of it on other machines; see `Engine` for each method."""

    admission: Admission

    @property
    def models(self) -> Collection[str]:
        """The names of the models."""

    def pool_of(self, model: str) -> ModelWorkers:
        """Return the workers of a model."""

    def start(self) -> None:
        """Start the workers."""

    async def stop(self) -> None:
        """Let every worker end."""

    async def drain(self, timeout_seconds: float) -> bool:
        """Admit nothing more and wait; return whether all that was admitted was sent in time."""

    def why_not(self, model: str | None = None) -> str | None:
        """Return the reason why no request to a model can be answered now; None when it can."""

    async def embed(
        self,
        sentences: Sequence[bytes],
        lengths: Sequence[int],
        output: Output,
        timeout_seconds: float,
        client: str = "",
        model: str | None = None,
        *,
        is_bulk: bool = False,
    ) -> Embedded:
        """Compute the vectors of all sentences, or of none."""
