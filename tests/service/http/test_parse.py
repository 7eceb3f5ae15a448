"""Bodies with sentences or texts: what is read of each, within the limits, and where a fault is."""

from collections.abc import Mapping
from typing import ClassVar

import orjson
import pytest

from elmo_serve.errors import InvalidRequest, MalformedBody, TooLarge
from elmo_serve.http.body import Parsed, RequestT, TokenizedTexts, parse
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.schemas.embed import (
    EmbedRequest,
    InputRequest,
    Items,
    Member,
    TokenizeRequest,
)
from elmo_serve.http.schemas.language import ScoreRequest, SubstitutesRequest
from elmo_serve.http.schemas.neighbours import NeighboursRequest
from elmo_serve.http.schemas.openai import EmbeddingsRequest

LIMITS = RequestLimits(sentences=3, sentence_tokens=4)


def parsed(form: type[RequestT], /, **body: object) -> Parsed[RequestT]:
    return parse(form, orjson.dumps(body), LIMITS)


class Pairs(InputRequest):
    """A body that no route has."""

    counted: ClassVar[Mapping[str, str]] = {"pairs": "pairs"}

    pairs: list[tuple[str, str]]

    def input_items(self) -> tuple[Member, Items]:
        """Return each pair as a sentence of two tokens."""
        return Member("pairs"), [list(pair) for pair in self.pairs]


def test_a_body_is_parsed_as_its_schema_alone_says() -> None:
    found = parsed(Pairs, pairs=[["a", "b"]])

    assert found.tokens == TokenizedTexts([b'["a","b"]'], [2])
    assert found.member.pointer(0) == "/pairs/0"
    with pytest.raises(TooLarge, match="4 pairs"):
        parsed(Pairs, pairs=[["a", "b"]] * 4)


def test_a_parsed_request_holds_the_texts_of_its_sentences() -> None:
    body = {"sentences": [["The", "Zürich"], []], "pooling": "mean"}

    found = parsed(EmbedRequest, **body)

    assert [orjson.loads(text) for text in found.tokens.sentences] == body["sentences"]
    assert found.tokens.lengths == [2, 0]
    assert (found.request.layers, found.request.pooling) == (None, "mean")


@pytest.mark.parametrize(("tokens", "longest"), [(4, 256), (100_000, 262_144)])
def test_a_text_has_a_bound_whatever_its_tokens(tokens: int, longest: int) -> None:
    """One call of a helper splits it, and texts of other clients wait for that."""
    limits = RequestLimits(sentences=3, sentence_tokens=tokens)
    content = {"text": ["a", "x" * longest]}
    assert parse(TokenizeRequest, orjson.dumps(content), limits).texts == content["text"]
    content["text"][1] += "x"
    with pytest.raises(TooLarge, match=f"{longest}") as refusal:
        parse(TokenizeRequest, orjson.dumps(content), limits)

    assert refusal.value.errors[0].pointer == "/text/1"


@pytest.mark.parametrize(
    ("body", "same_as"),
    [
        ({"sentences": [["null"]], "task": None}, {"sentences": [["null"]]}),
        (
            {"sentences": [["a"]], "layers": None, "mix": None, "task": "ner", "dtype": None},
            {"sentences": [["a"]], "task": "ner"},
        ),
        ({"sentences": [["a"]], "text": [], "tokenizer": None}, {"sentences": [["a"]]}),
        ({"sentences": [["a"]], "text": None}, {"sentences": [["a"]]}),
        ({"text": ["a"], "sentences": [], "model": None}, {"text": ["a"]}),
        ({"text": ["a"], "sentences": None}, {"text": ["a"]}),
        ({"text": [], "sentences": []}, {"sentences": []}),
    ],
)
def test_null_and_an_empty_list_beside_the_other_count_as_left_out(
    body: dict[str, object], same_as: dict[str, object]
) -> None:
    found, same = parsed(EmbedRequest, **body), parsed(EmbedRequest, **same_as)

    assert (found.texts, found.tokens) == (same.texts, same.tokens)
    for name in ("model", "layers", "task", "mix", "dtype", "tokenizer"):
        assert getattr(found.request, name) == getattr(same.request, name)


def test_an_empty_list_of_tokens_beside_a_text_counts_as_left_out() -> None:
    found = parsed(NeighboursRequest, text="a", tokens=[], token=0)

    assert (found.texts, found.member.name) == (["a"], "text")


