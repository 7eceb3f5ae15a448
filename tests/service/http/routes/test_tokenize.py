"""POST /tokenize: the law of offsets for any text, the limits, and the words of its refusals."""

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elmo_model.text.tokenizers import TOKENIZERS
from tests.support.scripts import TEXTS, is_space

ANY_TIME = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def tokenized(client: httpx.Client, *texts: str, **options: Any) -> dict[str, Any]:
    response = client.post("/tokenize", json={"text": texts, **options})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def check(text: str, tokens: list[str], offsets: list[list[int]], tokenizer: str) -> None:
    """Check that every token is its slice of the text, and that only white space is skipped."""
    slices = [text[start:end] for start, end in offsets]
    assert tokens == ([each.upper() for each in slices] if tokenizer == "characters" else slices)
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    for end, start in zip([0, *ends], [*starts, len(text)], strict=True):
        assert all(map(is_space, text[end:start]))


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
@example(texts=["", " \n", "x", "👩\u200d👩\u200d👧", "שלום עולם", "a\x00b"])
@ANY_TIME
def test_offsets_point_at_the_tokens_of_any_text(
    client: httpx.Client, tokenizer: str, texts: list[str]
) -> None:
    response = client.post("/tokenize", json={"text": texts, "tokenizer": tokenizer})
    if response.status_code == 422:
        assert tokenizer in ("ptb", "moses")
        assert "the tokenizer changed" in response.json()["detail"]
        return
    found = response.json()
    assert (response.status_code, found["tokenizer"]) == (200, tokenizer)
    for text, tokens, offsets in zip(texts, found["tokens"], found["offsets"], strict=True):
        check(text, tokens, offsets, tokenizer)


@pytest.mark.parametrize("tokenizer", ["ptb", "moses", "whitespace"])
def test_the_longest_token_that_is_allowed_has_right_offsets(
    client: httpx.Client, tokenizer: str
) -> None:
    text = "é" * 64_000
    found = tokenized(client, text, tokenizer=tokenizer)

    check(text, found["tokens"][0], found["offsets"][0], tokenizer)
