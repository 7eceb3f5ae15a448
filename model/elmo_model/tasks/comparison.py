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
from elmo_model.tasks.scores import MeanScore, Measure, Score
from elmo_model.tasks.spans import spans

LEARNED: Final = "learned"
"""The name of the learned mixture."""

AVERAGE: Final = "average"
"""The name of the mixture with equal weights."""


@dataclass(frozen=True, slots=True)
class Row:
    """One mixture, with the normalised weights and the two scores of each seed.

    `scores` are of the scored part, `validation` of the part that decided when to stop: the same
    where there is no test part.
    """

    name: str
    weights: tuple[tuple[float, ...], ...]
    scores: tuple[Score, ...]
    validation: tuple[Score, ...]

    @property
    def mean(self) -> MeanScore:
        """The mean score over the seeds, with its error over sentences."""
        return MeanScore.of(self.scores)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation of the score over the seeds; None for one seed."""
        values = [score.value for score in self.scores]
        return statistics.stdev(values) if len(values) > 1 else None


@dataclass(frozen=True, slots=True)
class Scored:
    """The part that is scored, and by which measure.

    `part` is "test", or "validation" where there is no test part. `spans` is None where the labels
    are none of spans. `reason` says why the labels of tokens have no span F1; empty where they do.
    """

    part: str
    measure: Measure
    reason: str
    kind: Kind
    examples: int
    sentences: int
    spans: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows, the learned one first, and the fit of the seed that validates best.

    `data` is the SHA-256 of the training examples.
    """

    rows: tuple[Row, ...]
    best: Fitted
    scored: Scored
    train_examples: int
    data: str

    def row(self, name: str) -> Row:
        """Return the row of a mixture."""
        return next(row for row in self.rows if row.name == name)

    @property
    def equal(self) -> Mapping[str, MeanScore]:
        """The rows that cannot be told from the best one, by their scores, the best one first."""
        return _equal_to_best({row.name: row.mean for row in self.rows})

    @property
    def recommended(self) -> tuple[str, str]:
        """The row to take, and the best one, by the validation parts.

        Among equals it is the average, which needs no task file.
        """
        equal = _equal_to_best({row.name: MeanScore.of(row.validation) for row in self.rows})
        best = next(iter(equal))
        return (AVERAGE if AVERAGE in equal else best), best


def compare(
    encode: Encode,
    train: Examples,
    test: Examples | None,
    options: FitOptions,
    on_step: OnStep = ignore,
) -> Comparison:
    """Fit the learned mixture, the average and every layer alone, from every seed.

    Each seed draws its own validation part, sentence by sentence. Scores are span F1 where the
    training labels are spans, and the scored part and both parts of the training sentences have
    one; else accuracy. Raises FitError for examples that nothing can be learned from.
    """
    splits = [split(train, options.validation, seed) for seed in range(options.seeds)]
    scored = _scored(train, test, splits)
    with ExitStack() as stack:
        parts = [
            stack.enter_context(features_of(encode, part, on_tokens=partial(on_step, name)))
            for name, part in (
                ("Vectors of the training examples", train),
                ("Vectors of the test examples", test),
            )
            if part is not None
        ]
        fit = partial(fit_once, options=options, measure=scored.measure)
        on_fit = partial(on_step, "Fitting", unit="fits")
        tested = parts[1] if parts[1:] else None
        rows, best = _fits(parts[0], tested, splits, fit, scored.measure, on_fit)
    return Comparison(rows, best, scored, len(train), digest(train))


def has_span(labels: Sequence[str]) -> bool:
    """Return whether the IOB2 labels of a sentence have a span."""
    return any(label != "O" for label in labels)


def fixed_mixtures(layers: int) -> Mapping[str, tuple[float, ...]]:
    """Return the weights of the fixed mixtures by name, for L + 1 layers."""
    each = {
        f"layer {number}": tuple(float(number == other) for other in range(layers))
        for number in range(layers)
    }
    return {AVERAGE: (1 / layers,) * layers, **each}


