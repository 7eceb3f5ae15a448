"""The report of a fit: a table and bars for the terminal, and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from elmo_model.tasks.comparison import Comparison, Row

LEARNED: Final = "learned"
"""The name of the learned mixture."""

_BAR = 40
"""Width of the longest bar, in characters."""


def mean_weights(row: Row) -> list[float]:
    """Return the normalised weight of each layer, averaged over the seeds."""
    return [statistics.fmean(each) for each in zip(*row.weights, strict=True)]


def text(measure: str, scored: str, mixtures: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of scores in percent, and the learned weights as bars.

    `measure` is `accuracy` or `span_f1`, `scored` names the examples. A mixture has the members
    `mean`, `spread` and `weights`, one normalised weight a layer.
    """
    rows = [
        f"  {name:<10} {100 * row['mean']:6.2f} ± {100 * row['spread']:.2f}"
        for name, row in mixtures.items()
    ]
    bars = [
        f"  layer {layer:<4} {weight:6.3f} {'█' * round(_BAR * weight)}"
        for layer, weight in enumerate(mixtures[LEARNED]["weights"])
    ]
    head = f"{measure.replace('span_f1', 'span F1')} on {scored}, %"
    return "\n".join([head, *rows, "learned weights", *bars])


def text_of(comparison: Comparison) -> str:
    """Return the text of a fit in this process."""
    first = comparison.rows[0].scores[0]
    measure = "accuracy" if first.span_f1 is None else "span_f1"
    mixtures = {
        row.name: {"mean": row.mean, "spread": row.spread, "weights": mean_weights(row)}
        for row in comparison.rows
    }
    scored = f"{comparison.scored_examples:,} {comparison.scored_on} examples"
    return text(measure, scored, mixtures)


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
