"""The service on Ray Serve: the application before replicas of the engine on many machines.

    serve run elmo_serve.distributed.ray_serve:app model=english max_replicas=3

Two deployments make one application. `Http` is the application of `elmo serve` without a model;
`Embeddings` is the engine with its workers. Ray places the replicas of both, starts lost ones anew
and scales `Embeddings`. `Http` runs on the head node by default, so that the loss of another node
breaks no connection: see docs/ray.md.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import ray
from ray import serve
from ray.exceptions import RayError, RayTaskError, TaskCancelledError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve import logs
from elmo_serve.distributed.autoscaling import OUTSTANDING_TOKENS, QueuedTokens
from elmo_serve.distributed.loading import RETRY_SECONDS, LoadError, Loads
from elmo_serve.distributed.messages import EmbedAnswer, EmbedCall, LoadFault, ModelDescription
from elmo_serve.distributed.ray_options import RayOptions, of_environment
from elmo_serve.distributed.remote_engine import RemoteEngine
from elmo_serve.distributed.remote_workers import RemoteWorkers, ReplicaLostError
from elmo_serve.distributed.replica_engine import ReplicaEngine, Share
from elmo_serve.errors import ServiceError, Unavailable
from elmo_serve.http.app import create_app
from elmo_serve.http.wiring import front
from elmo_serve.metrics import Metrics
from elmo_serve.model_cache import with_cache
from elmo_serve.scheduling.admission import Limits
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import VISIBLE, Hardware
from elmo_serve.workers.shared_memory import SharedMemoryPool

HTTP: Final = "Http"
EMBEDDINGS: Final = "Embeddings"

_ONGOING_CALLS: Final = 10_000
"""Requests that Ray Serve gives to one replica at a time. Each replica has a queue of its own that
refuses what has no room, so this only has to be larger than what fits that queue."""

_REQUEST_ID: Final = b"x-request-id"

_LOGGING: Final = {"enable_access_log": False}
"""The application has an access log of its own; Ray's costs as much as a small request."""

_HEAD: Final = {"node:__internal_head__": 0.001}
"""Ray's resource of the head node; the number is a share that never runs out."""


def app(arguments: Mapping[str, object]) -> serve.Application:
    """Return the application for `serve run` and for the configuration file of `serve deploy`.

    Raises:
        SettingsError: an argument or a variable is not allowed.
    """
    found = of_environment(arguments)
    settings, options = found.settings, found.options
    embeddings = serve.deployment(
        _replica_class(options.models_per_replica),
        name=EMBEDDINGS,
        max_ongoing_requests=_ONGOING_CALLS,
        logging_config=_LOGGING,
        ray_actor_options={"num_cpus": options.cpus, "num_gpus": options.gpus},
        graceful_shutdown_timeout_s=settings.drain_timeout_seconds + 10,
        **_replicas(options),
    )
    http = serve.deployment(
        serve.ingress(_application(settings, options))(),
        name=HTTP,
        num_replicas=options.http_replicas,
        max_ongoing_requests=_ONGOING_CALLS,
        logging_config=_LOGGING,
        ray_actor_options={"num_cpus": 0, "resources": _HEAD},
        graceful_shutdown_timeout_s=settings.drain_timeout_seconds + 10,
    )
    return http.bind(embeddings.bind(settings))


def _replicas(options: RayOptions) -> dict[str, Any]:
    """Return a fixed number of replicas, or the configuration of the autoscaling."""
    if options.min_replicas == options.max_replicas:
        return {"num_replicas": options.min_replicas}
    policy = {
        "policy_function": QueuedTokens,
        "policy_kwargs": {"tokens_per_replica": options.tokens_per_replica},
    }
    return {
        "autoscaling_config": {
            "min_replicas": options.min_replicas,
            "max_replicas": options.max_replicas,
            "upscale_delay_s": options.upscale_delay_seconds,
            "downscale_delay_s": options.downscale_delay_seconds,
            "metrics_interval_s": options.metrics_seconds,
            "look_back_period_s": 3 * options.metrics_seconds,
            "policy": policy,
        }
    }


class LoadedModel:
    """The engine of a model in a replica. It is stopped once, when Ray Serve unloads the model."""

    def __init__(self, engine: ReplicaEngine, on_unload: Callable[[], None]) -> None:
        self.engine = engine
        self._on_unload = on_unload
        self._loop = asyncio.get_running_loop()
        self._is_unloaded = False
        self._stopping: asyncio.Task[None] | None = None

    def __del__(self) -> None:
        # Ray Serve calls it in a thread, and the garbage collector calls it anywhere.
        if not self._is_unloaded and not self._loop.is_closed():
            self._is_unloaded = True
            self._loop.call_soon_threadsafe(self._unload)

    def _unload(self) -> None:
        self._on_unload()
        self._stopping = self._loop.create_task(self.engine.stop())


