"""Fits on made-up vectors in which one layer, or a sum of two, holds the label; their files."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from elmo_model.network.elmo import Origin
from elmo_model.tasks.comparison import (
    HEAD,
    REPORT,
    Comparison,
    FittedTask,
    Row,
    compare,
    digest,
    json_bytes,
    split,
)
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.fitter import FitOptions, Fitted, MixtureHead
from elmo_model.tasks.scores import Scores
from tests.support.made_up_vectors import encode, learned, tagged

OPTIONS = FitOptions(seeds=2, rounds=1, batch=32)
ONE = FitOptions(seeds=1, rounds=2, batch=32)


def test_the_mix_finds_the_layer_that_holds_the_label() -> None:
    found = compare(encode, tagged(80, 0), tagged(40, 1), OPTIONS)

    assert found.rows[0].name == "learned" and found.scored_on == "test"
    assert found.data == digest(tagged(80, 0))
    assert all(weights[1] == max(weights) for weights in found.rows[0].weights)
    assert found.row("layer 1").mean > found.row("layer 0").mean + 0.2
    assert found.rows[0].mean > found.row("average").mean
    assert found.row("sum").mean == pytest.approx(found.row("average").mean, abs=0.05)


def test_a_seed_and_the_data_decide_the_result() -> None:
    one, two, other = (learned(tagged(30, seed), ONE) for seed in (0, 0, 1))

    assert one == two and one.weights != other.weights
    assert digest(tagged(30, 0)) == digest(tagged(30, 0)) != digest(tagged(30, 1))


def test_sentences_and_pairs_are_fitted_on_means() -> None:
    source = np.random.default_rng(3)
    letters = [["a", "b"][n] for n in source.integers(2, size=60)]
    single = Examples.of_sentences(([f"{c}{n}", f"{c}{n + 1}"], c) for n, c in enumerate(letters))
    pairs = Examples.of_pairs(
        ((([f"a{n}"], None), ([f"{c}{n}"], 0), "same" if c == "a" else "other"))
        for n, c in enumerate(letters)
    )

    for examples in (single, pairs):
        assert learned(examples, ONE).mean > 0.8


def test_a_split_never_cuts_a_sentence() -> None:
    examples = tagged(20, 0)
    kept, held = split(examples, 0.25, seed=1)

    groups = examples.groups
    assert {groups[n] for n in kept}.isdisjoint({groups[n] for n in held})
    assert len({groups[n] for n in held}) == 5
    assert sorted([*kept, *held]) == list(range(len(examples)))


def test_one_class_is_refused() -> None:
    with pytest.raises(FitError, match="every example has the label 'x'"):
        compare(encode, Examples.of_sentences([(["a"], "x"), (["b"], "x")]), None, OPTIONS)


HEAD_OF_BEST = MixtureHead(3, 4, 2)
torch.nn.init.normal_(HEAD_OF_BEST.linear.weight)
TASK = FittedTask(
    name="ner",
    kind="token",
    options=FitOptions(seeds=2),
    found=Comparison(
        rows=(Row("learned", ((0.2, 0.5, 0.3),) * 2, (Scores(0.5, 0, 0), Scores(0.7, 0, 0))),),
        best=Fitted(("Zürich", "O"), HEAD_OF_BEST, Scores(1, 1, 1), 3),
        scored_on="validation",
        train_examples=10,
        scored_examples=2,
        data="ab" * 32,
    ),
    origin=Origin(name="small", format="allennlp", revision="0123abcd"),
)


def test_the_head_is_read_back_with_its_labels(tmp_path: Path) -> None:
    TASK.write(tmp_path / "new" / "folder")

    with safe_open(tmp_path / "new" / "folder" / HEAD, "pt") as file:
        assert torch.equal(file.get_tensor("weight"), HEAD_OF_BEST.linear.weight)
        assert torch.equal(file.get_tensor("bias"), HEAD_OF_BEST.linear.bias)
        assert json.loads(file.metadata()["labels"]) == ["Zürich", "O"]
        assert file.metadata()["kind"] == "token"


def test_the_report_is_written_and_replaced(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_text("old")

    TASK.write(tmp_path)

    report = json.loads((tmp_path / REPORT).read_text(encoding="utf-8"))
    assert report["model"]["revision"] == "0123abcd"
    assert report["options"]["seeds"] == 2
    assert report["mixtures"]["learned"]["mean"] == pytest.approx(0.6)
    assert {path.name for path in tmp_path.iterdir()} == {HEAD, REPORT}


def test_the_object_fit_says_what_the_weights_were_learned_from() -> None:
    fit = TASK.fit

    assert (fit["model"], fit["revision"], fit["data"]) == ("small", "0123abcd", "ab" * 32)
    assert (fit["kind"], fit["seeds"], fit["scored_on"]) == ("token", 2, "validation")
    assert fit["score"] == pytest.approx(0.6)
    assert fit["spread"] == pytest.approx(0.02**0.5)


def test_json_is_utf8_and_ends_with_a_line_feed() -> None:
    assert json_bytes({"a": "ü"}) == '{\n  "a": "ü"\n}\n'.encode()
