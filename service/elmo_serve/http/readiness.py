"""Whether a server can answer: it waits for its models, and says why it is not ready."""

import asyncio
import importlib.metadata
import logging
from collections.abc import Awaitable
from typing import Final

from elmo_serve.http.models import ServedModel, ServedModels
from elmo_serve.metrics import Metrics
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.settings import Settings, SettingsError, variable
from elmo_serve.tasks import TaskFolder
from elmo_serve.uses import Indexes, check_indexes

VERSION: Final = importlib.metadata.version("elmo-serve")

_TASKS_SECONDS: Final = 10.0
"""Seconds that the start waits for the task folder, which may be on a network file system."""

_log = logging.getLogger("elmo_serve")


class Readiness:
    """Opens the models of a server, and knows whether one of them can answer.

    Attributes:
        opened: set once each model has been loaded or has failed.
        reason: why it cannot; the text may have paths. None as long as it can.
    """

    def __init__(
        self,
        settings: Settings,
        models: ServedModels,
        indexes: Indexes,
        tasks: TaskFolder,
        helpers: HelperPool,
        metrics: Metrics,
    ) -> None:
        self.opened = asyncio.Event()
        self.reason: str | None = None
        self._settings = settings
        self._models = models
        self._indexes = indexes
        self._tasks = tasks
        self._helpers = helpers
        self._metrics = metrics
        self._late: set[asyncio.Task[None]] = set()  # that wait for models which failed at first

    @property
    def public_reason(self) -> str | None:
        """Why the server is not ready, without paths; None when it is.

        It is ready once each model has been loaded or has failed, while one of them can answer and
        a helper process can be started.
        """
        if self.reason is not None:
            return "it cannot serve; the log has the reason"
        if self._helpers.fault is not None:
            return "no helper process can be started; the log has the reason"
        found = {model.name: model.condition for model in self._models}
        is_loading = any(each.state == "loading" for each in found.values())
        if not is_loading and any(each.public is None for each in found.values()):
            return None
        reasons = [f"{name}: {each.public}" for name, each in found.items() if each.public]
        return "; ".join(reasons) if len(found) > 1 else next(iter(found.values())).public

    async def open(self) -> None:
        """Wait until each model is loaded or has failed; give a `reason` when all have failed."""
        models = self._models
        try:
            tasks = asyncio.create_task(self._open_tasks())
            await asyncio.gather(tasks, *(self._open(model, tasks) for model in models))
            if all(model.fault is None for model in models):
                check_indexes(self._indexes, {model.name: model.info.revision for model in models})
            if all(model.fault is not None for model in models):
                self.reason = "; ".join(f"{each.name}: {each.fault}" for each in models)
        except SettingsError as error:
            self.reason = str(error)
        except Exception as error:  # the start must not end in silence, whatever went wrong
            _log.exception("unexpected error")
            self.reason = f"{type(error).__name__} at the start"
        if self.reason is not None:
            _log.critical("cannot serve: %s", self.reason)
        self.opened.set()

    def close(self) -> None:
        """Wait for no model any more, and end the watch over the tasks."""
        self._tasks.watch.close()
        for task in self._late:
            task.cancel()

    async def _open_tasks(self) -> TaskFolder:
        """Read the task folder, and watch it from then on. Raises SettingsError."""
        self._tasks.start()
        try:
            await asyncio.wait_for(asyncio.wrap_future(self._tasks.opened), _TASKS_SECONDS)
        except TimeoutError:
            raise SettingsError(
                f"{variable('tasks')}={str(self._tasks.path)!r} does not answer"
            ) from None
        return self._tasks

    async def _open(self, served: ServedModel, tasks: Awaitable[TaskFolder]) -> None:
        await served.open(tasks)
        if served.fault is None:
            served.tasks.add(served.owner)
            self._announce(served)
        elif len(self._models) > 1:
            _log.error("model %s is not served: %s", served.name, served.fault)
            self._late.add(asyncio.create_task(self._open_late(served, tasks)))

    async def _open_late(self, served: ServedModel, tasks: Awaitable[TaskFolder]) -> None:
        """Serve a model that failed at first: its GPU, for one, may be free later."""
        await served.pool.wait_until_ready()
        await self._open(served, tasks)

    def _announce(self, served: ServedModel) -> None:
        model = served.info
        self._metrics.model.labels(served.name).info(
            {
                "name": model.name,
                "revision": model.revision,
                "format": model.format,
                "precision": model.precision,
                "version": VERSION,
            }
        )
        if model.format == "random":
            _log.warning(
                "the model is %s: its weights are random and its vectors mean nothing; "
                "serve a checkpoint in its place",
                served.name,
            )
