"""The models of texts, tokens and offsets."""

from typing import get_args

from elmo_model.text.tokenizers import TOKENIZERS
from elmo_serve.http.schemas.embed import Tokenizer, TokenizeRequest, TokenizeResponse


def test_every_tokenizer_of_the_model_can_be_named() -> None:
    assert set(get_args(Tokenizer)) == set(TOKENIZERS)


def test_the_example_of_the_response_keeps_the_law_of_offsets() -> None:
    """The token is `text[start:end]`."""
    (sent,) = TokenizeRequest.model_json_schema()["examples"]
    (answered,) = TokenizeResponse.model_json_schema()["examples"]
    (text,), (tokens,), (offsets,) = sent["text"], answered["tokens"], answered["offsets"]

    assert TokenizeResponse.model_validate(answered).tokenizer == sent["tokenizer"]
    assert [text[start:end] for start, end in offsets] == tokens
