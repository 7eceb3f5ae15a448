"""`elmo evaluate`: from its options to its output."""

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from elmo_model.errors import OptionError
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.steps import OnStep
from elmo_model.tasks.evaluation.probe import tagging
from elmo_model.tasks.evaluation.score import Score, table
from elmo_model.tasks.evaluation.senses import homographs, senses
from elmo_model.tasks.evaluation.stability import TEXTS, Stability, stability, stability_table
from elmo_model.tasks.evaluation.word_in_context import word_in_context
from elmo_model.tasks.features import Encode, FeaturesOf, encode_by, features_of


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """The options of `elmo evaluate`: a built-in name or path, and the test sets to score.

    A test set without paths is left out. `limit` keeps the first items of each set.
    """

    model: str
    pos_train: Path | None = None
    pos_test: Path | None = None
    tags: str = "upos"
    homographs_train: Path | None = None
    homographs_test: Path | None = None
    wic: Path | None = None
    senses: bool = False
    stability: bool = False
    limit: int | None = None
    device: str = "cpu"
    as_json: bool = False


def evaluate(options: EvaluateOptions, on_step: OnStep) -> str:
    """Score a model on the given test sets; return the table, or one JSON object.

    Raises OptionError for options, FitError for test sets, CheckpointError for the model, TextError
    for files that are not text.
    """
    _check(options)
    on_step(f"Reading {options.model}")
    elmo = open_model(options.model, device=options.device)
    scores = _scores(encode_by(Encoder.of(elmo)), options, on_step)
    moved = list[Stability]()
    if options.stability:
        on_step("Built-in texts")
        moved += stability(elmo, min(options.limit or TEXTS, TEXTS))
    if options.as_json:
        figures = {
            "scores": [asdict(score) for score in scores],
            "stability": [asdict(each) for each in moved],
        }
        return json.dumps({"model": asdict(elmo.origin), **figures}, indent=2)
    tables = (table(scores) if scores else "", stability_table(moved) if moved else "")
    return "\n\n".join(filter(None, tables))


def _check(options: EvaluateOptions) -> None:
    for train, test in (("pos_train", "pos_test"), ("homographs_train", "homographs_test")):
        if (getattr(options, train) is None) != (getattr(options, test) is None):
            first, second = (f"--{name.replace('_', '-')}" for name in (train, test))
            raise OptionError(f"{first} and {second} are given together or not at all")
    built_in = options.senses or options.stability
    if not (options.pos_train or options.homographs_train or options.wic or built_in):
        raise OptionError(
            "no test set is given, expected --pos-train and --pos-test, --homographs-train and "
            "--homographs-test, --wic, --senses, or --stability"
        )


def _scores(encode: Encode, options: EvaluateOptions, on_step: OnStep) -> list[Score]:
    def computed(title: str) -> FeaturesOf:
        return partial(features_of, encode, on_tokens=partial(on_step, title))

    scores, limit = [], options.limit
    if options.pos_train and options.pos_test:
        train, test = options.pos_train, options.pos_test
        scores.append(tagging(computed("Tagging"), train, test, options.tags, limit))
    if options.homographs_train and options.homographs_test:
        train, test = options.homographs_train, options.homographs_test
        scores += homographs(computed("Word senses"), train, test, limit)
    if options.wic:
        scores.append(word_in_context(computed("Words in context"), options.wic, limit))
    if options.senses:
        scores.append(senses(computed("Built-in sentences")))
    return scores
