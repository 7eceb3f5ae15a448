"""The tokens of a body: its texts are split by other processes, within the server's limits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from elmo_model.errors import counted, shown
from elmo_serve.errors import FieldError, InvalidRequest, TooLarge
from elmo_serve.http.parse import Parsed, RequestT
from elmo_serve.http.splitting import (
    TextRefused,
    Tokenize,
    TokenizedTexts,
    split_texts,
)
from elmo_serve.http.state import Server
from elmo_serve.processes.parts import in_order, runs
from elmo_serve.scheduling.request import cost_of
from elmo_serve.workers.messages import ModelInfo

_PART_CHARACTERS: Final = 1 << 12
"""Characters of a call: 40 ms of the slowest tokenizer. A larger value makes others wait longer, a
smaller one costs more messages."""

_TEXT_CHARACTERS: Final = 16
"""Added for each text: an empty one takes time as well."""


async def tokenize(
    server: Server,
    client: str,
    model: ModelInfo,
    body: Parsed[RequestT],
    *,
    tokenizer: str | None = None,
) -> TokenizedTexts:
    """Return the tokens of a body; its texts are split outside of the event loop.

    Args:
        server: the server, for its limits and its processes.
        client: whose texts they are.
        model: the model that the tokens are for.
        body: the parsed body.
        tokenizer: a name of `elmo_model.text.tokenizers`; None means the one of the model.

    Raises:
        InvalidRequest: the tokenizer cannot split a text.
        TooLarge: there are too many tokens.
        Unavailable: a text takes too long, or no process can be started.
    """
    texts = [item for item in body.sentences if isinstance(item, str)]
    if not texts:
        lists = [item for item in body.sentences if not isinstance(item, str)]
        return TokenizedTexts(lists, body.lengths)
    task = Tokenize(
        (),
        tokenizer or model.tokenizer,
        model.language,
        server.models.request_limits.sentence_tokens,
    )
    return await _split(server, client, task, texts, body.pointer)


async def _split(
    server: Server,
    client: str,
    task: Tokenize,
    texts: Sequence[str],
    pointer_of: Callable[[int], str],
) -> TokenizedTexts:
    """Split texts as `task` says, a few parts at once; `pointer_of` is for errors."""
    found = TokenizedTexts()
    most_tokens = server.settings.max_queue_tokens
    parts = runs((len(text) + _TEXT_CHARACTERS for text in texts), _PART_CHARACTERS)
    await in_order(
        (
            server.helpers.run(
                split_texts, replace(task, texts=tuple(texts[part])), client=client, is_slow=True
            )
            for part in parts
        ),
        lambda part: _add(found, part, most_tokens, pointer_of),
    )
    return found


def check_each_has_tokens(body: Parsed[RequestT], texts: TokenizedTexts) -> None:
    """Raise InvalidRequest for a text or a list without tokens: it has no vector."""
    for index, length in enumerate(texts.lengths):
        if not length:
            detail = "holds no token, expected one or more"
            raise InvalidRequest.of(FieldError(body.pointer(index), detail))


def check_dimensions(wanted: int | None, width: int) -> None:
    """Raise InvalidRequest for vectors of another width than the model's own.

    Clients send the size that their vector store was made for.
    """
    if wanted is not None and wanted != width:
        detail = (
            f"must be {width}, the width of the model, or left out: parts of an ELMo vector are no "
            f"vector of their own; found {wanted}"
        )
        raise InvalidRequest.of(FieldError("/dimensions", detail))


def check_token(token: int | None, length: int, at: str) -> None:
    """Raise InvalidRequest for the number of a token that a sentence of `length` does not have."""
    if token is not None and token >= length:
        detail = (
            f"there is no token {shown(token)}; found {counted(length, 'token')}, numbered from 0"
        )
        raise InvalidRequest.of(FieldError(at, detail))


def _add(
    found: TokenizedTexts,
    part: TokenizedTexts | TextRefused,
    most_tokens: int,
    pointer_of: Callable[[int], str],
) -> None:
    """Append the next part; raise an error where one of its texts, or the sum, is refused."""
    if isinstance(part, TextRefused):
        index = len(found.sentences) + part.index
        fault = FieldError(pointer_of(index), part.detail)
        if part.too_long:
            setting = "(ELMO_MAX_SENTENCE_TOKENS)"
            raise TooLarge(f"Text {index} {part.detail} {setting}.", errors=[fault])
        raise InvalidRequest.of(fault)
    found.extend(part)
    if cost_of(found.lengths) > most_tokens:
        raise TooLarge(
            f"The texts hold more than {most_tokens} tokens, boundaries included "
            "(ELMO_MAX_QUEUE_TOKENS)."
        )
