"""The OpenAPI document: FastAPI's, with the bodies of plain routes, errors and API keys."""

from collections.abc import Iterator
from typing import Any, Final, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from elmo_serve.http.api_keys import is_open
from elmo_serve.http.error_responses import MEDIA_TYPE, OPENAI, Problem
from elmo_serve.http.schemas.embed import InputRequest
from elmo_serve.http.schemas.openai import OpenAIErrorResponse

DESCRIPTION: Final = """\
ELMo word vectors over HTTP: each token gets a vector that depends on its sentence.

Send tokenised sentences, or text with the name of a tokenizer, to `POST /embed`; choose layers, a \
registered task or your own mix of the layers. JSON is the default response; `Accept` chooses npz \
or safetensors, which are smaller and faster. Errors are problem documents (RFC 9457), below `/v1` \
errors of OpenAI; the status and `type` of a problem name the error."""

TAGS: Final = {
    "Vectors": "Tokenised sentences or text in, ELMo vectors out.",
    "Language model": "Probabilities of words: surprisal of tokens, and substitutes.",
    "Tasks": "Named scalar mixes of the layers, read from files of the server.",
    "OpenAI": "The routes of OpenAI's API that its clients use for embeddings.",
    "Server": "The model, the limits in force, probes and metrics.",
}
"""The groups of operations. Each router names its own, and each route its `operation_id`: the name
of a method in generated clients, such as `client.getTask`."""

_SCHEMA: Final = "#/components/schemas/{model}"

_Model = tuple[type[BaseModel], Literal["validation", "serialization"]]


def describe(app: FastAPI, *, needs_key: bool) -> None:
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
    paths = str(document["paths"])
    requests: list[_Model] = [
        (model, "validation")
        for model in _bodies(InputRequest)
        if repr(_SCHEMA.format(model=model.__name__)) in paths
    ]
    errors: list[_Model] = [(model, "serialization") for model in (Problem, OpenAIErrorResponse)]
    _, definitions = models_json_schema([*requests, *errors], ref_template=_SCHEMA)
    components = document["components"]
    components["schemas"].update(definitions["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    if needs_key:  # else generated clients would ask their users for a key
        description = "One of the server's API keys; `X-API-Key` may have it too."
        scheme = {"type": "http", "scheme": "bearer", "description": description}
        components["securitySchemes"] = {"ApiKey": scheme}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_errors(path, operation["responses"])
            if needs_key and not is_open(method.upper(), path):
                operation["security"] = [{"ApiKey": []}]
    return document


def _bodies(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield all classes below `kind`."""
    for each in kind.__subclasses__():
        yield each
        yield from _bodies(each)


def _add_errors(path: str, responses: dict[str, Any]) -> None:
    """Describe the errors of a route by one `default` response."""
    # FastAPI adds a 422 of its own form to every path with a parameter: ours is a problem.
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    is_openai = path.startswith(OPENAI)
    model = OpenAIErrorResponse if is_openai else Problem
    schema = {"$ref": _SCHEMA.format(model=model.__name__)}
    media_type = "application/json" if is_openai else MEDIA_TYPE
    responses["default"] = {"description": "An error.", "content": {media_type: {"schema": schema}}}
