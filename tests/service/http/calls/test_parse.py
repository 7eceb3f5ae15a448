"""Bodies with sentences or texts: what is read of each, within the limits, and where a fault is."""

import orjson
import pytest
from pydantic import BaseModel

from elmo_serve.errors import InvalidRequest, MalformedBody, TooLarge
from elmo_serve.http.calls.parse import Parsed, RequestLimits, RequestT, parse
from elmo_serve.http.schemas.clients import EmbeddingsRequest, SimilarityRequest
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.http.schemas.neighbours import NeighboursRequest
from elmo_serve.http.schemas.text import TokenizeRequest
from elmo_serve.token_warnings import TokenLimit

LIMITS = RequestLimits(
    sentences=3,
    sentence_tokens=4,
    token_limits={None: TokenLimit(3, "bytes"), "lexicon": TokenLimit(3, "characters")},
)


def parsed(form: type[RequestT], /, **body: object) -> Parsed[RequestT]:
    return parse(form, orjson.dumps(body), LIMITS)


def test_a_parsed_request_holds_the_texts_of_its_sentences() -> None:
    body = {"sentences": [["The", "Zürich"], []], "pooling": "mean"}

    found = parsed(EmbedRequest, **body)

    assert [orjson.loads(text) for text in found.sentences] == body["sentences"]
    assert found.lengths == [2, 0]
    assert (found.request.layers, found.request.pooling) == ("all", "mean")


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        [[]],
        [[], []],
        [["],["]],
        [["],["], ["a"]],
        [["a", '"],["'], ["],[", "b"]],
        [["["], ["]"]],
    ],
)
def test_the_text_of_each_sentence_is_its_own_whatever_its_tokens(
    sentences: list[list[str]],
) -> None:
    """All sentences are written at once and cut at the bytes between two lists."""
    found = parsed(EmbedRequest, sentences=sentences)

    assert found.sentences == [orjson.dumps(sentence) for sentence in sentences]


@pytest.mark.parametrize(
    ("sentences", "message", "pointers"),
    [
        ([[]] * 4, "4 sentences and at most 3 .*ELMO_MAX_REQUEST_SENTENCES", []),
        (
            [[], ["a"] * 5],
            "Sentence 1 holds 5 tokens and at most 4 .*ELMO_MAX_SENTENCE_TOKENS",
            ["/sentences/1"],
        ),
    ],
)
def test_a_request_over_a_limit_is_too_large(
    sentences: list[list[str]], message: str, pointers: list[str]
) -> None:
    with pytest.raises(TooLarge, match=message) as error:
        parsed(EmbedRequest, sentences=sentences)

    assert [fault.pointer for fault in error.value.errors] == pointers


@pytest.mark.parametrize("names", [("layers", "task"), ("task", "mix"), ("layers", "mix")])
def test_selections_that_exclude_each_other_are_refused_together(names: tuple[str, str]) -> None:
    values = {"layers": "all", "task": "ner", "mix": {"weights": [0]}}

    with pytest.raises(InvalidRequest, match=f"found {' and '.join(names)}") as error:
        parsed(EmbedRequest, sentences=[], **{name: values[name] for name in names})

    assert [fault.pointer for fault in error.value.errors] == [f"/{name}" for name in names]


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

    assert (found.sentences, found.lengths) == (same.sentences, same.lengths)
    for name in ("model", "layers", "task", "mix", "dtype", "tokenizer"):
        assert getattr(found.request, name) == getattr(same.request, name)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"sentences": None}, "is required"),
        ({"sentences": None, "text": None}, "is required"),
        ({"text": ["a"], "sentences": [["a"]]}, "found both"),
        (
            {"text": [], "sentences": [["a"]], "tokenizer": "ptb"},
            "/tokenizer: splits `text`; `sentences` are",
        ),
        ({"sentences": [None]}, "must be a list of tokens; found null"),
    ],
)
def test_null_and_empty_lists_are_no_sentences(body: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parsed(EmbedRequest, **body)


def test_null_in_a_body_that_is_no_json_is_malformed() -> None:
    for body in (b'{"task": null', b'{"task": null, "text": ["\\ud800"]}'):
        with pytest.raises(MalformedBody):
            parse(EmbedRequest, body, LIMITS)


def test_text_is_parsed_and_waits_to_be_split() -> None:
    body = {"text": ["The bank.", ""], "tokenizer": "ptb", "model": "m"}
    for found in (parsed(EmbedRequest, **body), parsed(TokenizeRequest, **body)):
        assert (found.sentences, found.member) == (["The bank.", ""], "text")
        assert (found.request.tokenizer, found.request.model) == ("ptb", "m")


@pytest.mark.parametrize(
    ("text", "message"),
    [(["a"] * 4, "4 texts and at most 3"), (["", "x" * 257], "Text 1 has 257 characters .* 256")],
)
def test_texts_over_a_limit_are_too_large(text: list[str], message: str) -> None:
    for model in (EmbedRequest, TokenizeRequest):
        with pytest.raises(TooLarge, match=message):
            parsed(model, text=text)


def test_the_model_decides_which_tokens_are_cut() -> None:
    def cut(**model: str) -> list[int]:
        found = parsed(EmbedRequest, sentences=[["abc", "éé", "abcd"]], **model)
        return [each.token for each in found.warnings.listed]

    assert cut() == [1, 2]
    assert cut(model="lexicon") == cut(model="Lexicon") == [2]
    assert cut(model="another") == []  # 48 bytes


def test_texts_and_lists_of_tokens_keep_their_places() -> None:
    found = parsed(EmbeddingsRequest, input=["naïve", ["a", "b"]], model="m", user="me")

    assert found.request == EmbeddingsRequest(input="a", model="m").model_copy(update={"input": ()})
    assert found.sentences == ["naïve", b'["a","b"]']
    assert found.lengths == [0, 2]
    assert [found.pointer(index) for index in range(2)] == ["/input/0", "/input/1"]


def test_one_text_is_at_the_field_itself() -> None:
    found = parsed(EmbeddingsRequest, input="a")

    assert (found.sentences, found.pointer(0)) == (["a"], "/input")


def test_places_of_pairs_follow_one_another() -> None:
    pair = [{"text": "a b", "token": 1.0}, {"tokens": ["c"], "token": None}]

    found = parsed(SimilarityRequest, pairs=[pair], centred=True, tokenizer="moses")

    assert (found.request.tokenizer, found.request.centred) == ("moses", True)
    assert (found.sentences, found.lengths) == (["a b", b'["c"]'], [0, 1])
    assert found.tokens == (1, None)
    assert [found.pointer(index) for index in range(2)] == ["/pairs/0/0", "/pairs/0/1"]


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (EmbeddingsRequest, {"input": ["a"] * 4}),
        (EmbeddingsRequest, {"input": [["a"] * 5]}),
        (SimilarityRequest, {"pairs": [[{"text": "a"}] * 2] * 2}),
        (SimilarityRequest, {"pairs": [[{"text": "a"}, {"tokens": ["a"] * 5}]]}),
        (NeighboursRequest, {"tokens": ["a"] * 5, "token": 0}),
    ],
)
def test_limits_hold_before_anything_is_computed(
    model: type[BaseModel], body: dict[str, object]
) -> None:
    with pytest.raises(TooLarge, match=r"ELMO_MAX_(REQUEST_SENTENCES|SENTENCE_TOKENS)"):
        parsed(model, **body)


