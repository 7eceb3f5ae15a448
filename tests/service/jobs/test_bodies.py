"""The body of a fit: JSON and NDJSON give the same examples; what is wrong is pointed to."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.tasks.examples import Place
from elmo_serve.errors import InvalidRequest, MalformedBody, TooLarge
from elmo_serve.jobs.bodies import MOST_LABELS, read_fit
from elmo_serve.jobs.plan import ALL_TOKENS, MEAN, FitLimits, FitRequest, FitSource
from tests.support.fits import body

LIMITS = FitLimits(examples=5_000, tokens=20_000, sentence_tokens=8)


def source(*, is_lines: bool = False, limits: FitLimits = LIMITS) -> FitSource:
    return FitSource(is_lines, limits, "whitespace", "en")


def read(sent: dict[str, Any], limits: FitLimits = LIMITS) -> FitRequest:
    return read_fit(json.dumps(sent).encode(), source(limits=limits))


def as_lines(sent: dict[str, Any]) -> bytes:
    options = {key: value for key, value in sent.items() if key != "examples"}
    return "\r\n".join(map(json.dumps, [options, *sent["examples"]])).encode()


@pytest.mark.parametrize("kind", ["token", "sentence", "pair"])
def test_lines_and_one_object_are_the_same_fit(kind: str) -> None:
    sent = body(kind, layer_norm=True)

    found = read(sent)

    assert found == read_fit(as_lines(sent), source(is_lines=True))
    assert found.options["layer_norm"] is True and found.options["seeds"] == 1
    assert found.test is not None and len(found.train) > len(found.test) > 0
    assert found.plan().examples == len(found.train) + len(found.test)
    assert found.plan().tokens == sum(map(len, found.train.sentences))


def test_the_rows_of_every_form_of_example() -> None:
    examples = [
        {"text": "a b c", "labels": ["x", "y", "x"]},
        {"tokens": [], "labels": []},
        {"tokens": ["a", "b"], "token": 1, "label": "y"},
        {"text": "d", "labels": ["x"], "test": True},
    ]

    found = read({"kind": "token", "examples": examples})

    assert found.row_kinds == [ALL_TOKENS, ALL_TOKENS, 1, ALL_TOKENS]
    assert found.row_offsets == found.plan().row_offsets == [0, 3, 3, 4, 5]
    rows = [found.row_of(found.row_offsets, place) for (place,) in found.train.places]
    assert rows == [0, 1, 2, 3]
    assert found.test is not None and found.test.places == ((Place(3, 0),),)
    assert found.row_of(found.row_offsets, Place(3, 0)) == 4


def test_sides_of_pairs_are_means_or_tokens() -> None:
    pair = {"pair": [{"text": "a b"}, {"tokens": ["c", "d"], "token": 1}], "label": "x"}

    found = read({"kind": "pair", "examples": [pair, {**pair, "label": "y"}]})

    assert found.row_kinds == [MEAN, 1] * 2
    assert found.example_of == [0, 0, 1, 1]
    assert [found.row_of(found.row_offsets, p) for p in found.train.places[1]] == [2, 3]


def test_a_whole_number_is_a_label_as_text() -> None:
    examples = [{"tokens": ["a"], "label": 1}, {"tokens": ["b"], "label": "0"}]

    found = read({"kind": "sentence", "examples": examples})

    assert found.train.labels == ("1", "0")
    with pytest.raises(InvalidRequest, match="must be a string or an integer"):
        read({"kind": "sentence", "examples": [{"tokens": ["a"], "label": True}]})


def test_limits_are_named() -> None:
    short = [{"tokens": ["a"], "label": str(number)} for number in range(3)]
    sent = {"kind": "sentence", "examples": short}
    with pytest.raises(TooLarge, match="ELMO_MAX_JOB_EXAMPLES"):
        read(sent, FitLimits(2, 100, 100))
    with pytest.raises(TooLarge, match="ELMO_MAX_JOB_TOKENS"):
        read(sent, FitLimits(100, 2, 100))
    long = {"tokens": ["a"] * 9, "label": "x"}
    with pytest.raises(TooLarge, match="ELMO_MAX_SENTENCE_TOKENS") as refused:
        read({"kind": "sentence", "examples": [*short, long]})
    assert refused.value.errors[0].pointer == "/examples/3"
    many = [{"tokens": ["a"], "label": str(number)} for number in range(MOST_LABELS + 1)]
    with pytest.raises(InvalidRequest, match="4097 different labels; at most 4096"):
        read({"kind": "sentence", "examples": many})


def test_a_number_of_many_digits_is_cut_in_the_message() -> None:
    example = {"tokens": ["a"], "token": 10**4_000, "label": "x"}
    with pytest.raises(InvalidRequest, match=r"/0/token: is 10+\.\.\., expected") as refused:
        read({"kind": "token", "examples": [example]})
    assert len(refused.value.detail) < 200


def test_a_text_that_a_tokenizer_refuses_is_pointed_to() -> None:
    with pytest.raises(InvalidRequest, match="must be one of ptb, moses"):
        read({"kind": "sentence", "tokenizer": "x", "examples": [{"text": "a", "label": "y"}]})


LABEL = st.sampled_from("xyz")
WORDS = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=3)
SIDE = st.fixed_dictionaries({"tokens": WORDS}, optional={"token": st.integers(0, 2)}) | st.just(
    {"text": "a b"}
)
IS_TEST = {"test": st.booleans()}
EXAMPLES = {
    "token": st.one_of(
        WORDS.map(lambda words: {"tokens": words, "labels": [word or "z" for word in words]}),
        st.fixed_dictionaries({"tokens": WORDS, "token": st.integers(0, 1), "label": LABEL}),
    ),
    "sentence": st.fixed_dictionaries({"tokens": WORDS, "label": LABEL}, optional=IS_TEST),
    "pair": st.fixed_dictionaries(
        {"pair": st.lists(SIDE, min_size=2, max_size=2), "label": LABEL}, optional=IS_TEST
    ),
}
ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10),
    st.floats(),
    st.sampled_from(["", "a", "token", "moses", "\ud7ff"]),
    st.sampled_from([[], {}, [[]], [{}], {"a": 1}]),
)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the body of a fit in which up to two members have other values, or are away."""
    kind = draw(st.sampled_from(list(EXAMPLES)))
    examples = draw(st.lists(EXAMPLES[kind], min_size=3, max_size=6))
    found: dict[str, Any] = {"kind": kind, "seeds": 1, "validation": 0.3, "examples": examples}
    for _ in range(draw(st.integers(0, 2))):
        place: Any = found
        while inner := [each for each in values_of(place) if isinstance(each, dict | list)]:
            if draw(st.booleans()):
                break
            place = draw(st.sampled_from(inner))
        keys = [*(place if isinstance(place, dict) else range(len(place)))]
        if isinstance(place, dict):
            keys += ["tokenizer", "token", "labels"]
        if keys:
            place[draw(st.sampled_from(keys))] = draw(ANY)
    return found


