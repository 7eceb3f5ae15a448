"""`ElmoVectorizer` in scikit-learn's tools, in this process and over HTTP."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from elmo_client import RequestRefused
from elmo_model.checkpoints import CheckpointError
from elmo_model.models.opening import open_model
from elmo_model.text.tokenizers import tokenizer
from elmo_serve.models.checks import DownloadError
from elmo_serve.vectorizer import ElmoVectorizer, tokens_of
from tests.support.checkpoints import write_pair
from tests.support.servers import SMALL, Running
from tests.support.vectors import all_close, layers_of

SENTENCES = [["The", "cat"], ["sat", "."], ["mat"], ["The", "mat", "sat"]] * 5
LABELS = ["a", "b", "b", "a"] * 5
LOCAL = ElmoVectorizer(model=str(SMALL))


def test_the_vectors_are_pooled_layers() -> None:
    layers = layers_of(open_model(SMALL), SENTENCES)

    average = LOCAL.transform(SENTENCES)
    top = clone(LOCAL).set_params(layers=2, pooling="max").transform(SENTENCES)

    all_close(average, [each.mean(0).mean(0) for each in layers])
    all_close(top, [each[2].max(0) for each in layers])


def test_published_names_are_found_by_the_variables_of_the_cache_and_an_address_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    monkeypatch.setenv("ELMO_OFFLINE", "1")

    with pytest.raises(DownloadError, match=f"{tmp_path}/small/.* as ELMO_OFFLINE is set"):
        ElmoVectorizer(model="Small").transform([["a"]])
    with pytest.raises(CheckpointError, match=r"^http://localhost:1: "):
        ElmoVectorizer(model="http://localhost:1").transform([["a"]])


def test_a_pipeline_a_grid_search_and_cross_validation_work() -> None:
    pipeline = make_pipeline(LOCAL, LogisticRegression())

    assert pipeline.fit(SENTENCES, LABELS).score(SENTENCES, LABELS) == 1
    assert cross_val_score(pipeline, SENTENCES, LABELS, cv=2).shape == (2,)
    grid = {"elmovectorizer__layers": ["top", "average", 0]}
    assert GridSearchCV(pipeline, grid, cv=2).fit(SENTENCES, LABELS).best_score_ > 0.5


def test_no_sentence_has_no_row_of_the_same_width(server: Running) -> None:
    for vectorizer in (LOCAL, ElmoVectorizer(server.url, layers="concat")):
        assert vectorizer.transform([]).shape == (0, vectorizer.transform([["a"]]).shape[1])


def test_a_server_gives_the_same_vectors(server: Running) -> None:
    for options in ({"layers": 1, "normalize": True}, {"mix": {"weights": [1, 2, 3], "gamma": 2}}):
        here = clone(LOCAL).set_params(**options).transform(SENTENCES)
        all_close(ElmoVectorizer(server.url, **options).transform(SENTENCES), here)


def test_a_text_is_split_by_the_tokenizer_of_the_model(tmp_path: Path) -> None:
    french = tmp_path / "multilingual-fr"  # a model at a path is known by its folder
    shutil.copytree(SMALL, french)
    for name, tokens in (
        (None, ["It", "can'", "t", "rain", "."]),
        ("moses", ["It", "can'", "t", "rain", "."]),
        ("ptb", ["It", "ca", "n't", "rain", "."]),
    ):
        vectorizer = ElmoVectorizer(model=str(french), tokenizer=name)
        found = vectorizer.transform(["It can't rain."])
        all_close(found, LOCAL.transform([tokens]))


def test_a_text_is_split_by_the_tokenizer_of_the_servers_model(server: Running) -> None:
    vectorizer = ElmoVectorizer(server.url)

    found = vectorizer.transform(["It can't rain."])

    all_close(found, vectorizer.transform([["It", "can", "'t", "rain", "."]]))


def test_a_server_is_asked_for_the_model_that_is_named(server: Running) -> None:
    with pytest.raises(RequestRefused, match="nowhere"):
        ElmoVectorizer(server.url, model="nowhere").transform(SENTENCES)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_cloneable,
    ],
)
def test_it_keeps_the_conventions_of_scikit_learn(check: Callable[[str, object], None]) -> None:
    check("ElmoVectorizer", ElmoVectorizer())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "none"}, "pooling is 'none', expected mean or max"),
        ({"layers": "all"}, "layers is 'all'"),
        ({"url": "english"}, r"'english' is not the URL"),
        ({"layers": [0, 2]}, r"layers is \[0, 2\]"),
        ({"task": "ner"}, "task is 'ner', expected the path of a task file"),
        ({"mix": [1.0]}, "found 1 number, this model takes 3"),
        ({"mix": {"weights": [0, 0, 0], "gamma": 2000}}, "mix.gamma is 2000, expected"),
        ({"mix": {"weight": [0, 0, 0]}}, "mix.weights is missing"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clone(LOCAL).set_params(**options).transform(SENTENCES)


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1"], ids=["here", "there"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mix": [0, 0, 0], "layers": "top"}, "at most one"),
        ({"mix": "average"}, "mix.weights"),
        ({"mix": ["a", 0, 0]}, "mix.weights.0"),
    ],
)
def test_options_are_checked_alike_here_and_for_a_server(
    url: str | None, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        clone(LOCAL).set_params(url=url, **options).fit(SENTENCES)


def test_a_task_file_is_used_here_as_its_server_uses_it(tmp_path: Path) -> None:
    mix = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5, "layer_norm": True}
    path = tmp_path / "ner.json"
    path.write_text(json.dumps({"name": "ner", **mix, "fit": {"score": 0.5}}))

    found = clone(LOCAL).set_params(task=path).transform(SENTENCES)

    np.testing.assert_array_equal(found, clone(LOCAL).set_params(mix=mix).transform(SENTENCES))
    for member, message in (
        ({"weights": [0.5]}, "found 1 number, this model takes 3"),
        ({"gamma": "x"}, r"ner\.json: .*gamma"),
        ({"revision": "0123"}, r"ner\.json: is for revision '0123', expected [0-9a-f]+"),
    ):
        path.write_text(json.dumps({"name": "ner", **mix, **member}))
        with pytest.raises(ValueError, match=message):
            clone(LOCAL).set_params(task=str(path)).transform(SENTENCES)


def test_columns_of_tables_have_names(server: Running) -> None:
    table = pd.DataFrame({"text": ["a b", "c"], "length": [2, 1]}, index=[7, 9])
    for vectorizer in (clone(LOCAL), ElmoVectorizer(server.url, layers="concat")):
        columns = make_column_transformer((vectorizer, "text"), remainder="passthrough")

        found = columns.set_output(transform="pandas").fit_transform(table)

        vectors = vectorizer.set_output(transform="default").transform(table["text"])
        names = [f"elmovectorizer__elmovectorizer{n}" for n in range(vectors.shape[1])]
        assert list(found.columns) == [*names, "remainder__length"]
        np.testing.assert_array_equal(found[names], vectors)
        assert list(found.index) == [7, 9]


def test_a_task_goes_with_neither_mix_nor_layers() -> None:
    for options in ({"mix": [0, 0, 0]}, {"layers": "top"}):
        with pytest.raises(ValueError, match=r"task( and mix)? are given; give at most one"):
            ElmoVectorizer("http://127.0.0.1:1", task="ner", **options).fit(SENTENCES)


def test_a_file_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(SMALL, model)
    before = ElmoVectorizer(model=model).transform(["a b"])
    other = write_pair(tmp_path / "other")
    for file in other.iterdir():
        shutil.copy(file, model)

    after = ElmoVectorizer(model=model).transform(["a b"])

    expected = ElmoVectorizer(model=other).transform(["a b"])
    np.testing.assert_array_equal(after, expected)
    assert after.shape != before.shape or not np.allclose(after, before)


def test_texts_and_lists_of_tokens_are_sentences() -> None:
    assert tokens_of(["a dog.", ["a", "dog"], (), np.array(["x"])], tokenizer("ptb")) == [
        *(["a", "dog", "."], ["a", "dog"], [], ["x"]),
    ]
    assert tokens_of(np.array(["a b", "c"]), tokenizer("whitespace")) == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("a text", "sentences is 'a text'; expected a list of texts"),
        (pd.DataFrame({"text": ["a text"]}), "sentences is a DataFrame; expected a list of texts"),
        ([["a"], 3], "sentence 1 is 3"),
        ([[1]], "sentence 0"),
    ],
)
def test_other_things_are_refused(sentences: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tokens_of(sentences, tokenizer("whitespace"))


def test_sentences_without_tokens_are_counted_in_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert tokens_of(["", "a", []], tokenizer("whitespace")) == [[], ["a"], []]

    (record,) = caplog.records
    assert record.getMessage() == "sentences without tokens, whose vectors are zeros: 2"
