"""The tables of the study from its results."""

from typing import Any

from elmo_model.study.report import report


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
    tables = report([choice("pos")], [])["tables.md"].splitlines()

    assert (
        tables[0] == "| task | learned | uniform | top only | learned − uniform | learned − top |"
    )
    assert tables[2] == (
        "| pos (accuracy) | 60.00 ± 127.06 | 60.00 ± 127.06 | 45.00 ± 63.53 | "
        "+0.00 ± 0.00 | +15.00 ± 63.53 |"
    )
    assert (
        "| pos | **60.00 ± 127.06** | 60.00 ± 127.06 | 45.00 ± 63.53 | 0.30 / 0.40 / 0.30 |"
        in tables
    )


def test_taggers_are_grouped_by_place_and_a_missing_one_is_left_out() -> None:
    parts = [tagger(place, 0, 0.3) for place in ("none", "input", "both")]

    files = report([], parts)

    assert set(files) == {"tables.md", "places.svg"}
    assert "| word vectors alone | 30.00 |" in files["tables.md"]
    assert "| + ELMo at the output |  |" in files["tables.md"]
    assert "| ner | + ELMo at both | output | 0.10 / 0.60 / 0.30 | 2.00 |" in files["tables.md"]
