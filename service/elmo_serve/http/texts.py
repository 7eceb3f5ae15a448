"""The texts of a body are split into tokens by other processes, within the server's limits.

Tokenizers are Python code that takes up to 10 microseconds a character and holds the GIL: in a
thread of the server they would starve its event loop.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from elmo_model.text.tokenizers import TokenizeError, tokenizer
from elmo_serve.errors import FieldError, InvalidRequest, TooLarge
from elmo_serve.http.body import Parsed, RequestT, TokenizedTexts
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.processes.parts import in_order, runs
from elmo_serve.scheduling.request import cost_of

if TYPE_CHECKING:
    from elmo_serve.workers.messages import ModelInfo

_PART_CHARACTERS: Final = 1 << 12
"""Characters of a call: 40 ms of the slowest tokenizer. A larger value makes others wait longer, a
smaller one costs more messages."""

_TEXT_CHARACTERS: Final = 16
"""Added for each text: an empty one takes time as well."""

_UNUSED: Final = ("scipy", "sklearn")
"""Libraries that NLTK imports where they are installed, for parts that no tokenizer uses. Without
them the first text takes 0.5 s of processor time in place of 1.5 s, and the process 60 MB in place
of 210."""


@dataclass(frozen=True, slots=True)
class Tokenize:
    """The task to split some texts into at most `max_tokens` tokens each."""

    texts: tuple[str, ...]
    tokenizer: str
    language: str
    max_tokens: int

    @classmethod
    def of(cls, model: ModelInfo, name: str | None, max_tokens: int) -> Self:
        """Return the task of no text yet: tokenizer `name`, by default that of the model."""
        return cls((), name or model.tokenizer, model.language, max_tokens)


@dataclass(frozen=True, slots=True)
class TextRefused:
    """A text of a task cannot be split; `too_long` tells that it has too many tokens."""

    index: int
    detail: str
    too_long: bool = False


async def tokenize(
    helpers: HelperPool, client: str, task: Tokenize, body: Parsed[RequestT], most_tokens: int
) -> TokenizedTexts:
    """Return the tokens of the texts of a body, which `task` splits in `helpers`.

    `client` is whose texts they are, and `most_tokens` the limit of all, boundaries included.

    Raises:
        InvalidRequest: the tokenizer cannot split a text.
        TooLarge: there are too many tokens.
        Unavailable: a text takes too long, or no process can be started.
    """
    texts = body.texts
    found = TokenizedTexts()
    parts = runs((len(text) + _TEXT_CHARACTERS for text in texts), _PART_CHARACTERS)
    await in_order(
        (
            helpers.run(
                split_texts, replace(task, texts=tuple(texts[part])), client=client, is_slow=True
            )
            for part in parts
        ),
        lambda part: _add(found, part, most_tokens, body.member.pointer),
    )
    return found


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


def split_texts(task: Tokenize) -> TokenizedTexts | TextRefused:
    """Return the tokens of all texts of a task, or the first text that cannot be split."""
    if multiprocessing.parent_process() is not None:  # a process that does nothing else
        for unused in _UNUSED:
            sys.modules.setdefault(unused, None)  # type: ignore[arg-type]  # None: no such module
    split, texts = tokenizer(task.tokenizer, task.language), TokenizedTexts()
    for index, text in enumerate(task.texts):
        # Tokens never span white space: a text with too many words is refused without the work.
        if len(text) > 2 * task.max_tokens and len(text.split()) > task.max_tokens:
            return _too_long(index, len(text.split()), task.max_tokens, "words")
        try:
            found = split(text)
        except TokenizeError as error:
            return TextRefused(index, str(error))
        if len(found.tokens) > task.max_tokens:
            return _too_long(index, len(found.tokens), task.max_tokens, "tokens")
        texts.add(found)
    return texts


def _too_long(index: int, found: int, allowed: int, unit: str) -> TextRefused:
    detail = f"holds {found} {unit} and at most {allowed} tokens are allowed"
    return TextRefused(index, detail, too_long=True)


def check_each_has_tokens(body: Parsed[RequestT], texts: TokenizedTexts) -> None:
    """Raise InvalidRequest for a text or a list without tokens: it has no vector."""
    for index, length in enumerate(texts.lengths):
        if not length:
            detail = "holds no token, expected one or more"
            raise InvalidRequest.of(FieldError(body.member.pointer(index), detail))
