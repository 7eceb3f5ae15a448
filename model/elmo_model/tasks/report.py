"""The report of a fit: a table and bars for the terminal, and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from elmo_model.errors import counted

if TYPE_CHECKING:
    from elmo_model.tasks.comparison import Comparison, Row

LEARNED: Final = "learned"
"""The name of the learned mixture."""

_BAR = 40
"""Width of the longest bar, in characters."""


def text(scores: Mapping[str, Any]) -> str:
    """Return the table of scores in percent, and the learned weights as bars.

    `scores` are the members of `scored`, and `mixtures`: a `mixture` of each name. `top` has no
    line, because it is a layer.
    """
    mixtures = scores["mixtures"]
    rows = [
        f"  {name:<10} {100 * row['mean']:6.2f} ± {100 * row['spread']:.2f}"
        for name, row in mixtures.items()
        if name != "top"
    ]
    bars = [
        f"  layer {layer:<4} {weight:6.3f} {'█' * round(_BAR * weight)}"
        for layer, weight in enumerate(mixtures[LEARNED]["weights"])
    ]
    measure = scores["measure"].replace("span_f1", "span F1")
    examples = counted(scores["scored_examples"], f"{scores['scored_on']} example")
    head = f"{measure} on {examples}, %"
    return "\n".join([head, *rows, "learned weights", *bars])


def text_of(comparison: Comparison) -> str:
    """Return the text of a fit in this process."""
    mixtures = {row.name: mixture(row) for row in comparison.rows}
    return text({**scored(comparison), "mixtures": mixtures})


def scored(comparison: Comparison) -> dict[str, Any]:
    """Return the name of the score that `mean` of a mixture is of, and its examples."""
    spans = comparison.rows[0].scores[0].span_f1
    return {
        "scored_on": comparison.scored_on,
        "scored_examples": comparison.scored_examples,
        "measure": "accuracy" if spans is None else "span_f1",
    }


def mixture(row: Row) -> dict[str, Any]:
    """Return a mixture for a response: its score and its normalised weights, over the seeds."""
    scores = [each.as_dict() for each in row.scores]
    return {
        "mean": row.mean,
        "spread": row.spread,
        "weights": list(map(statistics.fmean, zip(*row.weights, strict=True))),
        **{name: statistics.fmean(each[name] for each in scores) for name in scores[0]},
    }


def document(comparison: Comparison) -> dict[str, Any]:
    """Return everything that the report says, for JSON."""
    return {
        **scored(comparison),
        "train_examples": comparison.train_examples,
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
