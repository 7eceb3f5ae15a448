"""The service on Ray Serve: replicas of the application of `elmo serve` on many machines.

    serve run elmo_serve.distributed.ray_serve:app model=english max_replicas=3

One deployment makes the Ray application. Ray places its replicas, sends each request to one of
them, starts lost ones anew and scales them: see docs/deploy.md.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import ray
from ray import serve
from ray.serve.config import RequestRouterConfig
from starlette.types import ASGIApp

from elmo_model.files.system_calls import let_threads_sleep
from elmo_serve import logs
from elmo_serve.distributed.autoscaling import QueuedTokens
from elmo_serve.distributed.ray_options import RayOptions, parse
from elmo_serve.distributed.replica import Replica, on_this_machine
from elmo_serve.distributed.routing import AnyReplica
from elmo_serve.http.wiring import assemble
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import VISIBLE, Hardware

DEPLOYMENT: Final = "Embeddings"

_ONGOING_REQUESTS: Final = 10_000
"""Requests that Ray Serve gives to one replica at a time. Each replica has a queue of its own that
refuses what has no room, so this only has to be larger than what fits that queue."""

_METRICS_SECONDS: Final = 2.0
"""Seconds between two reports of a replica's tokens. Raising it starts replicas later."""

_LOGGING: Final = {"enable_access_log": False}
"""The application has an access log of its own; Ray's costs as much as a small request."""


def app(arguments: Mapping[str, object]) -> serve.Application:
    """Return the application for `serve run` and for the configuration file of `serve deploy`.

    Raises:
        SettingsError: an argument or a variable is not allowed.
    """
    settings, options = parse(arguments, os.environ)
    deployment = serve.deployment(
        serve.ingress()(RayReplica),
        name=DEPLOYMENT,
        max_ongoing_requests=_ONGOING_REQUESTS,
        logging_config=_LOGGING,
        ray_actor_options={"num_cpus": options.cpus, "num_gpus": options.gpus},
        graceful_shutdown_timeout_s=settings.drain_timeout_seconds + 10,
        **_routing(),
        **_replicas(options),
    )
    return deployment.bind(settings)


def _routing() -> dict[str, Any]:
    """Return the router of requests. Ray's HAProxy has its own, and refuses another one."""
    if os.environ.get("RAY_SERVE_ENABLE_HA_PROXY") == "1":
        return {}
    return {"request_router_config": RequestRouterConfig(request_router_class=AnyReplica)}


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
            "metrics_interval_s": _METRICS_SECONDS,
            "look_back_period_s": 3 * _METRICS_SECONDS,
            "policy": policy,
        }
    }


class RayReplica(Replica):
    """A replica that has the devices and the CPUs of its actor."""

    # Ray Serve awaits it, which Python itself does not.
    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]
        let_threads_sleep(os.environ)
        logs.configure(settings.log_level, settings.log_format)
        cpus = ray.get_runtime_context().get_assigned_resources().get("CPU", 1.0)
        cores = max(1, int(cpus))
        # Ray shows an actor its own GPUs alone, by this variable.
        hardware = replace(Hardware.here(os.environ.get(VISIBLE)), cores=cores)
        here = await asyncio.to_thread(on_this_machine, settings, cores)
        super().__init__(assemble(here, hardware=hardware, environment=os.environ))

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the application: Ray Serve calls it inside the replica."""
        return self.application()
