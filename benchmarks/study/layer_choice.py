"""Which weighting wins, which layers a task chooses, and what the penalty does to its choice."""

from dataclasses import replace
from pathlib import Path

from benchmarks.study.results import Part
from benchmarks.study.sets import EvaluationSet
from elmo_model.tasks.comparison import Comparison, compare_features, fixed_mixtures
from elmo_model.tasks.features import Encode, features_of
from elmo_model.tasks.fitter import FitOptions
from elmo_model.tasks.report import LEARNED

PENALTIES = (0.001, 1.0)
"""The two lambdas of the paper (section 5.1). The fixed mixtures have none: they learn no s."""


def layer_choice(
    chosen: EvaluationSet, folder: Path, encode: Encode, *, limit: int | None, options: FitOptions
) -> Part:
    """Fit the learned mixture with each penalty, and the fixed ones, on one evaluation set.

    The penalty of `options` does not count.
    """
    train = chosen.read(folder, "train", limit)
    test = chosen.read(folder, "test", limit)
    train.check(f"{chosen.name}, train")
    mixtures: Part = {}
    with features_of(encode, train) as features, features_of(encode, test) as tested:
        for penalty in PENALTIES:
            found = compare_features(
                features,
                tested,
                replace(options, l2_weights=penalty),
                fixed=fixed_mixtures(features.layers) if penalty == PENALTIES[0] else {},
            )
            mixtures |= _rows(found, penalty)
    return {
        "task": chosen.name,
        "train_examples": len(train),
        "test_examples": len(test),
        "measure": "accuracy" if found.rows[0].scores[0].span_f1 is None else "span F1",
        "mixtures": mixtures,
    }


def _rows(found: Comparison, penalty: float) -> Part:
    return {
        f"learned, lambda {penalty:g}" if row.name == LEARNED else row.name: {
            "weights": [list(weights) for weights in row.weights],
            "scores": [scores.main for scores in row.scores],
        }
        for row in found.rows
    }
