"""The application: routes and middleware around the parts of a server, and its OpenAPI document.

The document is FastAPI's, completed with what FastAPI cannot know. Code generators read it: it
avoids `oneOf`, `not` and `default` inside `anyOf`, names its operations plainly and tags them.
`python -m elmo_serve.http.app > docs/openapi.json` writes it.
"""

import asyncio
import copy
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Literal

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import TaggedUnionSchema
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from elmo_serve.errors import Forbidden
from elmo_serve.http.calls.parse import PARSED_BODIES
from elmo_serve.http.error_responses import Problem, documented
from elmo_serve.http.middleware.context import RequestContext
from elmo_serve.http.middleware.request_checks import (
    RequestChecks,
    check_head,
    connection_check,
    host_check,
    origin_check,
)
from elmo_serve.http.readiness import VERSION
from elmo_serve.http.routes import (
    embed,
    info,
    language,
    monitoring,
    openai,
    page,
    similarity,
    tasks,
)
from elmo_serve.http.schemas.clients import OpenAIErrorResponse
from elmo_serve.http.schemas.embed import EmbedResponse, TokenizeResponse
from elmo_serve.http.schemas.language import ScoreResponse
from elmo_serve.http.state import Server, assemble
from elmo_serve.settings import Settings
from elmo_serve.tasks.schema import TaskBody

_EXPOSED_HEADERS: Final = (
    "Location",
    "Retry-After",
    "Server-Timing",
    "traceresponse",
    "X-Request-Id",
    "X-Unknown-Share",
    "X-Vocabulary",
    "X-Warnings",
)
"""Response headers that a script of another origin may read, beyond those of every response."""

DESCRIPTION: Final = """\
ELMo word vectors over HTTP: each token gets a vector that depends on its sentence.

Send tokenised sentences, or text with the name of a tokenizer, to `POST /embed`; choose layers, a \
registered task or your own mix of the layers. JSON is the default response; `Accept` chooses npz \
or safetensors, which are smaller and faster. Errors are problem documents (RFC 9457)."""

TAGS: Final = {
    "Vectors": "Tokenised sentences or text in, ELMo vectors out.",
    "Language model": "Probabilities of words: surprisal of tokens, and substitutes.",
    "Tasks": "Named scalar mixes of the layers, kept by the server.",
    "OpenAI": "The routes of OpenAI's API that its clients use for embeddings.",
    "Server": "The model, the limits in force, probes and metrics.",
}
"""The groups of operations. Each router names its own, and each route its `operation_id`: the name
of a method in generated clients, such as `client.getTask`."""

_REQUESTS: Final[Sequence[type[BaseModel]]] = (*PARSED_BODIES, TaskBody)
_RESPONSES: Final[Sequence[type[BaseModel]]] = (
    *(EmbedResponse, ScoreResponse, TokenizeResponse, Problem, OpenAIErrorResponse),
)
"""Bodies that a route names by their schemas alone."""

_Model = tuple[type[BaseModel], Literal["validation", "serialization"]]


def create_app(server: Server, *, is_local: bool = False) -> FastAPI:
    """Return the application; its lifespan starts and stops the processes of `server`.

    With `is_local` this machine alone reaches it, so that names of other hosts in `Host` are
    refused where there are no keys.
    """
    routers = (
        openai.embeddings_router,
        embed.router,
        language.router,
        embed.tokenize_router,
        *(each.router for each in (tasks, similarity, openai, info, monitoring, page)),
    )
    routes = [each for router in routers for route in router.routes for each in _with_head(route)]
    app = _Application(
        title="elmo-serve",
        summary="ELMo vectors over HTTP",
        version=VERSION,
        lifespan=_lifespan(server),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        # FastAPI would look for an OpenTelemetry provider in each request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        middleware=_middleware(server, routes, is_local=is_local),
        # Given here and not by `include_router`, which matches each request twice.
        routes=routes,
    )
    routes[:] = app.routes  # /openapi.json as well, which FastAPI adds: requests count under it
    app.state.server = server
    _describe(app, needs_key=bool(server.keys))
    return app


def _with_head(route: BaseRoute) -> list[BaseRoute]:
    """Return a route and, if it takes GET, the same one for HEAD, which the document leaves out.

    The server sends no body with it.
    """
    if not isinstance(route, APIRoute) or "GET" not in (route.methods or ()):
        return [route]
    head = copy.copy(route)
    head.methods, head.include_in_schema = {"HEAD"}, False
    return [route, head]


