"""Bodies of requests: from bytes to what can be queued or kept, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from elmo_serve.errors import (
    SHOWN_CHARACTERS,
    FieldError,
    InvalidRequest,
    MalformedBody,
    TooLarge,
    pointer,
    shown,
)
from elmo_serve.http.schemas import TASK_NAME_RULE, EmbedRequest, Mix, TaskBody
from elmo_serve.output import Dtype, Pooling

_MOST_FAULTS: Final = 20

_Body = TypeVar("_Body", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may hold."""

    sentences: int
    sentence_tokens: int


@dataclass(frozen=True, slots=True)
class Options:
    """What is wanted of the sentences: a task, a mix, or, where both are None, the layers."""

    layers: Literal["all", "top", "average"] | list[int]
    task: str | None
    mix: Mix | None
    pooling: Pooling
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request whose sentences are JSON texts of their own; ``options`` has the rest."""

    options: Options
    sentences: list[bytes]
    lengths: list[int]


def parse(body: bytes | memoryview, limits: RequestLimits) -> Parsed:
    """Read the body of POST /embed.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; the faults are pointed to.
        TooLarge: it holds more sentences, or a longer one, than is allowed.
    """
    request = _read(EmbedRequest, body)
    _check(request.sentences, limits)
    given = request.model_fields_set
    exclusive = [name for name in ("layers", "task", "mix") if name in given]
    if len(exclusive) > 1:
        raise InvalidRequest(
            f"At most one of layers, task and mix is allowed; found {' and '.join(exclusive)}.",
            errors=[FieldError(pointer(name), "not beside the others") for name in exclusive],
        )
    return Parsed(
        Options(request.layers, request.task, request.mix, request.pooling, request.dtype),
        [orjson.dumps(sentence) for sentence in request.sentences],
        [len(sentence) for sentence in request.sentences],
    )


def parse_task(body: bytes) -> TaskBody:
    """Read the body of PUT /tasks/{name}.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; the faults are pointed to.
    """
    return _read(TaskBody, body)


def _read(model: type[_Body], body: bytes | memoryview) -> _Body:
    try:
        return model.model_validate_json(bytes(body))
    except ValidationError as error:
        raise _refusal(model, error.errors(include_url=False)) from None


def _refusal(model: type[BaseModel], faults: list[ErrorDetails]) -> MalformedBody | InvalidRequest:
    if faults[0]["type"] == "json_invalid":
        return MalformedBody(f"The body is not JSON: {faults[0]['ctx']['error']}.")
    errors = [_field_error(model, fault) for fault in faults[:_MOST_FAULTS] if not _is_aside(fault)]
    more = f" (the first {_MOST_FAULTS} are listed)" if len(faults) > _MOST_FAULTS else ""
    first = f"{errors[0].pointer or 'the body'}: {errors[0].detail}"
    return InvalidRequest(f"{first}{more}", errors=errors)


def _is_aside(fault: ErrorDetails) -> bool:
    """Say whether a fault is of the branch of `layers` that the client did not mean."""
    if fault["loc"][:1] != ("layers",):
        return False
    is_list = isinstance(fault["input"], list)
    return (fault["type"] == "literal_error" and is_list) or (
        fault["type"] == "list_type" and len(fault["loc"]) == 2
    )


def _field_error(model: type[BaseModel], fault: ErrorDetails) -> FieldError:
    """Map a fault of pydantic's to its place and to words that name the value and the good ones."""
    place = fault["loc"]
    if place[0:1] == ("layers",):
        # The second part names a branch of the union, not a place in the body.
        place = (place[0], *place[2:])
    text = _wanted(model, fault, place)
    if fault["type"] == "extra_forbidden" and len(str(place[-1])) > SHOWN_CHARACTERS:
        # A pointer cannot be cut: it points to the object that has the long name.
        text, place = f"{shown(place[-1])} {text}", place[:-1]
    given = "" if fault["type"] in ("missing", "too_short") else f"; found {_given(fault['input'])}"
    return FieldError(pointer(*place), text + given)


def _wanted(model: type[BaseModel], fault: ErrorDetails, place: tuple[int | str, ...]) -> str:
    if fault["type"] == "extra_forbidden":
        known = Mix if len(place) > 1 else model
        return f"is no field; there are {', '.join(known.model_fields)}"
    if fault["type"] == "literal_error" and place == ("layers",):
        return "must be 'all', 'top', 'average' or a list of layer numbers"
    return _WORDS.get(fault["type"], "is not allowed").format(**fault.get("ctx", {}))


_WORDS: Final = {
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge:g}",
    "int_parsing_size": "must be the number of a layer",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le:g}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "missing": "is required",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "string_pattern_mismatch": f"must be {TASK_NAME_RULE}",
    "string_too_long": "must have at most {max_length} characters",
    "string_type": "must be a string",
    "string_unicode": "must be a string of Unicode characters",
    "too_long": "must have at most {max_length} numbers",
    "too_short": "must not be empty",
}


def _given(value: Any) -> str:
    """Return a client's value as JSON spells it, short."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return orjson.dumps(value).decode()
    return shown(value)


def _check(sentences: list[list[str]], limits: RequestLimits) -> None:
    if len(sentences) > limits.sentences:
        raise TooLarge(
            f"The request holds {len(sentences)} sentences and at most {limits.sentences} are "
            "allowed (ELMO_MAX_REQUEST_SENTENCES)."
        )
    for index, sentence in enumerate(sentences):
        if len(sentence) > limits.sentence_tokens:
            detail = (
                f"Sentence {index} holds {len(sentence)} tokens and at most "
                f"{limits.sentence_tokens} are allowed (ELMO_MAX_SENTENCE_TOKENS)."
            )
            raise TooLarge(detail, errors=[FieldError(pointer("sentences", index), detail)])