class EngineReplica:
    """One replica of the engine, with an engine for each model that it has loaded."""

    # Ray Serve awaits it, which Python itself does not.
    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]
        logs.configure(settings.log_level, settings.log_format)
        self._settings = settings
        self._specs = {spec.name: spec for spec in settings.specs}
        cpus = ray.get_runtime_context().get_assigned_resources().get("CPU", 1.0)
        # Ray shows a replica its own GPUs alone, by this variable.
        hardware = Hardware.here(os.environ.get(VISIBLE))
        self._share = Share(hardware, max(1, int(cpus)))
        self._engines: dict[str, ReplicaEngine] = {}
        self._loads = Loads(self.load)
        # Ray sends requests to a replica once this is done: the model is loaded by then.
        found = await self._loads.get(settings.specs[0].name)
        if isinstance(found, LoadFault) and len(self._specs) == 1:
            raise RuntimeError(found.reason)

    async def load(self, model: str) -> LoadedModel:
        """Load a model; `_replica_class` keeps what this returns. Raises LoadError."""
        engine = await ReplicaEngine.open(self._specs[model], self._settings, self._share)
        if isinstance(engine, LoadFault):
            raise LoadError(engine)
        self._engines[model] = engine
        return LoadedModel(engine, lambda: self._forget(model, engine))

    def _forget(self, model: str, engine: ReplicaEngine) -> None:
        if self._engines.get(model) is engine:
            del self._engines[model]

    async def describe(self, model: str) -> ModelDescription | LoadFault | ServiceError:
        """Load a model, if it is not loaded, and describe it."""
        found = await self._loads.get(model)
        return found if isinstance(found, LoadFault) else found.engine.describe()

    async def embed(self, call: EmbedCall) -> EmbedAnswer | ServiceError:
        """Compute the vectors of all sentences, or of none."""
        found = await self._loads.get(call.model)
        if isinstance(found, LoadFault):
            return Unavailable(f"Not ready: {found.reason}.", retry_after=RETRY_SECONDS)
        return await found.engine.embed(call)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the tokens that wait or run, for `QueuedTokens`."""
        tokens = sum(engine.outstanding_tokens for engine in self._engines.values())
        return {OUTSTANDING_TOKENS: float(tokens)}

    def check_health(self) -> None:
        """Raise RuntimeError when no model can answer again: Ray starts the replica anew."""
        faults = [engine.fault for engine in self._engines.values()]
        if faults and None not in faults:
            raise RuntimeError("; ".join(map(str, faults)))


def _replica_class(models: int) -> type[EngineReplica]:
    """Return a replica that holds at most so many models and unloads the least recently used."""

    class Replica(EngineReplica):
        @serve.multiplexed(max_num_models_per_replica=models)  # type: ignore[untyped-decorator]
        async def load(self, model: str) -> LoadedModel:
            return await EngineReplica.load(self, model)

    return Replica


class RayReplicas:
    """The replicas of `Embeddings`, which Ray Serve chooses from by their ongoing requests."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def describe(self, model: str) -> ModelDescription | LoadFault | ServiceError:
        """See `Replicas.describe`."""
        found: ModelDescription | LoadFault | ServiceError = await _answer(
            self._of(model).describe.remote(model)
        )
        return found

    async def embed(self, call: EmbedCall) -> EmbedAnswer | ServiceError:
        """See `Replicas.embed`."""
        found: EmbedAnswer | ServiceError = await _answer(self._of(call.model).embed.remote(call))
        return found

    def _of(self, model: str) -> DeploymentHandle:
        # Ray Serve prefers replicas that have loaded the model.
        return self._handle.options(multiplexed_model_id=model)


async def _answer(response: Any) -> Any:
    """Wait for a replica.

    Raises:
        ReplicaLostError: it was lost, or its answer was lost on the way.
    """
    try:
        return await response
    except asyncio.CancelledError:
        response.cancel()
        raise
    except RayTaskError:  # an exception inside the replica: a fault of the program
        raise
    except TaskCancelledError as error:
        raise ReplicaLostError("the replica has cancelled the call") from error
    except (RayError, RayServeException) as error:
        raise ReplicaLostError(f"{type(error).__name__}") from error


def _application(settings: Settings, options: RayOptions) -> Callable[[], ASGIApp]:
    """Return a function that makes the application inside a replica of `Http`."""

    def build() -> ASGIApp:
        logs.configure(settings.log_level, settings.log_format)
        own = serve.get_replica_context().app_name
        replicas = RayReplicas(serve.get_deployment_handle(EMBEDDINGS, app_name=own))
        metrics, segments = Metrics(), SharedMemoryPool()
        workers = {spec.name: RemoteWorkers(spec.name, replicas) for spec in settings.specs}
        limits = Limits(
            settings.max_queue_tokens * options.max_replicas,
            settings.max_answer_bytes,
            settings.max_client_tokens,
        )
        engine = RemoteEngine(workers, replicas, segments, limits, metrics)
        here = with_cache(settings)  # the folder of this machine
        return _behind_ray(create_app(front(here, engine, workers, segments, metrics)))

    return build


def _behind_ray(app: ASGIApp) -> ASGIApp:
    """Return an application whose responses fit Ray's own server.

    Bodies are bytes: Ray pickles them, and a memoryview cannot be pickled. Ray adds the request id
    to the response by itself, the same one that it gave to the request.
    """

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        known = [pair for pair in scope.get("headers", ()) if pair[0] == _REQUEST_ID]

        async def send_plain(message: Message) -> None:
            body = message.get("body")
            if isinstance(body, memoryview):
                message = {**message, "body": bytes(body)}
            elif message["type"] == "http.response.start":
                headers = [pair for pair in message["headers"] if tuple(pair) not in known]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, send_plain)

    return wrapped
