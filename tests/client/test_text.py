"""Text through both clients: tokens, offsets and vectors, of any number of texts."""

from typing import Any

import pandas as pd
import pytest

from elmo_client import (
    BadAnswer,
    CannotSend,
    Client,
    TokenizedText,
)
from elmo_model.network.elmo import ElmoNetwork
from tests.support.scripted_server import ScriptedServer
from tests.support.servers import Running
from tests.support.vectors import all_close, close, layers_of

TEXTS = ["The bank can't lend.", "", "Zürich 東京 👩\u200d👩\u200d👧!"]


def test_text_has_the_vectors_of_its_tokens(sdk: Client, elmo: ElmoNetwork) -> None:
    found = sdk.embed_text(TEXTS, tokenizer="ptb")

    assert [each.text for each in found] == TEXTS
    assert found[0].tokens == ("The", "bank", "ca", "n't", "lend", ".")
    expected = layers_of(elmo, [each.tokens for each in found])
    all_close([each.vectors for each in found], expected)
    for each in found:
        slices = tuple(each.text[start:end] for start, end in each.offsets)
        assert slices == each.tokens


def test_the_options_are_those_of_embed(sdk: Client) -> None:
    options: dict[str, Any] = {"layers": "concat", "pooling": "mean", "dtype": "float16"}
    (text,) = sdk.embed_text(["two tokens"], **options)
    (tokens,) = sdk.embed([["two", "tokens"]], **options)

    close(text.vectors, tokens, "float16")


def test_more_texts_than_fit_into_a_request_keep_their_order(narrow_sdk: Client) -> None:
    texts = [f"{number} a" for number in range(20)]

    found = list(narrow_sdk.stream_text(iter(texts), tokenizer="whitespace", layers="top"))
    assert [each.text for each in found] == texts
    assert [each.tokens for each in found] == [tuple(text.split()) for text in texts]
    assert [each.tokens for each in narrow_sdk.tokenize(texts)] == [each.tokens for each in found]


def test_tokens_alone(sdk: Client) -> None:
    assert sdk.tokenize(["I can't."], tokenizer="ptb") == [
        TokenizedText("I can't.", ("I", "ca", "n't", "."), ((0, 1), (2, 4), (4, 7), (7, 8)))
    ]
    assert sdk.tokenize([]) == []


def test_mistakes_are_refused_before_they_are_sent(sdk: Client) -> None:
    table = pd.DataFrame({"text": ["The bank."]})
    slips: list[tuple[Any, Any, str]] = [
        (sdk.embed_text, "The bank.", "expected a list of strings"),
        (sdk.embed_text, 3, "texts is 3; expected a list of strings"),
        (sdk.embed_text, table, "texts is a DataFrame; .* such as one column"),
        (sdk.embed_text, [["The", "bank"]], "text 0 is .*; expected a string"),
        (
            sdk.score,
            table,
            "sentences is a DataFrame; expected a list of texts, or of lists of tok",
        ),
        (sdk.tokenize, ["a", "\ud800"], "text 1 cannot be written as JSON"),
    ]
    for call, given, message in slips:
        with pytest.raises(CannotSend, match=message) as caught:
            call(given)
        assert type(caught.value) is CannotSend


def test_the_width_and_the_models_of_a_server(client_class: Any, server: Running) -> None:
    with Client(server.url) as client:
        assert client.dimension == 32
        assert client.models == ("small",)
    with client_class(server.url, model="small") as client:
        (vectors,) = client.embed([["a"]], layers="top")
        assert vectors.shape == (1, 32)
        assert client.tasks() is not None


def test_a_response_without_tokens_is_no_answer(scripted: ScriptedServer) -> None:
    with Client(scripted.url) as client, pytest.raises(BadAnswer, match="no tokens or offsets"):
        client.embed_text(["1"])
