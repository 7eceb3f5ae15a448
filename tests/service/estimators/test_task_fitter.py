"""`TaskFitter` in scikit-learn's tools."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from elmo_model.tasks.examples import FitError
from elmo_serve.estimators import ElmoVectorizer, TaskFitter, vectorizer
from elmo_serve.estimators.vectorizer import _network_of
from elmo_serve.models.opening import InProcess, open_network
from tests.support.servers import SMALL

SOURCE = np.random.default_rng(0)
WORDS = ["cat", "sat", "The", "mat"]
SENTENCES = [[WORDS[n], WORDS[n], WORDS[n], WORDS[0]] for n in SOURCE.integers(4, size=40)]
LABELS = [sentence[0] for sentence in SENTENCES]
FITTER = TaskFitter(str(SMALL), rounds=2)


def test_it_learns_labels_of_sentences() -> None:
    fitter = clone(FITTER).fit(SENTENCES, LABELS)

    assert fitter.weights_.shape == (3,) and fitter.gamma_ > 0
    assert fitter.shares_.sum() == pytest.approx(1)
    predicted = fitter.predict(SENTENCES)
    assert fitter.score(SENTENCES, LABELS) == np.mean(predicted == np.array(LABELS)) > 0.5
    assert list(fitter.classes_) == sorted(set(LABELS))
    again = clone(FITTER).fit(SENTENCES, LABELS)
    np.testing.assert_array_equal(again.weights_, fitter.weights_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitter)).predict(SENTENCES), predicted)


def test_it_learns_labels_of_tokens_and_decodes_legal_spans() -> None:
    tags = [["B-x", "I-x", "O", "O"] for _ in SENTENCES]

    fitter = clone(FITTER).fit(SENTENCES, tags)

    found = fitter.predict([*SENTENCES[:3], ["cat"], []])
    assert [len(labels) for labels in found] == [4, 4, 4, 1, 0]
    assert fitter.score(SENTENCES, tags) > 0.8  # the span F1


def test_labels_that_are_numbers_come_back_as_numbers() -> None:
    numbers = [10 - WORDS.index(label) for label in LABELS]

    fitter = clone(FITTER).fit(SENTENCES, iter(numbers))
    tokens = clone(FITTER).fit(SENTENCES, [[number] * 4 for number in numbers])

    predicted = fitter.predict(SENTENCES)
    assert predicted.dtype.kind == "i" and list(fitter.classes_) == [7, 8, 9, 10]
    assert fitter.score(SENTENCES, numbers) == np.mean(predicted == numbers) > 0.5
    assert set(tokens.predict(SENTENCES[:1])[0]) <= set(numbers)


def test_texts_are_split_by_the_tokenizer_of_the_model() -> None:
    texts = [f"{' '.join(sentence)} can't" for sentence in SENTENCES]
    tokens = [[*sentence, "can", "'t"] for sentence in SENTENCES]

    from_texts, from_tokens = (clone(FITTER).fit(each, LABELS) for each in (texts, tokens))

    np.testing.assert_array_equal(from_texts.weights_, from_tokens.weights_)
    np.testing.assert_array_equal(from_texts.predict(texts), from_tokens.predict(tokens))


def test_estimators_of_one_process_share_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def opening(model: str, **options: Any) -> InProcess:
        opened.append(model)
        return open_network(model, **options)

    monkeypatch.setattr(vectorizer, "open_network", opening)
    _network_of.cache_clear()

    clone(FITTER).fit(SENTENCES, LABELS).predict(SENTENCES)
    ElmoVectorizer(model=str(SMALL)).transform(SENTENCES[:1])

    assert opened == [str(SMALL)]


def test_cross_validation_and_grid_search_work() -> None:
    scores = cross_val_score(FITTER, SENTENCES, LABELS, cv=2)
    search = GridSearchCV(FITTER, {"l2_weights": [0.001, 1.0]}, cv=2).fit(SENTENCES, LABELS)

    assert scores.shape == (2,) and np.isfinite(scores).all()
    assert search.best_params_["l2_weights"] in (0.001, 1.0)
    assert search.predict(SENTENCES[:3]).shape == (3,)


def test_a_seed_is_drawn_as_in_scikit_learn() -> None:
    state = np.random.RandomState(3)
    drawn = [clone(FITTER).set_params(random_state=state) for _ in range(2)]
    for each in drawn:
        each.fit(SENTENCES, LABELS)
    first = clone(FITTER).set_params(random_state=np.random.RandomState(3)).fit(SENTENCES, LABELS)

    assert not np.array_equal(drawn[0].weights_, drawn[1].weights_)
    np.testing.assert_array_equal(drawn[0].weights_, first.weights_)
    clone(FITTER).set_params(random_state=None).fit(SENTENCES, LABELS)
    clone(FITTER).set_params(random_state=2**32 - 1).fit(SENTENCES, LABELS)
    for wrong in ("a", 1.5, -1, 2**32):
        with pytest.raises(ValueError):
            clone(FITTER).set_params(random_state=wrong).fit(SENTENCES, LABELS)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(NotFittedError):
        TaskFitter().predict([["a"]])
    with pytest.raises(ValueError, match="found 1 labels for 40 sentences"):
        clone(FITTER).fit(SENTENCES, ["x"])
    for labels in (pd.DataFrame({"label": LABELS}), "xy"):
        with pytest.raises(ValueError, match=r"^y is (a DataFrame|'xy'); expected a label a sente"):
            clone(FITTER).fit(SENTENCES, labels)
    with pytest.raises(FitError, match="every example has the label 'x'"):
        clone(FITTER).fit(SENTENCES, ["x"] * 40)
    for missing in (None, float("nan"), pd.NA):
        with pytest.raises(FitError, match=r"^label 39 is (None|nan|<NA>), expected no None"):
            clone(FITTER).fit(SENTENCES, [*LABELS[:39], missing])
        for own in (missing, ["x", "x", "x", missing]):
            with pytest.raises(FitError, match=r"^label 39 is .*, expected no None and no NaN"):
                clone(FITTER).fit(SENTENCES, [*[["x"] * 4] * 39, own])
    with pytest.raises(FitError, match=r"dropout is 1\.0"):
        clone(FITTER).set_params(dropout=1.0).fit(SENTENCES, LABELS)
