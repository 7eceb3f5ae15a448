"""The OpenAPI document: FastAPI's, completed with what FastAPI cannot know.

Code generators read it: it avoids `oneOf`, `not` and `default` inside `anyOf`, names its operations
plainly and tags them.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import TaggedUnionSchema

from elmo_serve.errors import Forbidden
from elmo_serve.http.calls.parse import PARSED_BODIES
from elmo_serve.http.error_responses import Problem, documented
from elmo_serve.http.schemas.clients import OpenAIErrorResponse
from elmo_serve.http.schemas.embed import EmbedResponse, TokenizeResponse
from elmo_serve.http.schemas.language import ScoreResponse
from elmo_serve.tasks.schema import TaskBody

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


class _AnyOf(GenerateJsonSchema):
    """Describes unions with tags as those without: by `anyOf`."""

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> JsonSchemaValue:
        choices = schema["choices"].values()
        return self.get_union_of_schemas([self.generate_inner(choice) for choice in choices])


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