@pytest.mark.parametrize("model", [EmbeddingsRequest, SimilarityRequest])
def test_too_many_sentences_are_counted_before_they_are_looked_at(model: type[BaseModel]) -> None:
    """A Python function that is called for each of millions holds its process for seconds."""
    (member,) = {"input", "pairs"} & model.model_fields.keys()

    with pytest.raises(TooLarge, match=r"holds .* sentences and at most 3"):
        parsed(model, **{member: [{}] * 4})


@pytest.mark.parametrize("body", [b"", b"{", b'{"input": "\\ud800"}', b"\xff"])
def test_what_is_not_json_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        parse(EmbeddingsRequest, body, LIMITS)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"a"'])
def test_a_body_is_an_object(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="must be an object"):
        parse(EmbeddingsRequest, body, LIMITS)


@pytest.mark.parametrize(
    ("model", "body", "pointer", "detail"),
    [
        (EmbeddingsRequest, {"input": 3}, "/input", "a text or a list of texts; found 3"),
        (EmbeddingsRequest, {"input": []}, "/input", "a list of texts; found an empty list"),
        (EmbeddingsRequest, {"input": [7, 8]}, "/input", "holds token ids"),
        (EmbeddingsRequest, {"input": [[7]]}, "/input/0", "holds token ids"),
        (EmbeddingsRequest, {"input": [["a", 3]]}, "/input/0/1", "must be a string; found 3"),
        (
            EmbeddingsRequest,
            {"input": ["a", {}]},
            "/input/1",
            "a list of tokens; found an empty object",
        ),
        (
            SimilarityRequest,
            {"pairs": [[{"text": "a", "tokens": ["b"]}, {}]]},
            "/pairs/0/0",
            "must be an object with text or tokens",
        ),
        (
            SimilarityRequest,
            {"pairs": [[{"text": "a", "<name>": 1}, {"text": "a"}]]},
            "/pairs/0/0/<name>",
            "is no field, expected token, text; found 1",
        ),
        (
            SimilarityRequest,
            {"pairs": [[{"text": "a", "token": True}, {"text": "a"}]]},
            "/pairs/0/0/token",
            "must be a whole number; found true",
        ),
    ],
)
def test_a_fault_has_its_place_in_the_body_and_no_branch_of_a_union(
    model: type[BaseModel], body: dict[str, object], pointer: str, detail: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parsed(model, **body)

    (fault,) = refusal.value.errors
    assert fault.pointer == pointer
    assert detail in fault.detail


@pytest.mark.parametrize("model", [EmbeddingsRequest, SimilarityRequest])
def test_examples_are_read(model: type[BaseModel]) -> None:
    (example,) = model.model_json_schema()["examples"]

    assert parsed(model, **example).sentences
