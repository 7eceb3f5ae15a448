"""The models of one server, looked up by name."""

import logging
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from elmo_model.errors import shown
from elmo_model.network.description import Centre
from elmo_serve.errors import Unavailable, UnknownModel
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.http.schemas.neighbours import NeighboursRequest
from elmo_serve.scheduling.engine import Engine
from elmo_serve.selection import LayerName, Output, mixture, select
from elmo_serve.tasks import TaskFolder, TaskOwner
from elmo_serve.uses import ModelUses
from elmo_serve.workers.messages import ModelInfo

ModelState = Literal["loading", "ready", "down", "failed"]

_RETRY_SECONDS: Final = 1.0
_FAILED_RETRY_SECONDS: Final = 60.0
"""Retry-After of requests to a model that failed to load: it is tried again rarely."""

_LOADING: Final = "the model is loading"
_DOWN: Final = "the model has lost its workers, which are being replaced"
_FAILED: Final = "the model could not be loaded; GET /info and the log have the reason"

_log = logging.getLogger("elmo_serve")


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of a model, and why no request to it can be answered now; None when it can.

    `loading` is before the first start has ended, `failed` when that start failed for good. Later a
    model is `ready` while a worker can answer, and `down` while none can. `reason` may have paths,
    `public` has none.
    """

    state: ModelState
    public: str | None
    reason: str | None


class ServedModel:
    """One model: its workers, its index of uses and, once loaded, its description and its tasks.

    `fault` says why it could not be loaded; it is tried again now and then.
    """

    def __init__(
        self, name: str, engine: Engine, uses: ModelUses, *, is_first: bool = True
    ) -> None:
        self.name = name
        self.pool = engine.pool_of(name)
        self.uses = uses
        self.fault: str | None = None
        self._engine = engine
        self._is_first = is_first
        self._tasks: TaskFolder | None = None

    @property
    def info(self) -> ModelInfo:
        """The description of the model; raises Unavailable while it is not loaded."""
        if self.pool.info is None:
            raise self.unavailable()
        return self.pool.info

    @property
    def centre(self) -> Centre:
        """The mean of each layer over a text; raises Unavailable while the model is not loaded."""
        if self.info.centre is None:
            raise self.unavailable()
        return self.uses.centre

    @property
    def tasks(self) -> TaskFolder:
        """The tasks of the server; raises Unavailable while the model is not loaded."""
        if self._tasks is None:
            raise self.unavailable()
        return self._tasks

    @property
    def owner(self) -> TaskOwner:
        """The model as the owner of tasks; raises Unavailable while it is not loaded."""
        info = self.info
        return TaskOwner(info.layers, self.name, info.name, info.revision, self._is_first)

    @property
    def condition(self) -> Condition:
        """The state of the model now."""
        reason = self._engine.unavailable_reason(self.name)
        if self.fault is not None:
            return Condition("failed", _FAILED, self.fault)
        if self._tasks is None:
            return Condition("loading", _LOADING, reason or "the tasks are being read")
        if not self.pool.is_ready:
            return Condition("down", _DOWN, reason)
        return Condition("ready", reason, reason)  # a server that drains answers none

    @property
    def can_recover(self) -> bool:
        """Tell whether the model may answer again without a restart of the server."""
        return self.fault is None and self.pool.can_recover

    def output(self, asked: EmbedRequest | NeighboursRequest, default: LayerName) -> Output:
        """Return the output of the layers, the task or the mix of a request, or of `default`.

        Raises SelectionError for layers or a mix of another model, UnknownTask.
        """
        if asked.task is not None:
            return mixture(self.tasks.get(asked.task, self.owner), self.info.layers)
        if asked.mix is not None:
            return mixture(asked.mix, self.info.layers)
        return select(default if asked.layers is None else asked.layers, self.info.layers)

    async def open(self, tasks: Awaitable[TaskFolder]) -> None:
        """Wait for the first worker, then for the tasks of the server.

        Sets `fault` when no worker can be started. Raises what `tasks` raises.
        """
        self.fault = await self.pool.wait_for_start()
        if self.fault is None:
            self._tasks = await tasks

    def close(self) -> None:
        """End the work for the index."""
        self.uses.close()

    def unavailable(self, reason: str | None = None) -> Unavailable:
        """Return the error of a request to the model: `reason`, or else the public one."""
        seconds = _RETRY_SECONDS if self.fault is None else _FAILED_RETRY_SECONDS
        why = reason or self.condition.public
        return Unavailable(f"{self.name!r} is not ready: {why}.", retry_after=seconds)


class ServedModels:
    """All models of a server, in the order of the settings, and the limits of one request."""

    def __init__(self, models: Iterable[ServedModel], limits: RequestLimits) -> None:
        self.request_limits = limits
        self._models = tuple(models)
        self._by_name = {model.name.casefold(): model for model in self._models}

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    @property
    def first(self) -> ServedModel:
        """The model that answers requests which name none."""
        return self._models[0]

    def get(self, name: str | None) -> ServedModel:
        """Return the model of this name, in any case; the first one for None.

        The name that a checkpoint has for itself, once it is loaded, is also found. Raises
        UnknownModel, which lists the names.
        """
        if name is None:
            return self.first
        model = self._by_name.get(name.casefold())
        if model is not None:
            return model
        for model in self._models:
            if model.pool.info is not None and model.pool.info.name.casefold() == name.casefold():
                return model
        names = ", ".join(repr(model.name) for model in self._models)
        verb = "is" if len(self._models) == 1 else "are"
        raise UnknownModel(f"No model {shown(name)}; there {verb} {names}")
