"""`elmo evaluate`: the senses of ordinary words by layer, the stability of a network, and tables.

`senses.tsv` holds 30 English words with four sentences each, two for each of two senses. Words and
sentences were written down by ordinary English alone, before any model was scored on them.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.inference.encoder import Encoder
from elmo_model.inference.stability import TEXTS, Stability, stability
from elmo_model.models.opening import open_model
from elmo_model.steps import OnStep
from elmo_model.tasks.examples import Examples
from elmo_model.tasks.features import FeaturesOf, encode_by, features_of
from elmo_model.tasks.readers import read_rows

SENTENCES: Final = Path(__file__).with_name("senses.tsv")

_MARGIN: Final = 1e-4
"""Smallest difference of mean cosines that counts. The token layer sees no context: its vectors of
a word are equal but for rounding."""

Uses = tuple[Examples, list[str]]
"""Tokens whose labels are their senses, and the word of each."""


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """The options of `elmo evaluate`: a built-in name or path, and what is measured.

    `limit` is the number of texts of every kind of `stability`.
    """

    model: str
    senses: bool = False
    stability: bool = False
    limit: int = TEXTS
    device: str = "cpu"
    as_json: bool = False


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


def evaluate(options: EvaluateOptions, on_step: OnStep) -> str:
    """Measure a model, by both methods if none is named; return the tables, or one JSON object.

    Raises CheckpointError.
    """
    on_step(f"Reading {options.model}")
    elmo = open_model(options.model, device=options.device)
    scores, moved = list[Score](), list[Stability]()
    if options.senses or not options.stability:
        on_tokens = partial(on_step, "Built-in sentences")
        encode = encode_by(Encoder.of(elmo))
        scores.append(senses(partial(features_of, encode, on_tokens=on_tokens)))
    if options.stability or not options.senses:
        on_step("Built-in texts")
        moved += stability(elmo, options.limit)
    if options.as_json:
        figures = {"scores": list(map(asdict, scores)), "stability": list(map(asdict, moved))}
        return json.dumps({"model": asdict(elmo.origin), **figures}, indent=2)
    tables = (table(scores) if scores else "", stability_table(moved) if moved else "")
    return "\n\n".join(filter(None, tables))


def senses(features_of: FeaturesOf) -> Score:
    """Score each layer by the words whose mean cosine within a sense is above that across senses.

    The score names the words that each layer misses. Chance is 50 %.
    """
    examples, words = read_uses(SENTENCES)
    rows = rows_of(words)
    with features_of(examples) as features:
        layers = [features.layer(number)[:, 0] for number in range(features.layers)]
    misses = tuple(
        tuple(
            word
            for word, chosen in rows.items()
            if separation(layer[chosen], [examples.labels[row] for row in chosen]) <= _MARGIN
        )
        for layer in layers
    )
    accuracies = tuple(percent(len(rows) - len(missed), len(rows)) for missed in misses)
    return Score("senses of ordinary words", accuracies, len(rows), 50.0, "chance", misses)


def read_uses(path: Path) -> Uses:
    """Read a table with the columns `word`, `sense`, `token_index` and `sentence`.

    Raises FitError and TextError as `read_rows` does.
    """
    rows = list(read_rows(path))
    return Examples.of_words(row.word("sense") for row in rows), [row.field("word") for row in rows]


def rows_of(words: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of each word in a list."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, word in enumerate(words):
        rows[word].append(row)
    return rows


def separation(vectors: Tensor, senses: Sequence[str]) -> float:
    """Map vectors (N, width) of N uses of a word to a difference of mean cosines.

    It is the mean cosine of pairs of one sense minus that of pairs of two senses.
    """
    unit = functional.normalize(vectors.double(), dim=1)
    cosines = unit @ unit.T
    same = torch.tensor([[one == other for other in senses] for one in senses])
    pairs = torch.ones_like(same).triu(1)
    return float(cosines[same & pairs].mean() - cosines[~same & pairs].mean())


def percent(right: int, items: int) -> float:
    """Return the share of right decisions in percent."""
    return 100.0 * right / items


def table(scores: Sequence[Score]) -> str:
    """Return a text table with one score per line; a star marks the best layer of each."""
    heads = _heads(max(len(score.layers) for score in scores))
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


def stability_table(found: Sequence[Stability]) -> str:
    """Return a text table with one set of texts per line."""
    heads = [*_heads(len(found[0].layers)), "texts over", "after", "bfloat16"]
    width = max(len(each.name) for each in found)
    lines = [" " * width + "".join(f"{head:>13}" for head in heads)]
    for each in found:
        figures = [f"{moved:.1e}" for moved in each.layers]
        first = "-" if each.first is None else str(each.first)
        figures += [f"{each.over} of {each.texts}", first, f"{each.bfloat16:.6f}"]
        lines.append(f"{each.name:{width}}" + "".join(f"{figure:>13}" for figure in figures))
    return "\n".join(lines)


def _heads(layers: int) -> list[str]:
    """Return the heads of the columns of all layers, the token layer first."""
    return ["token layer", *(f"layer {number}" for number in range(1, layers))]
