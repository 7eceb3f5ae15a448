"""The tables of the study from its results."""

from typing import Any

import pytest

from benchmarks.study.intervals import Interval
from benchmarks.study.tables import tables


def choice(task: str) -> dict[str, Any]:
    row = {"weights": [[0.2, 0.5, 0.3], [0.4, 0.3, 0.3]], "scores": [0.5, 0.7]}
    names = ("learned, lambda 0.001", "learned, lambda 1", "average", "layer 0", "layer 1")
    top = {"weights": [[0, 0, 1]] * 2, "scores": [0.4, 0.5]}
    return {
        "task": task,
        "measure": "accuracy",
        "mixtures": {**dict.fromkeys(names, row), "layer 2": top},
    }


def tagger(place: str, seed: int, score: float) -> dict[str, Any]:
    places = {"none": (), "both": ("input", "output")}.get(place, (place,))
    return {
        **{"task": "ner", "place": place, "seed": seed, "score": score, "measure": "span F1"},
        "weights": {each: [0.1, 0.6, 0.3] for each in places},
        "gammas": dict.fromkeys(places, 2.0),
    }


def test_the_tables_hold_means_intervals_and_paired_differences() -> None:
    found = tables([choice("pos")], []).splitlines()

    assert found[0] == "| task | learned | uniform | top only | learned − uniform | learned − top |"
    assert found[2] == (
        "| pos (accuracy) | 60.00 ± 127.06 | 60.00 ± 127.06 | 45.00 ± 63.53 | "
        "+0.00 ± 0.00 | +15.00 ± 63.53 |"
    )
    assert (
        "| pos | **60.00 ± 127.06** | 60.00 ± 127.06 | 45.00 ± 63.53 | 0.30 / 0.40 / 0.30 |"
        in found
    )


def test_taggers_are_grouped_by_place_and_a_missing_one_is_left_out() -> None:
    parts = [tagger(place, 0, 0.3) for place in ("none", "input", "both")]

    found = tables([], parts)

    assert "| word vectors alone | 30.00 |" in found
    assert "| + ELMo at the output |  |" in found
    assert "| ner | + ELMo at both | output | 0.10 / 0.60 / 0.30 | 2.00 |" in found


def test_three_seeds_have_the_interval_of_two_degrees_of_freedom() -> None:
    assert Interval.of([0.1, 0.2, 0.3]).half == pytest.approx(4.303 * 0.1 / 3**0.5)
    assert Interval.of([0.5]) == Interval(0.5, None)
