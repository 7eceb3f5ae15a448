"""Tokens that are accepted and named in the response: cut ones, and those with white space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from elmo_model.errors import shown

MOST_LISTED = 20
"""Warnings that one response lists; it counts all."""


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """The length of a token that reaches the network: bytes of UTF-8, or code points."""

    length: int
    unit: Literal["bytes", "characters"]


BILM_TOKEN_LIMIT = TokenLimit(48, "bytes")
"""The limit of bilm-tf and AllenNLP, which nearly every published model has."""


@dataclass(frozen=True, slots=True)
class TokenWarning:
    """One token that the model reads otherwise than its user may expect."""

    sentence: int
    token: int
    detail: str


@dataclass(slots=True)
class TokenWarnings:
    """The warnings of a request: the first `MOST_LISTED`, and the number of all."""

    listed: list[TokenWarning] = field(default_factory=list)
    count: int = 0

    def check(self, sentence: int, tokens: Sequence[str], limit: TokenLimit | None) -> None:
        """Add the warnings of one sentence; without a limit no token is cut.

        Most sentences have none, which two passes in C tell: a token with white space splits the
        joined tokens, and a token over the limit is longer than a quarter of it in code points.
        """
        joined = "".join(tokens)
        if joined and joined.split(None, 1) != [joined]:
            self._add(sentence, _with_white_space(tokens))
        if limit is None:
            return
        most = limit.length if limit.unit == "characters" or joined.isascii() else limit.length // 4
        if len(joined) > most and max(map(len, tokens)) > most:
            self._add(sentence, _cut(tokens, limit))

    def extend(self, others: TokenWarnings, numbers: Sequence[int]) -> None:
        """Add the warnings of other sentences; `numbers[i]` is the number here of sentence i."""
        for other in others.listed[: MOST_LISTED - len(self.listed)]:
            self.listed.append(replace(other, sentence=numbers[other.sentence]))
        self.count += others.count

    def _add(self, sentence: int, found: Iterable[tuple[int, str]]) -> None:
        for token, detail in found:
            self.count += 1
            if len(self.listed) < MOST_LISTED:
                self.listed.append(TokenWarning(sentence, token, detail))


def _with_white_space(tokens: Sequence[str]) -> Iterable[tuple[int, str]]:
    for index, token in enumerate(tokens):
        if token and token.split(None, 1) != [token]:
            yield index, f"{shown(token)} has white space inside and is one token"


def _cut(tokens: Sequence[str], limit: TokenLimit) -> Iterable[tuple[int, str]]:
    for index, token in enumerate(tokens):
        if limit.unit == "characters":
            length, unit = len(token), "characters"
        else:
            length, unit = len(token.encode("utf-8", "ignore")), "bytes of UTF-8"
        if length > limit.length:
            yield (
                index,
                f"{shown(token)} has {length} {unit}; the model reads the first {limit.length}",
            )
