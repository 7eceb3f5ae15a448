"""The learned mixture beside fixed ones, each fitted from several seeds."""

import hashlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from elmo_model.steps import OnStep, ignore
from elmo_model.tasks.examples import Examples, Kind
from elmo_model.tasks.features import Encode, Features, features_of
from elmo_model.tasks.fitter import FitOptions, Fitted, fit_once
from elmo_model.tasks.scores import Scores, is_bio, spans

LEARNED: Final = "learned"
"""The name of the learned mixture."""


@dataclass(frozen=True, slots=True)
class Row:
    """One mixture: the normalised weights of each seed, and the scores of each seed."""

    name: str
    weights: tuple[tuple[float, ...], ...]
    scores: tuple[Scores, ...]

    @property
    def mean(self) -> float:
        """The mean of the main score over the seeds."""
        return statistics.fmean(scores.main for scores in self.scores)

    @property
    def spread(self) -> float:
        """The sample standard deviation of the main score over the seeds; 0 for one seed."""
        values = [scores.main for scores in self.scores]
        return statistics.stdev(values) if len(values) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Scored:
    """What a score is of: examples, their sentences or pairs, and for BIO labels their spans."""

    kind: Kind
    examples: int
    sentences: int
    spans: int | None = None

    @classmethod
    def of(cls, examples: Examples) -> "Scored":
        """Count the examples of a part."""
        found = None
        if is_bio(examples.classes):
            found = sum(len(spans(labels)) for labels in examples.by_sentence(examples.labels))
        return cls(examples.kind, len(examples), len(set(examples.groups)), found)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows, the learned one first, and the fit of the seed that validates best.

    `scored_on` says which part the scores are of: "test", or "validation" where there is no test
    part. `data` is the SHA-256 of the training examples.
    """

    rows: tuple[Row, ...]
    best: Fitted
    scored_on: str
    train_examples: int
    scored: Scored
    data: str

    def row(self, name: str) -> Row:
        """Return the row of a mixture."""
        return next(row for row in self.rows if row.name == name)


def compare(
    encode: Encode,
    train: Examples,
    test: Examples | None,
    options: FitOptions,
    on_step: OnStep = ignore,
) -> Comparison:
    """Fit the learned mixture, the average, the sum and every layer alone, from every seed.

    Each seed draws its own validation part, sentence by sentence. Raises FitError for examples
    that nothing can be learned from.
    """
    splits = [split(train, options.validation, seed) for seed in range(options.seeds)]
    with ExitStack() as stack:
        parts = [
            stack.enter_context(features_of(encode, part, on_tokens=partial(on_step, name)))
            for name, part in (
                ("Vectors of the training examples", train),
                ("Vectors of the test examples", test),
            )
            if part is not None
        ]
        on_fit = partial(on_step, "Fitting", unit="fits")
        rows, best = _fits(parts[0], parts[1] if parts[1:] else None, splits, options, on_fit)
    scored = Scored.of(train.take(splits[-1][1]) if test is None else test)
    scored_on = "validation" if test is None else "test"
    return Comparison(rows, best, scored_on, len(train), scored, digest(train))


def fixed_mixtures(layers: int) -> Mapping[str, tuple[float, ...]]:
    """Return the weights of the fixed mixtures by name, for L + 1 layers."""
    each = {
        f"layer {number}": tuple(float(number == other) for other in range(layers))
        for number in range(layers)
    }
    return {"average": (1 / layers,) * layers, "sum": (1.0,) * layers, **each}


def _fits(
    train: Features,
    test: Features | None,
    splits: Sequence[tuple[list[int], list[int]]],
    options: FitOptions,
    on_fit: Callable[[int, int], None],
) -> tuple[tuple[Row, ...], Fitted]:
    """Return the row of each mixture, and the best fit of the learned one."""
    mixtures: dict[str, tuple[float, ...] | None] = {LEARNED: None, **fixed_mixtures(train.layers)}
    rows, best = list[Row](), None
    done, total = 0, len(splits) * len(mixtures)
    for name, weights in mixtures.items():
        own = train if weights is None else train.mixed(weights)
        tested = test if test is None or weights is None else test.mixed(weights)
        scores, learned = [], []
        for seed, (kept, held) in enumerate(splits):
            fitted = fit_once(own.take(kept), own.take(held), options, seed)
            scores.append(fitted.validation if tested is None else fitted.score(tested))
            learned.append(_softmax(fitted.weights) if weights is None else weights)
            if weights is None and (best is None or fitted.validation.main > best.validation.main):
                best = fitted
            done += 1
            on_fit(done, total)
        rows.append(Row(name, tuple(learned), tuple(scores)))
    assert best is not None  # the learned mixture is one of them
    return tuple(rows), best


def split(examples: Examples, validation: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the examples to learn from and of those held out.

    Sentences are drawn, not examples. Raises FitError where one of the two parts is empty or the
    learned part has one label alone.
    """
    groups = examples.groups
    distinct = sorted(set(groups))
    count = max(1, round(validation * len(distinct)))
    drawn = np.random.default_rng(seed).permutation(len(distinct))[:count]
    held_groups = {distinct[number] for number in drawn}
    held = [number for number, group in enumerate(groups) if group in held_groups]
    kept = [number for number, group in enumerate(groups) if group not in held_groups]
    left = f"validation {validation:g} leaves {len(distinct) - count} of {len(distinct)} sentences"
    examples.take(kept).check(left)
    return kept, held


def digest(examples: Examples) -> str:
    """Return the SHA-256, in hex, of sentences, places and labels."""
    content = json.dumps([examples.kind, examples.sentences, examples.places, examples.labels])
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _softmax(weights: Sequence[float]) -> tuple[float, ...]:
    shares = np.exp(np.array(weights) - max(weights))
    return tuple(float(share) for share in shares / shares.sum())