def _scored(
    train: Examples,
    test: Examples | None,
    splits: Sequence[tuple[list[int], list[int]]],
) -> Scored:
    """Decide by which measure which part is scored.

    Without a test part the counts are of all sentences that a seed holds out.
    """
    held = sorted({number for _, held in splits for number in held})
    part, examples = ("validation", train.take(held)) if test is None else ("test", test)
    found = sum(len(spans(labels)) for labels in examples.labels)
    reason = ""
    if examples.kind == "token":
        if not train.are_spans:
            reason = "the labels are no spans"
        elif sum(map(has_span, train.labels)) < 2:
            reason = "fewer than two training sentences have a span"
        elif not found:
            reason = "the scored part has no span"
    measure: Measure = "span_f1" if train.are_spans and not reason else "accuracy"
    count = len(examples.sentences)
    spans_found = found if train.are_spans else None
    return Scored(part, measure, reason, examples.kind, len(examples), count, spans_found)


def _fits(
    train: Features,
    test: Features | None,
    splits: Sequence[tuple[list[int], list[int]]],
    fit: Callable[..., Fitted],
    measure: Measure,
    on_fit: Callable[[int, int], None],
) -> tuple[tuple[Row, ...], Fitted]:
    """Return the row of each mixture, and the best fit of the learned one."""
    mixtures: dict[str, tuple[float, ...] | None] = {LEARNED: None, **fixed_mixtures(train.layers)}
    rows, best = list[Row](), list[Fitted]()
    total = len(splits) * len(mixtures)
    for name, fixed in mixtures.items():
        learned = train if fixed is None else train.mixed(fixed)
        tested = test if test is None or fixed is None else test.mixed(fixed)
        fits = list[Fitted]()
        for seed, (kept, held) in enumerate(splits):
            fits.append(fit(learned.take(kept), learned.take(held), seed=seed))
            on_fit(len(rows) * len(splits) + len(fits), total)
        validation = tuple(each.validation for each in fits)
        scores = tuple(each.score(tested, measure) for each in fits) if tested else validation
        weights = tuple(fixed or _softmax(each.weights) for each in fits)
        rows.append(Row(name, weights, scores, validation))
        if fixed is None:
            best.append(max(fits, key=lambda each: each.validation.value))
    return tuple(rows), best[0]


def _equal_to_best(scores: Mapping[str, MeanScore]) -> dict[str, MeanScore]:
    """Return the scores that equal the highest one, from high to low."""
    ordered = sorted(scores.items(), key=lambda item: -item[1].value)
    return {name: score for name, score in ordered if score.equals(ordered[0][1])}


def split(examples: Examples, validation: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the sentences to learn from and of those held out.

    Sentences are drawn, not examples. If the labels are spans and two sentences have one, then so
    has each part: one without exchanges its last sentence for the next of the permutation that has
    a span. A single such sentence is learned from. Raises FitError where one of the two parts is
    empty or the learned part has one label alone.
    """
    labels = examples.labels
    used = [number for number, each in enumerate(labels) if each]
    count = max(1, round(validation * len(used)))
    order = [used[n] for n in np.random.default_rng(seed).permutation(len(used))]
    spanned = [place for place, number in enumerate(order) if has_span(labels[number])]
    if examples.are_spans and spanned and count < len(order):
        if spanned[-1] < count:
            _exchange(order, len(order) - 1, spanned[-1])
        elif spanned[0] >= count and spanned[1:]:
            _exchange(order, count - 1, spanned[0])
    left = f"validation {validation:g} leaves {len(used) - count} of {len(used)} sentences"
    kept, held = sorted(order[count:]), sorted(order[:count])
    examples.take(kept).check(left)
    return kept, held


def _exchange(order: list[int], one: int, other: int) -> None:
    order[one], order[other] = order[other], order[one]


def digest(examples: Examples) -> str:
    """Return the SHA-256, in hex, of sentences and labels."""
    content = json.dumps([examples.kind, examples.sentences, examples.labels])
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _softmax(weights: Sequence[float]) -> tuple[float, ...]:
    shares = np.exp(np.array(weights) - max(weights))
    return tuple(float(share) for share in shares / shares.sum())
