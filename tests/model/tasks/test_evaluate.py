"""`elmo evaluate`: the senses of built-in sentences, the stability of built-in texts, tables."""

import json
from collections import Counter

import pytest
import torch

from elmo_model.inference import stability
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.steps import ignore
from elmo_model.tasks.evaluate import (
    SENTENCES,
    EvaluateOptions,
    Score,
    evaluate,
    senses,
    separation,
    table,
)
from elmo_model.tasks.features import encode_by
from elmo_model.tasks.readers import read_rows
from tests.support.command_line import elmo
from tests.support.servers import SMALL


def test_the_set_is_30_words_of_two_senses_with_two_sentences_each() -> None:
    rows = [(row.field("word"), row.word("sense")) for row in read_rows(SENTENCES)]
    assert set(Counter((word, sense) for word, (_, _, sense) in rows).values()) == {2}
    assert all(tokens[place] == word for word, (tokens, place, _) in rows)
    assert len({tuple(tokens) for _, (tokens, _, _) in rows}) == len(rows) == 120


def test_separation_is_the_cosine_within_senses_minus_across() -> None:
    senses = ["one", "one", "two", "two"]
    apart = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    assert separation(apart, senses) == pytest.approx(1.0)
    mixed = apart[[0, 2, 1, 3]]
    assert separation(mixed, senses) == pytest.approx(-0.5)


def test_the_token_layer_sees_no_context_and_misses_all() -> None:
    score = senses(encode_by(Encoder.of(open_model("random-small"))))
    assert score.layers[0] == 0.0 and score.items == 30
    assert len(score.misses[0]) == 30
    for accuracy, missed in zip(score.layers, score.misses, strict=True):
        assert accuracy == pytest.approx(100 * (30 - len(missed)) / 30)
    assert f"missed by layer 2: {', '.join(score.misses[2])}" in table(score)


def test_both_are_measured_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stability, "TOKENS", 9)

    text = evaluate(EvaluateOptions(str(SMALL), limit=1), ignore)

    assert "senses of ordinary words" in text and "one word, repeated" in text


def test_the_command_prints_json() -> None:
    result = elmo("evaluate", SMALL, "--senses", "--device", "cpu", "--json")

    printed = json.loads(result.stdout)
    assert printed["model"]["format"] == "allennlp"
    assert (len(printed["scores"]), len(printed["stability"])) == (1, 0)


def test_the_best_layer_is_marked() -> None:
    lines = table(Score("one", (1.0, 3.0, 2.0), 1000, 0.5, "guess")).splitlines()
    assert "3.0*" in lines[1] and lines[1].count("*") == 1
    assert "1,000" in lines[1] and lines[1].endswith("0.5 (guess)")
