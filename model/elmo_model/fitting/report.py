"""The report of a fit: a table and bars for the terminal, JSON, and a picture of the weights."""

import statistics
from typing import Any

from elmo_model import svg
from elmo_model.fitting.comparison import LEARNED, Comparison, Row

_BAR = 40
"""Width of the longest bar, in characters."""

_STYLE = ".bar{fill:#2a6f97}.dot{fill:#d97706}@media(prefers-color-scheme:dark){.bar{fill:#7cc6ec}}"


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


def picture(comparison: Comparison, title: str) -> str:
    """Return an SVG of the learned weights: a bar a layer, a dot a seed."""
    row = comparison.row(LEARNED)
    weights = mean_weights(row)
    height = 60 + 36 * len(weights)
    parts: list[str] = []
    for layer, weight in enumerate(weights):
        top = 44 + 36 * layer
        parts.append(svg.text(10, top + 16, f"layer {layer}"))
        parts.append(f'<rect class="bar" x="80" y="{top}" width="{360 * weight:.1f}" height="22"/>')
        parts += [
            f'<circle class="dot" cx="{80 + 360 * seed[layer]:.1f}" cy="{top + 11}" r="4"/>'
            for seed in row.weights
        ]
        parts.append(svg.text(450, top + 16, f"{weight:.3f}"))
    return svg.document(title, 520, height, _STYLE, parts)
