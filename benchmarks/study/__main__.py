"""Which layers tasks choose, and where a tagger needs ELMo: the questions of the paper.

    python -m benchmarks.study DATA OUT [--word-vectors static.bin] [--limit 3000] [--seeds 3]

DATA is a folder of public evaluation sets, which docs/training.md lists. Results are JSON files in
the folder OUT, one per part: the same command continues an interrupted study with the next part.
Tables are printed at the end, and their pictures are written to OUT.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.study import pictures, tables
from benchmarks.study.layer_choice import layer_choice
from benchmarks.study.places import TAGGING, place_result, read_tagged
from benchmarks.study.results import Part, Results
from benchmarks.study.sets import EvaluationSet, StudyError, evaluation_sets
from benchmarks.study.tagger import PLACES, Place
from benchmarks.study.tagger_training import Tagged, TaggerOptions
from elmo_model.checkpoints import CheckpointError
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import Encode, encode_by
from elmo_model.tasks.fitter import FitOptions
from elmo_model.text.files import TextError
from elmo_model.word_vectors.formats import WordVectorsError
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder
from elmo_serve.commands.options import DEFAULT_MODEL
from elmo_serve.commands.published import resolve_model
from elmo_serve.models.cache import cache_of_environment


def main() -> None:
    """Parse the options, make the parts that are missing, and print the tables."""
    options = _options()
    print(describe(), flush=True)
    try:
        print(study(options), end="")
    except (StudyError, FitError, WordVectorsError, CheckpointError, TextError, OSError) as error:
        sys.exit(str(error))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder of the evaluation sets")
    parser.add_argument("out", type=Path, help="the folder of the results")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="name or path of the model")
    parser.add_argument("--word-vectors", type=Path, help="of the taggers; default: no taggers")
    parser.add_argument("--task", dest="tasks", action="append", help="one task; default: all")
    parser.add_argument("--limit", type=int, help="sentences drawn of each part; default: all")
    parser.add_argument("--tagger-limit", type=int, help="the same for the taggers")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each kind (default: 3)")
    options = parser.parse_args()
    for name in ("limit", "tagger_limit", "seeds"):
        if (value := getattr(options, name)) is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} is {value}, expected 1 or more")
    return options


def study(
    options: argparse.Namespace,
    fits: FitOptions = FitOptions(),  # noqa: B008  # frozen
    tagger: TaggerOptions = TaggerOptions(),  # noqa: B008
) -> str:
    """Make the parts of the study that are missing, draw the pictures and return the tables."""
    chosen = evaluation_sets(options.tasks)
    encoder = Encoder.of(open_model(resolve_model(options.model)))
    encode = encode_by(encoder)
    settings = {"model": asdict(encoder.origin)}
    fits = replace(fits, seeds=options.seeds)
    choices = _choices(options, chosen, encode, settings, fits)
    taggers: list[Part] = []
    if options.word_vectors is not None:
        static = WordVectors.open(store_folder(options.word_vectors, cache_of_environment().cache))
        taggers = _taggers(options, chosen, encode, static, settings, tagger)
    pictures.draw(options.out, choices, taggers)
    return tables.tables(choices, taggers)


def _choices(
    options: argparse.Namespace,
    chosen: Sequence[EvaluationSet],
    encode: Encode,
    settings: dict[str, Any],
    fits: FitOptions,
) -> list[Part]:
    results = Results(options.out, {**settings, "seeds": options.seeds, "limit": options.limit})
    parts = []
    for each in chosen:
        make = partial(layer_choice, each, options.data, encode, limit=options.limit, options=fits)
        parts.append(results.ensure(f"layers-{each.name}", make))
    return parts


def _taggers(
    options: argparse.Namespace,
    chosen: Sequence[EvaluationSet],
    encode: Encode,
    static: WordVectors,
    settings: dict[str, Any],
    tagger: TaggerOptions,
) -> list[Part]:
    limit, words = options.tagger_limit, asdict(static.info)
    results = Results(
        options.out, {**settings, "limit": limit, "tagger": asdict(tagger), "word_vectors": words}
    )
    parts = []
    for each in chosen:
        if each.name not in TAGGING:
            continue
        read: dict[str, Tagged] = {}

        def make(place: Place, seed: int, own: EvaluationSet = each, read: Any = read) -> Part:
            if not read:  # vectors are computed for the first part that is missing
                read |= read_tagged(own, options.data, encode, static, limit)
            return {"task": own.name, **place_result(place, read, seed, tagger)}

        for seed in range(options.seeds):
            for place in PLACES:
                name = f"tagger-{each.name}-{place}-{seed}"
                parts.append(results.ensure(name, partial(make, place, seed)))
    return parts


if __name__ == "__main__":
    main()
