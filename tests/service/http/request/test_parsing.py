"""Bodies of POST /embed, POST /tokenize and PUT /tasks, parsed within the limits of a request."""

import json
from typing import Any

import pytest

from elmo_serve.errors import InvalidRequest, MalformedBody, TooLarge
from elmo_serve.http.request.parsing import (
    RequestLimits,
    TextRequest,
    parse,
    parse_task,
    parse_tokenize,
)
from elmo_serve.token_warnings import TokenLimit

LIMITS = RequestLimits(
    sentences=3,
    sentence_tokens=4,
    token_limits={None: TokenLimit(3, "bytes"), "lexicon": TokenLimit(3, "characters")},
)


def test_a_parsed_request_holds_the_texts_of_its_sentences() -> None:
    body = {"sentences": [["The", "Zürich"], []], "pooling": "mean"}

    parsed = parse(json.dumps(body).encode(), LIMITS)

    assert [json.loads(text) for text in parsed.sentences] == body["sentences"]
    assert parsed.lengths == [2, 0]
    assert (parsed.options.layers, parsed.options.pooling) == ("all", "mean")


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
        parse(json.dumps({"sentences": sentences}).encode(), LIMITS)

    assert [fault.pointer for fault in error.value.errors] == pointers


def test_selections_that_exclude_each_other_are_refused_together() -> None:
    body = {"sentences": [], "task": "ner", "mix": {"weights": [0]}}

    with pytest.raises(InvalidRequest, match="found task and mix") as error:
        parse(json.dumps(body).encode(), LIMITS)

    assert [fault.pointer for fault in error.value.errors] == ["/task", "/mix"]


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
    assert parse(json.dumps(body).encode(), LIMITS) == parse(json.dumps(same_as).encode(), LIMITS)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"sentences": None}, "is required"),
        ({"sentences": None, "text": None}, "is required"),
        ({"text": ["a"], "sentences": [["a"]]}, "found both"),
        ({"text": [], "sentences": [["a"]], "tokenizer": "ptb"}, "`tokenizer` splits `text`"),
        ({"sentences": [None]}, "must be a list of tokens; found null"),
    ],
)
def test_null_and_empty_lists_are_no_sentences(body: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parse(json.dumps(body).encode(), LIMITS)


def test_null_in_a_body_that_is_no_json_is_malformed() -> None:
    for body in (b'{"task": null', b'{"task": null, "text": ["\\ud800"]}'):
        with pytest.raises(MalformedBody):
            parse(body, LIMITS)


def test_a_task_is_parsed_or_malformed() -> None:
    assert parse_task(b'{"weights": [1, 2]}').weights == [1.0, 2.0]
    with pytest.raises(MalformedBody):
        parse_task(b"weights")


def test_text_is_parsed_and_waits_to_be_split() -> None:
    body = json.dumps({"text": ["The bank.", ""], "tokenizer": "ptb", "model": "m"}).encode()
    asked = TextRequest(["The bank.", ""], "ptb", "m")

    assert parse(body, LIMITS).text == asked
    assert parse(body, LIMITS).sentences == []
    assert parse_tokenize(body, LIMITS) == asked
    assert parse(b'{"sentences": []}', LIMITS).text is None


@pytest.mark.parametrize(
    ("text", "message"),
    [(["a"] * 4, "4 texts and at most 3"), (["", "x" * 257], "Text 1 has 257 characters .* 256")],
)
def test_texts_over_a_limit_are_too_large(text: list[str], message: str) -> None:
    body = json.dumps({"text": text}).encode()
    for parser in (parse, parse_tokenize):
        with pytest.raises(TooLarge, match=message):
            parser(body, LIMITS)


def test_the_model_decides_which_tokens_are_cut() -> None:
    def cut(**model: str) -> list[int]:
        body: dict[str, Any] = {"sentences": [["abc", "éé", "abcd"]], **model}
        return [each.token for each in parse(json.dumps(body).encode(), LIMITS).warnings.listed]

    assert cut() == [1, 2]
    assert cut(model="lexicon") == cut(model="Lexicon") == [2]
    assert cut(model="another") == []  # 48 bytes
