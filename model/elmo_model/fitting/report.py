"""The report of a fit: a table and bars for the terminal, and JSON."""

import statistics
from typing import Any

from elmo_model.fitting.comparison import LEARNED, Comparison, Row

_BAR = 40
"""Width of the longest bar, in characters."""


def mean_weights(row: Row) -> list[float]:
    """Return the normalised weight of each layer, averaged over the seeds."""
    return [statistics.fmean(each) for each in zip(*row.weights, strict=True)]


def text(comparison: Comparison) -> str:
    """Return the table of scores in percent, and the learned weights as bars."""
    first = comparison.rows[0].scores[0]
    measure = "accuracy" if first.span_f1 is None else "span F1"
    lines = [f"{measure} on {comparison.scored_examples:,} {comparison.scored_on} examples, %"]
    rows = [
        f"  {row.name:<10} {100 * row.mean:6.2f} ± {100 * row.spread:.2f}"
        for row in comparison.rows
    ]
    bars = [
        f"  layer {layer:<4} {weight:6.3f} {'█' * round(_BAR * weight)}"
        for layer, weight in enumerate(mean_weights(comparison.row(LEARNED)))
    ]
    return "\n".join([*lines, *rows, "learned weights", *bars])


def document(comparison: Comparison) -> dict[str, Any]:
    """Return everything that the report says, for JSON."""
    return {
        "scored_on": comparison.scored_on,
        "train_examples": comparison.train_examples,
        "scored_examples": comparison.scored_examples,
        "data": comparison.data,
        "classes": list(comparison.best.classes),
        "mixtures": {
            row.name: {
                "mean": row.mean,
                "spread": row.spread,
                "weights": [list(weights) for weights in row.weights],
                "scores": [scores.as_dict() for scores in row.scores],
            }
            for row in comparison.rows
        },
    }