def values_of(place: Any) -> list[Any]:
    return list(place.values() if isinstance(place, dict) else place)


@settings(max_examples=200, derandomize=True)
@given(bodies(), st.booleans())
def test_no_body_raises_anything_but_a_refusal(sent: dict[str, Any], is_lines: bool) -> None:
    is_lines = is_lines and isinstance(sent["examples"], list)
    text = as_lines(sent) if is_lines else json.dumps(sent).encode()
    try:
        found = read_fit(text, source(is_lines=is_lines))
    except (MalformedBody, InvalidRequest, TooLarge) as refusal:
        assert "\n" not in refusal.detail
        return
    train = found.train
    places = [place for each in train.places for place in each]
    assert len(set(train.labels)) > 1 and all(isinstance(each, str) for each in train.labels)
    assert all((place.token or 0) < len(train.sentences[place.sentence]) for place in places)
    assert all(
        0 <= found.row_of(found.row_offsets, place) < found.row_offsets[-1] for place in places
    )


@pytest.mark.parametrize("is_lines", [False, True])
@pytest.mark.parametrize("sent", [b"", b"\n", b"{", b"\xff", b"[" * 60_000, b"null", b"[1]\n{}"])
def test_what_is_no_json_object_is_refused(sent: bytes, is_lines: bool) -> None:
    with pytest.raises((MalformedBody, InvalidRequest)):
        read_fit(sent, source(is_lines=is_lines))
