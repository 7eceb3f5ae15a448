"""The report of a fit: table and JSON of one comparison."""

import json

import pytest

from elmo_model.tasks.comparison import Comparison, Row
from elmo_model.tasks.fitter import Fitted, MixtureHead
from elmo_model.tasks.report import document, mixture, text, text_of
from elmo_model.tasks.scores import Scores

LEARNED = Row(
    "learned",
    ((0.1, 0.6, 0.3), (0.3, 0.6, 0.1)),
    (Scores(0.9, 0.8, 0.7, 0.5), Scores(0.9, 0.8, 0.7, 0.7)),
)
AVERAGE = Row("average", ((1 / 3,) * 3,) * 2, (Scores(0.8, 0.7, 0.6, 0.4),) * 2)
COMPARISON = Comparison(
    rows=(LEARNED, AVERAGE),
    best=Fitted(("B-x", "O"), MixtureHead(3, 4, 2), Scores(1, 1, 1, 1), 3),
    scored_on="test",
    train_examples=2_000,
    scored_examples=1_234,
    data="ab" * 32,
)


def test_the_mean_is_over_the_seeds() -> None:
    assert mixture(LEARNED)["weights"] == pytest.approx([0.2, 0.6, 0.2])


def test_the_table_has_a_line_a_mixture_and_a_bar_a_layer() -> None:
    assert text_of(COMPARISON).splitlines() == [
        "span F1 on 1,234 test examples, %",
        "  learned     60.00 ± 14.14",
        "  average     40.00 ± 0.00",
        "learned weights",
        "  layer 0     0.200 ████████",
        "  layer 1     0.600 ████████████████████████",
        "  layer 2     0.200 ████████",
    ]


def test_without_spans_the_measure_is_accuracy() -> None:
    row = Row("learned", ((1.0,),), (Scores(0.75, 0.5, 0.5),))
    plain = Comparison((row,), COMPARISON.best, "validation", 10, 4, "")

    assert text_of(plain).splitlines()[:2] == [
        "accuracy on 4 validation examples, %",
        "  learned     75.00 ± 0.00",
    ]


def test_a_server_sends_the_top_layer_twice_and_one_line_shows_it() -> None:
    row = mixture(AVERAGE)
    scores = {"measure": "span_f1", "scored_on": "test", "scored_examples": 4}
    mixtures = {"learned": row, "layer 2": row, "top": row}

    assert text({**scores, "mixtures": mixtures}).count("40.00") == 2


def test_the_document_is_json_and_holds_every_seed() -> None:
    found = json.loads(json.dumps(document(COMPARISON)))

    assert found["classes"] == ["B-x", "O"]
    assert (found["scored_on"], found["scored_examples"]) == ("test", 1_234)
    learned = found["mixtures"]["learned"]
    assert learned["mean"] == pytest.approx(0.6)
    assert learned["weights"] == [[0.1, 0.6, 0.3], [0.3, 0.6, 0.1]]
    assert [scores["span_f1"] for scores in learned["scores"]] == [0.5, 0.7]
