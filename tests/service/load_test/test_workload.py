"""The requests of a load test: sizes, lengths, words."""

from __future__ import annotations

import json
import math
import random
import statistics
from itertools import count
from pathlib import Path

import pytest

from elmo_serve.load_test.workload import (
    LONGEST,
    MEDIAN_TOKENS,
    SPREAD,
    RequestSize,
    WorkloadError,
    made_sentences,
    make_bodies,
    mean_tokens,
    sentences_of,
)


def test_lengths_of_made_sentences_are_log_normal_and_cut() -> None:
    make = made_sentences(random.Random(1), longest=1_000)
    lengths = sorted(len(make()) for _ in range(20_000))

    assert statistics.median(lengths) == MEDIAN_TOKENS
    assert lengths[0] >= 1 and lengths[-1] == LONGEST
    assert lengths[19_000] == pytest.approx(MEDIAN_TOKENS * math.exp(1.645 * SPREAD), rel=0.05)
    assert statistics.mean(lengths) == pytest.approx(24, rel=0.02)


def test_the_limit_of_the_server_cuts_made_sentences() -> None:
    make = made_sentences(random.Random(1), longest=3)

    assert {len(make()) for _ in range(200)} <= {1, 2, 3}
    assert max(len(make()) for _ in range(200)) == 3


def test_a_seed_makes_the_same_requests() -> None:
    first, second = (
        make_bodies(5, RequestSize(), made_sentences(random.Random(7), 100), {}) for _ in range(2)
    )

    assert first == second
    assert len({body.content for body in first}) == 5


def test_a_request_has_its_number_of_sentences_or_of_tokens() -> None:
    numbers = count()

    def sentence() -> list[str]:
        return [str(next(numbers))] * 4

    (three,) = make_bodies(1, RequestSize(3), sentence, {"layers": "top"})
    (tokens,) = make_bodies(1, RequestSize(tokens=10), sentence, {})

    assert json.loads(three.content) == {
        "layers": "top",
        "sentences": [["0"] * 4, ["1"] * 4, ["2"] * 4],
    }
    assert three.tokens == 12
    assert tokens.sentences == (["3"] * 4, ["4"] * 4, ["5"] * 2)
    assert mean_tokens([three, tokens]) == 11
    assert str(RequestSize(3)) == "3 sentences" and str(RequestSize(tokens=1)) == "1 token"


def test_a_text_is_used_line_by_line_again_and_again(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\ufeffa b c\n\n  d \n")
    next_sentence = sentences_of(text, longest=2)

    assert [next_sentence() for _ in range(3)] == [["a", "b"], ["d"], ["a", "b"]]


def test_a_text_without_tokens_or_without_a_file_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n \n")

    with pytest.raises(WorkloadError, match="empty: holds no token"):
        sentences_of(empty, 10)
    with pytest.raises(WorkloadError, match="missing: cannot be read: No such file"):
        sentences_of(tmp_path / "missing", 10)
