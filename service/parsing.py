"""The body of POST /embed: from bytes to sentences that can be queued, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.errors import FieldError, InvalidRequest, MalformedBody, TooLarge, pointer, shown
from service.schemas import EmbedRequest

_MOST_FAULTS = 20


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may hold."""

    sentences: int
    sentence_tokens: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request whose sentences are JSON texts of their own; ``options`` has the rest."""

    options: EmbedRequest
    sentences: list[bytes]
    lengths: list[int]


def parse(body: bytes | memoryview, limits: RequestLimits) -> Parsed:
    """Read a body.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; every fault is pointed to.
        TooLarge: it holds more sentences, or a longer one, than is allowed.
    """
    try:
        request = EmbedRequest.model_validate_json(bytes(body))
    except ValidationError as error:
        raise _refusal(error) from None
    _check(request.sentences, limits)
    given = request.model_fields_set
    exclusive = [name for name in ("layers", "task", "mix") if name in given]
    if len(exclusive) > 1:
        raise InvalidRequest(
            f"At most one of layers, task and mix is allowed; found {' and '.join(exclusive)}.",
            errors=[FieldError(pointer(name), "not beside the others") for name in exclusive],
        )
    return Parsed(
        request.model_copy(update={"sentences": []}),
        [orjson.dumps(sentence) for sentence in request.sentences],
        [len(sentence) for sentence in request.sentences],
    )


def field_errors(faults: list[ErrorDetails]) -> list[FieldError]:
    """Map pydantic's faults to pointers and texts that name the value."""
    found: dict[str, str] = {}
    for fault in faults[:_MOST_FAULTS]:
        parts = [part for part in fault["loc"] if not _is_branch(part)]
        place = pointer(*parts)
        value = fault["input"]
        given = f"; found {shown(value)}" if isinstance(value, str | int | float | None) else ""
        text = fault["msg"] + (given if fault["type"] != "missing" else "")
        found[place] = f"{found[place]}, or: {text}" if place in found else text
    return [FieldError(place, text) for place, text in found.items()]


def _refusal(error: ValidationError) -> MalformedBody | InvalidRequest:
    faults = error.errors(include_url=False)
    if faults[0]["type"] == "json_invalid":
        return MalformedBody(f"The body is not JSON: {faults[0]['ctx']['error']}.")
    errors = field_errors(faults)
    more = f" (the first {_MOST_FAULTS} are listed)" if len(faults) > _MOST_FAULTS else ""
    first = f"{errors[0].pointer or 'the body'}: {errors[0].detail}"
    return InvalidRequest(f"{first}{more}", errors=errors)


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


def _is_branch(part: str | int) -> bool:
    """Say whether a part of pydantic's path names a branch of a union, not a place in the body."""
    return isinstance(part, str) and ("[" in part or part == "list")