class _Application(FastAPI):
    """FastAPI without its own handlers of exceptions, because `RequestChecks` handles every one.

    Three layers around the router, which never see an exception, take 10 us of a small request
    (`benchmarks.over_http --echo`).
    """

    def build_middleware_stack(self) -> ASGIApp:
        """Return the router inside the layers of `_middleware`."""
        # FastAPI's routes need the stack: it closes files of forms.
        app: ASGIApp = AsyncExitStackMiddleware(self.router)
        for layer in reversed(self.user_middleware):
            app = layer.cls(app, *layer.args, **layer.kwargs)
        return app


def _middleware(server: Server, routes: list[BaseRoute], *, is_local: bool) -> list[Middleware]:
    """Return the layers around every route, from the outermost inwards."""
    settings = server.settings
    keys = server.keys
    checks = (
        check_head,
        *([host_check(settings.cors_origins)] if is_local and not keys else ()),
        origin_check(settings.cors_origins, compares_hosts=not keys),
        connection_check(settings.max_connections),
        *([keys.check] if keys else ()),
        server.load_shedder.check,
    )
    return [
        Middleware(RequestContext, metrics=server.metrics, routes=routes, tracer=server.tracer),
        *_cross_origin(settings.cors_origins),
        Middleware(RequestChecks, checks=checks),
    ]


def _cross_origin(origins: tuple[str, ...]) -> list[Middleware]:
    """Return the layer that lets pages of other origins read responses, errors as well.

    It answers preflights itself, so that they need no API key: a browser sends none with them.
    """
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "DELETE"),
            allow_headers=("*",),
            expose_headers=_EXPOSED_HEADERS,
        )
    ]


def _lifespan(server: Server) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server.engine.start()
        server.helpers.start()
        server.keys.start()
        work = (server.readiness.open(), server.trim_memory())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await server.close()

    return lifespan


class _AnyOf(GenerateJsonSchema):
    """Describes unions with tags as those without: by `anyOf`."""

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> JsonSchemaValue:
        choices = schema["choices"].values()
        return self.get_union_of_schemas([self.generate_inner(choice) for choice in choices])


def _describe(app: FastAPI, *, needs_key: bool) -> None:
    """Let `/openapi.json` show the contract. Call it when all routes are in place.

    The document is made here and not on request: that takes longer than a request may hold the
    event loop.
    """
    document = _document(app, needs_key)
    app.openapi = lambda: document  # type: ignore[method-assign]  # FastAPI documents this way


def _document(app: FastAPI, needs_key: bool) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        routes=app.routes,
    )
    read: list[_Model] = [(model, "validation") for model in _REQUESTS]
    written: list[_Model] = [(model, "serialization") for model in _RESPONSES]
    _, definitions = models_json_schema(
        [*read, *written],
        ref_template="#/components/schemas/{model}",
        schema_generator=_AnyOf,
    )
    document["components"]["schemas"].update(definitions["$defs"])
    _complete(document, needs_key)
    return document


def _complete(document: dict[str, Any], needs_key: bool) -> None:
    """Correct the responses of every operation, and declare where an API key is needed.

    A server without keys declares none: generated clients would ask their users for one.
    """
    for unused in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(unused, None)
    if needs_key:
        document["components"]["securitySchemes"] = {
            "ApiKey": {
                "type": "http",
                "scheme": "bearer",
                "description": "One of the server's API keys; `X-API-Key` may have it too.",
            }
        }
    (forbidden,) = documented((Forbidden,)).values()
    operations = [each for path in document["paths"].values() for each in path.values()]
    for operation in operations:
        responses = operation["responses"]
        # FastAPI adds a 422 of its own to every path with a parameter: it never occurs.
        if "HTTPValidationError" in str(responses.get("422")):
            del responses["422"]
        # The 403 of the checks of `Host` and `Origin`, in the form of the 401.
        content = responses.get("401", forbidden)["content"]
        responses[str(Forbidden.status)] = {**forbidden, "content": content}
        if needs_key and "401" in responses:
            operation["security"] = [{"ApiKey": []}]


if __name__ == "__main__":
    json.dump(create_app(assemble(Settings())).openapi(), sys.stdout, indent=2, ensure_ascii=False)
    print()
