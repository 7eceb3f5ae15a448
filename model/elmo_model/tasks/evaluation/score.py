"""The score of every layer, and the table of scores."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """The accuracy of each layer in percent, the token layer first, over `items` decisions.

    `baseline` is the accuracy of `guess`, a method without vectors, on the same items. `misses`
    names the wrong items of each layer, in sets so small that they are listed.
    """

    name: str
    layers: tuple[float, ...]
    items: int
    baseline: float
    guess: str
    misses: tuple[tuple[str, ...], ...] = ()


def percent(right: int, items: int) -> float:
    """Return the share of right decisions in percent."""
    return 100.0 * right / items


def layer_heads(layers: int) -> list[str]:
    """Return the heads of the columns of all layers, the token layer first."""
    return ["token layer", *(f"layer {number}" for number in range(1, layers))]


def table(scores: Sequence[Score]) -> str:
    """Return a text table with one score per line; a star marks the best layer of each."""
    heads = layer_heads(max(len(score.layers) for score in scores))
    width = max(len(score.name) for score in scores)
    lines = [f"{'':{width}}" + "".join(f"{head:>13}" for head in heads) + f"{'items':>9}   without"]
    for score in scores:
        best = max(score.layers)
        figures = (f"{figure:.1f}{'*' if figure == best else ' '}" for figure in score.layers)
        lines.append(
            f"{score.name:{width}}"
            + "".join(f"{figure:>13}" for figure in figures)
            + f"{score.items:>9,}   {score.baseline:.1f} ({score.guess})"
        )
    for score in scores:
        for number, missed in enumerate(score.misses[1:], 1):
            lines.append(f"{score.name}, missed by layer {number}: {', '.join(missed) or 'none'}")
    return "\n".join(lines)
