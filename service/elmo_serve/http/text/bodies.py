"""Request bodies of the routes that take text as other servers do, of /similarity, /neighbours.

JSON workers import this module: it needs no web framework.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import orjson

from elmo_serve.errors import FieldError, InvalidRequest, MalformedBody, TooLarge, pointer, shown
from elmo_serve.http.helpers.text_pool import Side
from elmo_serve.http.request.parsing import RequestLimits, refuse_rivals
from elmo_serve.http.schemas.neighbours import NeighboursRequest
from elmo_serve.validation import spelled, validated, without_nulls

Form = Literal["/v1/embeddings", "/tei/embed", "/similarity", "/neighbours"]
"""The form of a body, called by a route that takes it."""

TOKEN_IDS: Final = (
    "holds token ids, and this model has none: its tokens are strings. Send texts, or lists of "
    "token strings. LangChain sends ids unless `check_embedding_ctx_length=False`"
)


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """The options of POST /v1/embeddings."""

    model: str | None
    is_base64: bool
    dimensions: int | None


@dataclass(frozen=True, slots=True)
class TeiOptions:
    """The options of POST /tei/embed: `truncate` is the side that a long text is cut from."""

    normalize: bool
    truncate: Side | None
    dimensions: int | None


@dataclass(frozen=True, slots=True)
class SimilarityOptions:
    """The options of POST /similarity: `places` are token numbers, None for a whole sentence."""

    model: str | None
    tokenizer: str | None
    centred: bool
    places: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TextBody:
    """A parsed body: `sentences[i]` is a text in UTF-8, or the JSON text of a list of tokens.

    `lengths` has the number of tokens of each sentence, None for a text. `pointers` say where each
    sentence is in the body.
    """

    options: OpenAIOptions | TeiOptions | SimilarityOptions | NeighboursRequest
    sentences: list[bytes]
    lengths: list[int | None]
    pointers: list[str]


def check_dimensions(wanted: int | None, width: int) -> None:
    """Check that vectors of the model's own width are wanted, or of none in particular.

    Clients send the size that their vector store was made for.

    Raises:
        InvalidRequest: they are to have another width.
    """
    if wanted is not None and wanted != width:
        raise _invalid(
            "/dimensions",
            f"must be {width}, the width of the model, or left out: parts of an ELMo vector are no "
            f"vector of their own; found {wanted}",
        )


def parse(body: bytes | memoryview, limits: RequestLimits, form: Form) -> TextBody:
    """Parse a body of a form.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: a field is missing or has a wrong value; `errors` points to the first.
        TooLarge: it holds more sentences, or a longer list of tokens, than `limits` allows.
    """
    if form == "/neighbours":
        return _neighbours(validated(NeighboursRequest, without_nulls(body)), limits)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedBody(f"The body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise _invalid("", f"must be an object; found {spelled(value)}")
    return _PARSERS[form](value, limits)


def _parse_openai(body: Mapping[str, Any], limits: RequestLimits) -> TextBody:
    encoding = _choice(body, "encoding_format", ("float", "base64"), "float")
    model = _optional_string(body, "model")
    return _texts(
        body, "input", limits, OpenAIOptions(model, encoding == "base64", _dimensions(body))
    )


def _parse_tei(body: Mapping[str, Any], limits: RequestLimits) -> TextBody:
    truncate = _flag(body, "truncate", default=False)
    side: Side = _choice(body, "truncation_direction", ("right", "left"), "right")
    normalize = _flag(body, "normalize", default=True)
    options = TeiOptions(normalize, side if truncate else None, _dimensions(body))
    return _texts(body, "inputs", limits, options)


def _parse_similarity(body: Mapping[str, Any], limits: RequestLimits) -> TextBody:
    _only(body, ("pairs", "model", "tokenizer", "centred"), "")
    pairs = body.get("pairs")
    if not isinstance(pairs, list):
        raise _invalid("/pairs", f"must be a list of pairs; found {spelled(pairs)}")
    _check_count(2 * len(pairs), limits)
    places: list[int | None] = []
    sentences: list[bytes] = []
    lengths: list[int | None] = []
    pointers: list[str] = []
    for number, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2:
            raise _invalid(pointer("pairs", number), "must be a list of two places")
        for side, place in enumerate(pair):
            at = pointer("pairs", number, side)
            sentence, length, token = _place(place, at, limits)
            sentences.append(sentence)
            lengths.append(length)
            places.append(token)
            pointers.append(at)
    options = SimilarityOptions(
        _optional_string(body, "model"),
        _optional_string(body, "tokenizer"),
        _flag(body, "centred", default=False),
        tuple(places),
    )
    return TextBody(options, sentences, lengths, pointers)


def _neighbours(request: NeighboursRequest, limits: RequestLimits) -> TextBody:
    given = set(request.model_fields_set)
    if "text" in given and not request.tokens:
        given.discard("tokens")
    if ("text" in given) == ("tokens" in given):
        raise _invalid("", "must have one of text and tokens")
    refuse_rivals(given)
    if "text" in given:
        return TextBody(request, [request.text.encode()], [None], ["/text"])
    if "tokenizer" in given:
        raise _invalid("/tokenizer", "splits `text`; `tokens` are split already")
    if not request.tokens:
        raise _invalid("/tokens", "must not be empty")
    sentence, length = _tokens(request.tokens, "/tokens", limits)
    return TextBody(request, [sentence], [length], ["/tokens"])


_PARSERS: Final[Mapping[Form, Callable[[Mapping[str, Any], RequestLimits], TextBody]]] = {
    "/v1/embeddings": _parse_openai,
    "/tei/embed": _parse_tei,
    "/similarity": _parse_similarity,
}

FORMS: Final = get_args(Form)


def _texts(
    body: Mapping[str, Any],
    name: str,
    limits: RequestLimits,
    options: OpenAIOptions | TeiOptions,
) -> TextBody:
    """Parse the field with one text, a list of texts or, for OpenAI, lists of token strings."""
    given = body.get(name)
    if given is None:
        raise _invalid(pointer(name), "is required")
    if isinstance(given, str):
        return TextBody(options, [given.encode()], [None], [pointer(name)])
    if not isinstance(given, list) or not given:
        raise _invalid(pointer(name), f"must be a text or a list of texts; found {spelled(given)}")
    if isinstance(given[0], int):
        raise _invalid(pointer(name), TOKEN_IDS)
    _check_count(len(given), limits)
    parsed = [_text(each, pointer(name, index), limits) for index, each in enumerate(given)]
    return TextBody(
        options,
        [sentence for sentence, _ in parsed],
        [length for _, length in parsed],
        [pointer(name, index) for index in range(len(given))],
    )


def _text(value: Any, at: str, limits: RequestLimits) -> tuple[bytes, int | None]:
    """Return a text, or a list of tokens with its length."""
    if isinstance(value, str):
        return value.encode(), None
    if isinstance(value, list):
        if value and all(isinstance(token, int) for token in value):
            raise _invalid(at, TOKEN_IDS)
        return _tokens(value, at, limits)
    raise _invalid(at, f"must be a text; found {spelled(value)}")


def _tokens(value: list[Any], at: str, limits: RequestLimits) -> tuple[bytes, int]:
    for index, token in enumerate(value):
        if not isinstance(token, str):
            raise _invalid(f"{at}/{index}", f"must be a string; found {spelled(token)}")
    if len(value) > limits.sentence_tokens:
        detail = (
            f"holds {len(value)} tokens and at most {limits.sentence_tokens} are allowed "
            "(ELMO_MAX_SENTENCE_TOKENS)"
        )
        raise TooLarge(f"{at}: {detail}", errors=[FieldError(at, detail)])
    return orjson.dumps(value), len(value)


def _place(value: Any, at: str, limits: RequestLimits) -> tuple[bytes, int | None, int | None]:
    """Return a sentence of a pair, its length and the number of the token to compare."""
    if not isinstance(value, dict):
        raise _invalid(at, f"must be an object with text or tokens; found {spelled(value)}")
    _only(value, ("text", "tokens", "token"), at)
    if ("text" in value) == ("tokens" in value):
        raise _invalid(at, "must have one of text and tokens")
    token = _whole(value.get("token"))
    if token is not None and (isinstance(token, bool) or not isinstance(token, int) or token < 0):
        raise _invalid(
            f"{at}/token", f"must be a whole number of at least 0; found {spelled(token)}"
        )
    if "text" in value:
        if not isinstance(value["text"], str):
            raise _invalid(f"{at}/text", f"must be a string; found {spelled(value['text'])}")
        return value["text"].encode(), None, token
    if not isinstance(value["tokens"], list):
        raise _invalid(f"{at}/tokens", f"must be a list; found {spelled(value['tokens'])}")
    return *_tokens(value["tokens"], f"{at}/tokens", limits), token


def _check_count(count: int, limits: RequestLimits) -> None:
    if count > limits.sentences:
        raise TooLarge(
            f"The request holds {count} sentences and at most {limits.sentences} are allowed "
            "(ELMO_MAX_REQUEST_SENTENCES)."
        )


def _only(value: Mapping[str, Any], known: Sequence[str], at: str) -> None:
    for name in value:
        if name not in known:
            detail = f"{shown(name)} is no field; there are {', '.join(known)}"
            raise _invalid(at, detail)


def _flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _invalid(pointer(name), f"must be true or false; found {spelled(value)}")
    return value


def _choice(body: Mapping[str, Any], name: str, values: Sequence[Any], default: Any) -> Any:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or value.lower() not in values:
        known = " or ".join(map(repr, values))
        raise _invalid(pointer(name), f"must be {known}; found {spelled(value)}")
    return value.lower()


def _dimensions(body: Mapping[str, Any]) -> int | None:
    value = _whole(body.get("dimensions"))
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _invalid("/dimensions", f"must be a whole number; found {spelled(value)}")
    return value


def _whole(value: Any) -> Any:
    """Return a float without a fraction as an integer: JSON has one type of numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _optional_string(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise _invalid(pointer(name), f"must be a string; found {spelled(value)}")
    return value


def _invalid(at: str, detail: str) -> InvalidRequest:
    return InvalidRequest.of(FieldError(at, detail))
