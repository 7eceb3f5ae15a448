"""`score` and `substitutes` of both clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from elmo_client import BadAnswer, CannotSend, Client, RequestRefused
from elmo_client.responses import substitutes_of
from tests.client.both_clients import CLIENTS
from tests.support.servers import Running

SENTENCES = [["the", "of"], [], ["not", "unheard-of", "the"]]


@pytest.mark.parametrize("client_of", CLIENTS)
def test_scores_come_in_order_for_tokens_and_text(client_of: str, scoring: Running) -> None:
    with CLIENTS[client_of](scoring.url) as client:
        found = client.score(SENTENCES)
        texts = client.score(["the of", "not"], tokenizer="whitespace")
        assert client.score([]) == []
    assert [each.tokens for each in found] == [tuple(tokens) for tokens in SENTENCES]
    for each in found:
        assert each.forward.shape == each.backward.shape == (len(each.tokens),)
        np.testing.assert_allclose(each.both, (each.forward + each.backward) / 2, rtol=1e-5)
    assert found[2].unknown.tolist() == [False, True, False]
    assert min(found[1].end) > 0
    assert texts[0].tokens == ("the", "of")
    np.testing.assert_allclose(texts[0].forward, found[0].forward, rtol=1e-4)


@pytest.mark.parametrize("client_of", CLIENTS)
def test_substitutes_come_by_place(client_of: str, scoring: Running) -> None:
    with CLIENTS[client_of](scoring.url) as client:
        tokens = client.substitutes(["the", "of"], [1, 0], k=3, direction="forward")
        text = client.substitutes("the of", [0], tokenizer="whitespace")
        with pytest.raises(RequestRefused, match="there is no token 2"):
            client.substitutes(["the", "of"], [2])
    assert [len(place) for place in tokens] == [3, 3]
    assert [len(place) for place in text] == [10]
    assert all(each.keys() == {"word", "probability"} for each in text[0])


@pytest.mark.parametrize("sentences", [["The bank.", ["a"]], [["a"], "The bank."]])
def test_sentences_are_all_texts_or_all_tokens(scoring: Running, sentences: Any) -> None:
    with Client(scoring.url) as client, pytest.raises(CannotSend, match=r"(text|sentence) 1"):
        client.score(sentences)


def test_answers_of_another_form_are_refused() -> None:
    answers: tuple[dict[str, Any], ...] = ({}, {"substitutes": []}, {"substitutes": 1})
    for wrong in answers:
        with pytest.raises(BadAnswer, match="no substitutes"):
            substitutes_of(wrong)
