"""The bodies of POST /embed and POST /tokenize, parsed in the server or in a JSON worker."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from elmo_serve.errors import FieldError, InvalidRequest, TooLarge, pointer
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.http.schemas.text import TokenizeRequest
from elmo_serve.output import Dtype, LayerName, Pooling
from elmo_serve.task_schema import Mix, TaskBody
from elmo_serve.token_warnings import BILM_TOKEN_LIMIT, TokenLimit, TokenWarnings
from elmo_serve.validation import validated, without_nulls

MAX_TOKEN_CHARACTERS: Final = 64
"""Longest text, in characters for each token that a sentence may have. Words have 5 on average and
48 bytes of one reach the network. A larger value lets one text keep a process busy for longer."""

_EITHER: Final = ("sentences", "text")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Largest number of sentences of a request, and of tokens of a sentence.

    `token_limits` are the lengths of a token that reach the network, by each name that requests may
    give the model, casefolded; None is the first one.
    """

    sentences: int
    sentence_tokens: int
    token_limits: Mapping[str | None, TokenLimit | None] = field(default_factory=dict)

    def token_limit(self, model: str | None) -> TokenLimit | None:
        """Return the length of a token that reaches the network of a model."""
        name = None if model is None else model.casefold()
        return self.token_limits.get(name, BILM_TOKEN_LIMIT)


@dataclass(frozen=True, slots=True)
class Options:
    """The output a request asks for: a task, a mix, or, where both are None, the layers.

    `model` is the name of the model; None for the first one. `word_vectors` asks for static word
    vectors behind those of the tokens.
    """

    model: str | None
    layers: LayerName | list[int]
    task: str | None
    mix: Mix | None
    pooling: Pooling
    dtype: Dtype
    normalize: bool
    word_vectors: bool = False


@dataclass(frozen=True, slots=True)
class TextRequest:
    """Texts to split; `tokenizer` and `model` are None where the request does not name them."""

    texts: list[str]
    tokenizer: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed request; `sentences` are the JSON texts of its lists of tokens.

    A request with `text` has sentences only after it was split, and then `offsets`, the JSON texts
    of lists of [start, end].
    """

    options: Options
    sentences: list[bytes]
    lengths: list[int]
    warnings: TokenWarnings
    text: TextRequest | None = None
    offsets: Sequence[bytes] = ()


def parse(body: bytes | memoryview, limits: RequestLimits) -> Parsed:
    """Parse the body of `POST /embed`.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to each fault.
        TooLarge: it holds more sentences, or a longer sentence, than `limits` allows.
    """
    request = validated(EmbedRequest, without_nulls(body))
    given = _given(request)
    text = _text(request, given, limits) if given & {"text", "tokenizer"} else None
    if text is None:
        if "sentences" not in given:
            raise InvalidRequest(
                "Either `sentences`, lists of tokens, or `text`, strings, is required.",
                errors=[FieldError(pointer("sentences"), "is required, or `text`")],
            )
        _check(request.sentences, limits)
    refuse_rivals(given)
    return Parsed(
        Options(
            request.model,
            request.layers,
            request.task,
            request.mix,
            request.pooling,
            request.dtype,
            request.normalize,
            request.word_vectors is not None,
        ),
        [orjson.dumps(sentence) for sentence in request.sentences],
        [len(sentence) for sentence in request.sentences],
        _warnings(request.sentences, limits.token_limit(request.model)),
        text,
    )


def refuse_rivals(given: Collection[str]) -> None:
    """Raise InvalidRequest for a request with more than one of layers, task and mix.

    `given` are the names of its fields.
    """
    exclusive = [name for name in ("layers", "task", "mix") if name in given]
    if len(exclusive) > 1:
        raise InvalidRequest(
            f"At most one of layers, task and mix is allowed; found {' and '.join(exclusive)}.",
            errors=[FieldError(pointer(name), "excludes the others") for name in exclusive],
        )


def parse_tokenize(body: bytes | memoryview, limits: RequestLimits) -> TextRequest:
    """Parse the body of `POST /tokenize`.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to each fault.
        TooLarge: see `check_texts`.
    """
    request = validated(TokenizeRequest, without_nulls(body))
    check_texts(request.text, limits)
    return TextRequest(request.text, request.tokenizer, request.model)


def text_pointer(index: int) -> str:
    """Return the JSON pointer of a text in `{"text": [...]}`."""
    return pointer("text", index)


def check_texts(
    texts: Sequence[str],
    limits: RequestLimits,
    pointer_of: Callable[[int], str] = text_pointer,
) -> None:
    """Check the number of texts and their lengths.

    Raises:
        TooLarge: there are more texts than `limits` allows, or one has more characters.
    """
    if len(texts) > limits.sentences:
        raise TooLarge(
            f"The request holds {len(texts)} texts and at most {limits.sentences} are allowed "
            "(ELMO_MAX_REQUEST_SENTENCES)."
        )
    longest = MAX_TOKEN_CHARACTERS * limits.sentence_tokens
    for index, text in enumerate(texts):
        if len(text) > longest:
            detail = (
                f"Text {index} has {len(text)} characters and at most {longest} are allowed: "
                f"{MAX_TOKEN_CHARACTERS} for each token of a sentence (ELMO_MAX_SENTENCE_TOKENS)."
            )
            raise TooLarge(detail, errors=[FieldError(pointer_of(index), detail)])


def _given(request: EmbedRequest) -> set[str]:
    """Return the fields of a request; an empty list beside the other one counts as left out."""
    given = set(request.model_fields_set)
    if given.issuperset(_EITHER):
        if not request.text:
            given.discard("text")
        elif not request.sentences:
            given.discard("sentences")
    return given


def _text(request: EmbedRequest, given: set[str], limits: RequestLimits) -> TextRequest:
    """Return the text of a request that has `text` or `tokenizer` among its fields."""
    if "text" not in given:
        raise InvalidRequest(
            "`tokenizer` splits `text`; `sentences` are lists of tokens already.",
            errors=[FieldError(pointer("tokenizer"), "goes with `text`")],
        )
    if "sentences" in given:
        raise InvalidRequest(
            "Either `sentences` or `text` is allowed; found both.",
            errors=[FieldError(pointer(name), "excludes the other") for name in _EITHER],
        )
    check_texts(request.text, limits)
    return TextRequest(request.text, request.tokenizer, request.model)


def _warnings(sentences: list[list[str]], limit: TokenLimit | None) -> TokenWarnings:
    warnings = TokenWarnings()
    for index, sentence in enumerate(sentences):
        warnings.check(index, sentence, limit)
    return warnings


def parse_task(body: bytes) -> TaskBody:
    """Parse the body of `PUT /tasks/{name}`.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to each fault.
    """
    return validated(TaskBody, body)


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
