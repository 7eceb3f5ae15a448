"""Scores of the frozen layers of a model: tags, senses, words in context, and its stability.

    python -m benchmarks.evaluation MODEL [--pos TRAIN TEST] [--homographs TRAIN TEST] [--wic TABLE]
        [--stability]

Prints the accuracy of every layer in percent, the token layer first: it sees no context and is the
baseline of the others. A star marks the best layer; `without` has the score of a guess that sees no
vector. The senses of 30 ordinary words need no file. The files of --pos are CoNLL-U. The tables
have a line of names and columns between TABs: word, sense, token_index, sentence; and for --wic
word, label (T or F), index1, index2, sentence1, sentence2.

--stability multiplies all weights of a copy by 1 + 1e-7 x noise, about one rounding of float32. For
nine kinds of text it prints the largest change of a value in each layer, the texts with a vector
that moves by more than 1e-4 and after how many tokens, and the mean cosine of the vectors in
bfloat16 to those in float32, in the worst layer. A network that amplifies rounding from token to
token has vectors that depend on the processor, and is not to be served in bfloat16 or int8.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine
from benchmarks.evaluation.probes import Score, homographs, senses, tagging
from benchmarks.evaluation.stability import TEXTS, Stability, stability
from benchmarks.evaluation.uses import read_pairs, read_tagged, read_uses
from benchmarks.evaluation.word_in_context import word_in_context
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model


def main() -> int:
    """Score a model on the sets that are given."""
    parser = machine.parser(__doc__)
    parser.add_argument("model", help="a path or a built-in name")
    sets = ("TRAIN", "TEST")
    parser.add_argument("--pos", nargs=2, type=Path, metavar=sets)
    parser.add_argument("--homographs", nargs=2, type=Path, metavar=sets)
    parser.add_argument("--wic", type=Path, metavar="TABLE")
    parser.add_argument("--stability", action="store_true")
    parser.add_argument("--texts", type=int, default=TEXTS, help="of each kind of --stability")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    elmo = open_model(options.model, device=options.device)
    encoder = Encoder.of(elmo)
    scores: list[Score] = []
    if options.pos:
        scores.append(tagging(encoder, *map(read_tagged, options.pos)))
    if options.homographs:
        scores += homographs(encoder, *map(read_uses, options.homographs))
    if options.wic:
        scores.append(word_in_context(encoder, read_pairs(options.wic)))
    scores.append(senses(encoder))
    print(f"{elmo.origin.name}, {elmo.origin.revision}; {machine.describe()}\n\n{table(scores)}")
    if options.stability:
        print(f"\n{stability_table(list(stability(elmo, options.texts)))}")
    return 0


def table(scores: Sequence[Score]) -> str:
    """Return a text table of one line a score, in which a star marks the best layer; misses."""
    width = max(len(score.name) for score in scores)
    heads = "".join(f"{head:>13}" for head in _heads(len(scores[0].layers)))
    lines, below = [f"{'':{width}}{heads}{'items':>9}   without"], []
    for score in scores:
        best = max(score.layers)
        figures = (f"{figure:.1f}{'*' if figure == best else ' '}" for figure in score.layers)
        cells = "".join(f"{figure:>13}" for figure in figures)
        guess = f"{score.baseline:.1f} ({score.guess})"
        lines.append(f"{score.name:{width}}{cells}{score.items:>9,}   {guess}")
        below += [
            f"{score.name}, missed by layer {number}: {', '.join(missed) or 'none'}"
            for number, missed in enumerate(score.misses[1:], 1)
        ]
    return "\n".join(lines + below)


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


if __name__ == "__main__":
    sys.exit(main())