def test_text_is_parsed_and_waits_to_be_split() -> None:
    body = {"text": ["The bank.", ""], "tokenizer": "ptb", "model": "m"}
    for found in (parsed(EmbedRequest, **body), parsed(TokenizeRequest, **body)):
        assert (found.texts, found.member.name) == (["The bank.", ""], "text")
        assert (found.request.tokenizer, found.request.model) == ("ptb", "m")


@pytest.mark.parametrize(
    ("given", "texts", "tokens"),
    [
        (["naïve", "a b"], ["naïve", "a b"], TokenizedTexts()),
        (
            [["naïve"], ["a", "b"]],
            [],
            TokenizedTexts(['["naïve"]'.encode(), b'["a","b"]'], [1, 2]),
        ),
    ],
)
def test_the_items_of_an_input_are_texts_or_lists_of_tokens(
    given: list[object], texts: list[str], tokens: TokenizedTexts
) -> None:
    found = parsed(EmbeddingsRequest, input=given, model="m", user="me")

    assert found.request == EmbeddingsRequest(input="a", model="m").model_copy(update={"input": ()})
    assert (found.texts, found.tokens) == (texts, tokens)
    assert [found.member.pointer(index) for index in range(2)] == ["/input/0", "/input/1"]


@pytest.mark.parametrize(
    "token", ["The bank lends", "a\tb\nc", "a\u00a0b c", "1 of 3", " The bank lends. "]
)
def test_a_sentence_that_is_one_token_of_three_words_was_not_split(token: str) -> None:
    """It is the commonest mistake of newcomers, and gives one vector that means little."""
    with pytest.raises(InvalidRequest, match="`text`") as caught:
        parsed(EmbedRequest, sentences=[["a"], [token]])

    assert [error.pointer for error in caught.value.errors] == ["/sentences/1/0"]
    with pytest.raises(InvalidRequest, match="string"):  # this route has no other field for a text
        parsed(EmbeddingsRequest, input=[["a"], [token]])


@pytest.mark.parametrize("token", ["10 000", "10 000 000", " ", "", " a", "a b", "a b ", "a-b"])
def test_tokens_of_treebanks_with_white_space_are_no_text(token: str) -> None:
    assert parsed(EmbedRequest, sentences=[[token]]).tokens.lengths == [1]
    assert parsed(EmbedRequest, sentences=[["a b c", token]]).tokens.lengths == [2]


def test_one_text_is_at_the_field_itself() -> None:
    found = parsed(EmbeddingsRequest, input="a")

    assert (found.texts, found.member.pointer(0)) == (["a"], "/input")


@pytest.mark.parametrize("form", [EmbedRequest, ScoreRequest, SubstitutesRequest])
@pytest.mark.parametrize("item", [[], "a", 0, {"a": 1}, None])
def test_items_are_counted_before_anything_else_is_looked_at(
    form: type[EmbedRequest], item: object
) -> None:
    """8 MB of small items, most of them faulty, took the parsing process for seconds."""
    assert {*form.counted} >= {"sentences", "text"}
    assert "positions" in SubstitutesRequest.counted
    mix = dict.fromkeys(map(str, range(101)))
    for member in form.counted:
        with pytest.raises(TooLarge, match="ELMO_MAX_REQUEST_SENTENCES"):
            parsed(form, **{member: [item] * 4}, unknown=1, mix=mix)
    with pytest.raises(TooLarge, match="ELMO_MAX_REQUEST_SENTENCES"):
        parsed(EmbeddingsRequest, input=[item] * 4, dimensions="x")


def test_tokens_are_counted_first_too() -> None:
    with pytest.raises(TooLarge, match="ELMO_MAX_SENTENCE_TOKENS"):
        parsed(NeighboursRequest, tokens=[[]] * 5, token="x")


def test_nan_is_no_json() -> None:
    """pydantic reads it, and made objects of all other items first."""
    with pytest.raises(MalformedBody):
        parse(EmbedRequest, b'{"sentences": [[], [], [], [], NaN]}', LIMITS)


@pytest.mark.parametrize("positions", [[[*range(65)]], [[*range(32)], [*range(33)], []]])
def test_a_request_has_64_positions_in_all(positions: list[list[int]]) -> None:
    with pytest.raises(InvalidRequest, match="64") as refusal:
        parsed(SubstitutesRequest, sentences=[["a"]], positions=positions)

    assert refusal.value.errors[0].pointer == "/positions"
    found = parsed(SubstitutesRequest, sentences=[["a"]], positions=[[*range(63)], [], [5]])
    assert found.request.positions[2] == [5]
