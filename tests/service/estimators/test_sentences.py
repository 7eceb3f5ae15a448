"""Sentences for the estimators."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmo_model.text.tokenizers import tokenizer
from elmo_serve.estimators.vectorizer import tokens_of


def test_texts_and_lists_of_tokens_are_sentences() -> None:
    assert tokens_of(["a dog.", ["a", "dog"], (), np.array(["x"])], tokenizer("ptb")) == [
        *(["a", "dog", "."], ["a", "dog"], [], ["x"]),
    ]
    assert tokens_of(np.array(["a b", "c"]), tokenizer("whitespace")) == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("a text", "sentences is 'a text'; expected a list of texts"),
        (pd.DataFrame({"text": ["a text"]}), "sentences is a DataFrame; expected a list of texts"),
        ([["a"], 3], "sentence 1 is 3"),
        ([[1]], "sentence 0"),
    ],
)
def test_other_things_are_refused(sentences: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tokens_of(sentences, tokenizer("whitespace"))


def test_sentences_without_tokens_are_counted_in_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert tokens_of(["", "a", []], tokenizer("whitespace")) == [[], ["a"], []]

    (record,) = caplog.records
    assert record.getMessage() == "sentences without tokens, whose vectors are zeros: 2"
