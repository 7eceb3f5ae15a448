"""Tokens that a model reads otherwise than their user may expect are warned of, once a call."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmo_client import AsyncClient, Client, ElmoEmbedder, TokenWarning
from tests.support.servers import Running

ODD = [["fine"], ["a b c"], ["d e", "f g"]]
LONG = "x" * 60
LONG_TEXT = f"token 0, '{LONG}' has 60 bytes of UTF-8; the model reads the first 48"
SPACED = "'a b c' has white space inside and is one token"
PHRASE = f"sentence 1: {SPACED}; for text, use embed_text (and 2 more in this request)"

CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "embed": (lambda client: client.embed(ODD, layers="top"), PHRASE),
    "stream": (lambda client: list(client.stream(ODD)), PHRASE),
    "embed_text": (
        lambda client: client.embed_text(["a", LONG]),
        f"text 1: {LONG_TEXT}",
    ),
    "tokenize": (lambda client: client.tokenize(["a", LONG]), f"text 1: {LONG_TEXT}"),
    "neighbours": (
        lambda client: client.neighbours(["a", "a b c"], 0),
        f"/tokens/1: {SPACED}",
    ),
}


def warned(call: Callable[[], Any]) -> tuple[str, str]:
    """Return the only warning of a call, and the file that it names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (found,) = caught
    assert found.category is TokenWarning
    return str(found.message), found.filename


@pytest.mark.parametrize("name", CALLS)
def test_a_client_warns_at_the_line_that_calls_it(server: Running, name: str) -> None:
    call, message = CALLS[name]

    with Client(server.url) as client:
        assert warned(lambda: call(client)) == (message, __file__)


def test_an_async_client_warns_likewise(server: Running) -> None:
    async def embed() -> None:
        async with AsyncClient(server.url) as client:
            await client.embed(ODD)

    assert warned(lambda: asyncio.run(embed())) == (PHRASE, __file__)


def test_an_embedder_warns_likewise(server: Running, tmp_path: Path) -> None:
    with ElmoEmbedder(server.url) as embedder:
        assert warned(lambda: embedder.embed_batch(ODD)) == (PHRASE, __file__)


def test_a_call_of_many_requests_warns_once(narrow_sdk: Client) -> None:
    message, _ = warned(lambda: narrow_sdk.embed([["a"], *[["b c"]] * 20]))

    assert message.startswith("sentence 1: 'b c' has white space")


def test_sentences_without_odd_tokens_are_silent(sdk: Client) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sdk.embed([["a", "b"], [], [""]])
        sdk.embed_text(["a b"])
