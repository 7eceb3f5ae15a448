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
from elmo_model.tasks.features import Encode, OnTokens, encode_by, features_of
from elmo_model.tasks.readers import read_rows

SENTENCES: Final = Path(__file__).with_name("senses.tsv")

_MARGIN: Final = 1e-4
"""Smallest difference of mean cosines that counts. The token layer sees no context: its vectors of
a word are equal but for rounding."""


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
    scores, moved, tables = list[Score](), list[Stability](), list[str]()
    if options.senses or not options.stability:
        on_tokens = partial(on_step, "Built-in sentences")
        encode = encode_by(Encoder.of(elmo))
        scores.append(senses(encode, on_tokens))
        tables.append(table(scores[0]))
    if options.stability or not options.senses:
        on_step("Built-in texts")
        moved += stability(elmo, options.limit)
        tables.append(stability_table(moved))
    if options.as_json:
        figures = {"scores": list(map(asdict, scores)), "stability": list(map(asdict, moved))}
        return json.dumps({"model": asdict(elmo.origin), **figures}, indent=2)
    return "\n\n".join(tables)


def senses(encode: Encode, on_tokens: OnTokens = lambda _done, _total: None) -> Score:
    """Score each layer by the words whose mean cosine within a sense is above that across senses.

    The score names the words that each layer misses. Chance is 50 %.
    """
    uses = list(read_rows(SENTENCES))
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, use in enumerate(uses):
        rows[use.field("word")].append(row)
    examples = Examples.of_words(use.word("sense") for use in uses)
    with features_of(encode, examples, on_tokens=on_tokens) as features:
        layers = features.rows(slice(None))[:, :, 0]
    misses = tuple(
        tuple(
            word
            for word, chosen in rows.items()
            if separation(layer[chosen], [examples.labels[row] for row in chosen]) <= _MARGIN
        )
        for layer in layers
    )
    accuracies = tuple(100.0 * (len(rows) - len(missed)) / len(rows) for missed in misses)
    return Score("senses of ordinary words", accuracies, len(rows), 50.0, "chance", misses)


def separation(vectors: Tensor, senses: Sequence[str]) -> float:
    """Map vectors (N, width) of N uses of a word to a difference of mean cosines.

    It is the mean cosine of pairs of one sense minus that of pairs of two senses.
    """
    unit = functional.normalize(vectors.double(), dim=1)
    cosines = unit @ unit.T
    same = torch.tensor([[one == other for other in senses] for one in senses])
    pairs = torch.ones_like(same).triu(1)
    return float(cosines[same & pairs].mean() - cosines[~same & pairs].mean())


def table(score: Score) -> str:
    """Return a text table of one line, in which a star marks the best layer, and the misses."""
    heads = "".join(f"{head:>13}" for head in _heads(len(score.layers)))
    best = max(score.layers)
    figures = (f"{figure:.1f}{'*' if figure == best else ' '}" for figure in score.layers)
    lines = [
        f"{'':{len(score.name)}}{heads}{'items':>9}   without",
        score.name
        + "".join(f"{figure:>13}" for figure in figures)
        + f"{score.items:>9,}   {score.baseline:.1f} ({score.guess})",
    ]
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
