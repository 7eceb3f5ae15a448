"""Split texts into tokens in other processes.

Tokenizers are Python code that takes up to 10 microseconds a character and holds the GIL: in a
thread of the server they would starve its event loop.
"""

from __future__ import annotations

import multiprocessing
import sys
from dataclasses import dataclass, field
from typing import Final

import orjson

from elmo_model.text.tokenizers import Tokenized, TokenizeError, tokenizer

_UNUSED: Final = ("scipy", "sklearn")
"""Libraries that NLTK imports where they are installed, for parts that no tokenizer uses. Without
them the first text takes 0.5 s of processor time in place of 1.5 s, and the process 60 MB in place
of 210."""


@dataclass(frozen=True, slots=True)
class Tokenize:
    """The task to split some texts.

    `max_tokens` is the limit for each text.
    """

    texts: tuple[str, ...]
    tokenizer: str
    language: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """The tokens of some texts, in their order.

    `sentences` are the JSON texts of lists of tokens, as `Engine.embed` takes them; `lengths` their
    numbers of tokens. `offsets` are the JSON texts of lists of [start, end], in code points.
    """

    sentences: list[bytes] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    offsets: list[bytes] = field(default_factory=list)

    def add(self, found: Tokenized) -> None:
        """Append one text."""
        self.sentences.append(orjson.dumps(found.tokens))
        self.lengths.append(len(found.tokens))
        self.offsets.append(orjson.dumps(found.offsets))

    def extend(self, others: TokenizedTexts) -> None:
        """Append later texts."""
        self.sentences.extend(others.sentences)
        self.lengths.extend(others.lengths)
        self.offsets.extend(others.offsets)


@dataclass(frozen=True, slots=True)
class TextRefused:
    """A text of a task cannot be split; `too_long` tells that it has too many tokens."""

    index: int
    detail: str
    too_long: bool = False


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
