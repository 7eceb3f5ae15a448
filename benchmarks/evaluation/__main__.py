"""Probes on the frozen layers of a model: tags, word senses, words in context.

    python -m benchmarks.evaluation MODEL [--pos TRAIN TEST] [--homographs TRAIN TEST] [--wic TABLE]

Prints the accuracy of every layer in percent, the token layer first: it sees no context and is the
baseline of the others. The column `without` has the score of a guess that sees no vector.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from benchmarks.evaluation.homographs import homographs
from benchmarks.evaluation.probe import tagging
from benchmarks.evaluation.word_in_context import word_in_context
from benchmarks.machine import describe
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.tasks.evaluate import Score, table
from elmo_model.tasks.features import encode_by, features_of
from elmo_serve.commands.published import resolve_model


def main(arguments: list[str] | None = None) -> None:
    """Score a model on the sets that are given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    sets = ("TRAIN", "TEST")
    parser.add_argument("--pos", nargs=2, type=Path, metavar=sets, help="CoNLL-U files")
    parser.add_argument("--tags", choices=["upos", "xpos"], default="upos", help="of --pos")
    parser.add_argument("--homographs", nargs=2, type=Path, metavar=sets, help="tables of uses")
    parser.add_argument("--wic", type=Path, help="table of words in pairs of sentences")
    parser.add_argument("--limit", type=int, help="first sentences, uses of a word, and pairs")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    elmo = open_model(resolve_model(options.model), device=options.device)
    computed = partial(features_of, encode_by(Encoder.of(elmo)))
    scores: list[Score] = []
    if options.pos:
        train, test = options.pos
        scores.append(tagging(computed, train, test, options.tags, options.limit))
    if options.homographs:
        train, test = options.homographs
        scores += homographs(computed, train, test, options.limit)
    if options.wic:
        scores.append(word_in_context(computed, options.wic, options.limit))
    if not scores:
        parser.error("no set is given, expected --pos, --homographs or --wic")
    print(f"{options.model}, {elmo.origin.revision}; {describe()}\n\n{table(scores)}")


if __name__ == "__main__":
    main()
