"""Text in a request: split into tokens by other processes, within the limits of the server."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from elmo_model.tokenizers import TOKENIZERS
from elmo_serve.errors import FieldError, InvalidRequest, TooLarge, shown
from elmo_serve.http.helpers.text_pool import Side, TextRefused, Tokenize, TokenizedTexts
from elmo_serve.http.request.parsing import check_texts, text_pointer
from elmo_serve.http.state import Server
from elmo_serve.scheduling.request import cost_of
from elmo_serve.token_warnings import TokenWarnings
from elmo_serve.workers.messages import ModelInfo

_PART_CHARACTERS: Final = 1 << 12
"""Characters of a task: 40 ms of the slowest tokenizer. A larger value makes others wait longer, a
smaller one costs more messages."""

_TASKS_AHEAD: Final = 4
"""Tasks of one request that are in the queue at once; the others wait outside of it."""


async def tokenize(
    server: Server,
    texts: Sequence[str],
    tokenizer: str | None = None,
    *,
    model: ModelInfo | None = None,
    pointer_of: Callable[[int], str] = text_pointer,
    truncate: Side | None = None,
) -> TokenizedTexts:
    """Split texts into tokens outside of the event loop.

    Args:
        server: the server, for its limits and its processes.
        texts: one string a sentence; an empty one has no tokens.
        tokenizer: a name of `elmo_model.tokenizers`; None means the one of the model.
        model: the model that the tokens are for; None means the default model.
        pointer_of: the JSON pointer of text i in the request, for errors.
        truncate: the side that a text with too many tokens is cut from; None refuses it.

    Raises:
        InvalidRequest: there is no such tokenizer, or a text that it cannot split.
        TooLarge: there are too many texts or tokens, or a text is too long.
        Unavailable: no process can be started, or the model is not loaded.
    """
    model = model or server.info
    name = tokenizer or model.tokenizer
    check_tokenizer(name)
    limits = server.request_limits
    check_texts(texts, limits, pointer_of)
    found = TokenizedTexts()
    pending: deque[asyncio.Future[TokenizedTexts | TextRefused]] = deque()
    parts = _parts(texts)
    try:
        while True:
            for part in parts:
                task = Tokenize(
                    tuple(part),
                    name,
                    model.language,
                    limits.sentence_tokens,
                    model.token_limit,
                    truncate,
                )
                pending.append(asyncio.ensure_future(server.text_workers.tokenize(task)))
                if len(pending) == _TASKS_AHEAD:
                    break
            if not pending:
                return found
            _add(found, await pending.popleft(), server.settings.max_queue_tokens, pointer_of)
    finally:
        for unfinished in pending:
            unfinished.cancel()


def text_warnings(warnings: TokenWarnings) -> list[FieldError]:
    """Return the warnings that are listed, each with a pointer to its text."""
    return [
        FieldError(text_pointer(each.sentence), f"token {each.token}, {each.detail}")
        for each in warnings.listed
    ]


def check_tokenizer(name: str, at: str = "/tokenizer") -> None:
    """Check the name of a tokenizer.

    Raises:
        InvalidRequest: there is none of this name.
    """
    if name not in TOKENIZERS:
        detail = f"must be one of {', '.join(TOKENIZERS)}; found {shown(name)}"
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


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut texts into runs of about the same number of characters."""
    start, size = 0, 0
    for index, text in enumerate(texts):
        size += len(text) + 16  # an empty text takes time as well
        if size >= _PART_CHARACTERS:
            yield texts[start : index + 1]
            start, size = index + 1, 0
    if start < len(texts):
        yield texts[start:]
