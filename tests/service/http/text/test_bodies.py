"""Bodies with texts: what is read of each form, and where a fault is."""

import orjson
import pytest

from elmo_serve.errors import InvalidRequest, MalformedBody, TooLarge
from elmo_serve.http.request.parsing import RequestLimits
from elmo_serve.http.text.bodies import (
    Form,
    OpenAIOptions,
    SimilarityOptions,
    TeiOptions,
    TextBody,
    parse,
)

LIMITS = RequestLimits(sentences=4, sentence_tokens=3)


def parsed(form: Form, **body: object) -> TextBody:
    return parse(orjson.dumps(body), LIMITS, form)


def test_texts_and_lists_of_tokens_keep_their_places() -> None:
    found = parsed("/v1/embeddings", input=["naïve", ["a", "b"]], model="m", user="me")

    assert found.options == OpenAIOptions("m", is_base64=False, dimensions=None)
    assert found.sentences == ["naïve".encode(), b'["a","b"]']
    assert found.lengths == [None, 2]
    assert found.pointers == ["/input/0", "/input/1"]


def test_one_text_is_at_the_field_itself() -> None:
    found = parsed("/tei/embed", inputs="a")

    assert (found.sentences, found.pointers) == ([b"a"], ["/inputs"])


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({}, TeiOptions(normalize=True, truncate=None, dimensions=None)),
        ({"normalize": False, "truncate": True}, TeiOptions(False, "right", None)),
        ({"truncate": True, "truncation_direction": "Left"}, TeiOptions(True, "left", None)),
        ({"truncate": False, "truncation_direction": "Left"}, TeiOptions(True, None, None)),
        ({"truncate": None, "normalize": None}, TeiOptions(True, None, None)),
        ({"dimensions": 8}, TeiOptions(True, None, 8)),
        ({"dimensions": 8.0}, TeiOptions(True, None, 8)),
    ],
)
def test_options_of_tei(body: dict[str, object], options: TeiOptions) -> None:
    assert parsed("/tei/embed", inputs="a", **body).options == options


def test_places_of_pairs_follow_one_another() -> None:
    pair = [{"text": "a b", "token": 1.0}, {"tokens": ["c"]}]

    found = parsed("/similarity", pairs=[pair], centred=True, tokenizer="moses")

    assert found.options == SimilarityOptions(None, "moses", True, (1, None))
    assert found.lengths == [None, 1]
    assert found.pointers == ["/pairs/0/0", "/pairs/0/1"]


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("/v1/embeddings", {"input": ["a"] * 5}),
        ("/v1/embeddings", {"input": [["a"] * 4]}),
        ("/tei/embed", {"inputs": ["a"] * 5}),
        ("/similarity", {"pairs": [[{"text": "a"}] * 2] * 3}),
        ("/similarity", {"pairs": [[{"text": "a"}, {"tokens": ["a"] * 4}]]}),
    ],
)
def test_limits_hold_before_anything_is_computed(form: Form, body: dict[str, object]) -> None:
    with pytest.raises(TooLarge, match=r"ELMO_MAX_(REQUEST_SENTENCES|SENTENCE_TOKENS)"):
        parsed(form, **body)


@pytest.mark.parametrize("body", [b"", b"{", b'{"input": "\\ud800"}', b"\xff"])
def test_what_is_not_json_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        parse(body, LIMITS, "/v1/embeddings")


@pytest.mark.parametrize("body", [b"[]", b"null", b'"a"'])
def test_a_body_is_an_object(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="must be an object"):
        parse(body, LIMITS, "/tei/embed")


def test_true_is_no_token_number() -> None:
    with pytest.raises(InvalidRequest, match="whole number"):
        parsed("/similarity", pairs=[[{"text": "a", "token": True}, {"text": "a"}]])
