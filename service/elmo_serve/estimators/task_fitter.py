"""A classifier on frozen ELMo vectors: a scalar mix and a linear head, learned together."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from elmo_client.transport.requests import check_several
from elmo_model.errors import shown
from elmo_model.tasks.comparison import split
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.tasks.features import encode_by, features_of
from elmo_model.tasks.fitter import FitOptions, fit_once
from elmo_serve.elmo_embedder import warn_of_first
from elmo_serve.estimators.vectorizer import network_of, tokens_of

_MISSING = ("None", "nan", "<NA>", "NaT")  # the texts of None and of the NaN of NumPy and pandas


class TaskFitter(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns gamma, s and a linear head (Peters et al. 2018, equation 1), as `elmo fit` does.

    A label a sentence classifies the mean over its tokens; a list of labels a sentence, one a
    token, classifies tokens, and BIO labels are decoded to legal sequences. The vectors are
    computed in this process; estimators of one process share the network.

    Args:
        model: the name of a model or a path; a published model is found by ELMO_CACHE, ELMO_MIRROR
            and ELMO_OFFLINE.
        precision: of the network.
        tokenizer: for sentences that are texts; None for that of the model.
        layer_norm: normalise each layer over its sentence first.
        l2_weights: the paper's lambda on s.
        dropout: on the mixed vectors.
        validation: the part of the sentences, from 0 to 1, that decides when to stop.
        rounds: the most rounds of training.
        random_state: seed of the validation part and of the training, a whole number; None, or a
            RandomState of NumPy, draws one for each `fit`.

    After `fit`: `weights_` (L + 1 raw scalars, as task files hold them), `gamma_`, `shares_` (the
    weights after the softmax), `classes_` and `validation_score_`.
    """

    def __init__(
        self,
        model: str | Path = "english",
        *,
        precision: str = "float32",
        tokenizer: str | None = None,
        layer_norm: bool = False,
        l2_weights: float = 0.001,
        dropout: float = 0.0,
        validation: float = 0.1,
        rounds: int = 20,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.model = model
        self.precision = precision
        self.tokenizer = tokenizer
        self.layer_norm = layer_norm
        self.l2_weights = l2_weights
        self.dropout = dropout
        self.validation = validation
        self.rounds = rounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 - scikit-learn's names
        """Learn from sentences `X` and their labels `y`.

        Labels may be strings or numbers. Raises a ValueError for options out of range, one class
        alone, labels that are None or NaN, a table of them, and numbers of labels that do not fit.
        """
        options = FitOptions(
            validation=self.validation,
            seeds=1,
            layer_norm=self.layer_norm,
            l2_weights=self.l2_weights,
            dropout=self.dropout,
            rounds=self.rounds,
        )
        labels = _labels(y)
        examples = self._examples(X, labels)
        examples.check("training examples")
        seed = _seed(self.random_state)
        kept, held = split(examples, self.validation, seed)
        with features_of(self._encode, examples) as features:
            self.fitted_ = fit_once(features.take(kept), features.take(held), options, seed)
        self.kind_ = examples.kind
        self._given = _by_text(labels)
        self.classes_ = np.unique([self._given[each] for each in self.fitted_.classes])
        self.weights_ = np.array(self.fitted_.weights)
        self.shares_ = np.exp(self.weights_) / np.exp(self.weights_).sum()
        self.gamma_ = self.fitted_.gamma
        self.validation_score_ = self.fitted_.validation.main
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return a label a sentence, (n,), or a list of labels a sentence if fitted on tokens."""
        check_is_fitted(self)
        tokens = self._tokens(X)
        if self.kind_ == "sentence":
            found = self._predicted(Examples.of_sentences((each, "") for each in tokens))
            return np.array([self._given[each] for each in found], dtype=self.classes_.dtype)
        found = self._predicted(Examples.of_tokens((each, [""] * len(each)) for each in tokens))
        rest = iter([self._given[each] for each in found])
        return [[next(rest) for _ in each] for each in tokens]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the accuracy; for BIO labels the span F1."""
        check_is_fitted(self)
        examples = self._examples(X, _labels(y))
        with features_of(self._encode, examples) as features:
            return self.fitted_.score(features).main

    def _predicted(self, examples: Examples) -> list[str]:
        if not len(examples):
            return []
        with features_of(self._encode, examples) as features:
            return self.fitted_.predict(features)

    def _examples(self, sentences: Any, labels: list[Any]) -> Examples:
        tokens = self._tokens(sentences)
        if len(tokens) != len(labels):
            raise ValueError(f"found {len(labels)} labels for {len(tokens)} sentences")
        if labels and _is_list(labels[0]):
            return Examples.of_tokens(
                (each, [str(label) for label in own])
                for each, own in zip(tokens, labels, strict=True)
            )
        pairs = zip(tokens, labels, strict=True)
        return Examples.of_sentences((each, str(label)) for each, label in pairs)

    def _encode(self, sentences: Sequence[Sequence[str]]) -> Any:
        encoder = network_of(self.model, self.precision).encoder
        return encode_by(encoder, layer_norm=self.layer_norm)(sentences)

    def _tokens(self, sentences: Any) -> list[list[str]]:
        network = network_of(self.model, self.precision)
        tokens = tokens_of(sentences, network.tokenizer(self.tokenizer))
        warn_of_first(tokens, network.info.token_limit)
        return tokens


def _seed(random_state: Any) -> int:
    """Return the number itself, or a seed that is drawn by the rules of scikit-learn."""
    source = check_random_state(random_state)
    drawn = random_state if isinstance(random_state, Integral) else source.randint(2**31 - 1)
    return int(drawn)


def _labels(y: Any) -> list[Any]:
    """Return labels as a list.

    Raises ValueError for a string or a table, and, with the number and the value, for a label that
    is or holds None or NaN.
    """
    check_several(y, "y", "a label a sentence, such as one column of a table")
    labels = list(y)
    for number, label in enumerate(labels):
        for each in label if _is_list(label) else [label]:
            if str(each) in _MISSING and not isinstance(each, str):
                raise FitError(f"label {number} is {shown(label)}, expected no None and no NaN")
    return labels


def _by_text(labels: Any) -> dict[str, Any]:
    """Return the labels, of sentences or of tokens, by the text that the fit has for them."""
    flat = (each for label in labels for each in (label if _is_list(label) else [label]))
    return {str(label): label for label in flat}


def _is_list(label: object) -> bool:
    return isinstance(label, list | tuple) or (isinstance(label, np.ndarray) and label.ndim > 0)
