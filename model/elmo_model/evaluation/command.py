"""`elmo evaluate`, from its options to its table."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.elmo import Elmo
from elmo_model.evaluation.homographs import homographs
from elmo_model.evaluation.score import EvaluationError, Score, table
from elmo_model.evaluation.senses import senses
from elmo_model.evaluation.tagging import tagging
from elmo_model.evaluation.word_in_context import word_in_context
from elmo_model.pretrained import open_model
from elmo_model.text_files import TextError


class CommandError(Exception):
    """What a user can mend; one line."""


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """The options of `elmo evaluate`; a set without paths is left out."""

    model: str
    pos_train: Path | None = None
    pos_test: Path | None = None
    tags: str = "upos"
    homographs_train: Path | None = None
    homographs_test: Path | None = None
    wic: Path | None = None
    senses: bool = False
    limit: int | None = None
    device: str | None = None
    as_json: bool = False


def evaluate(options: EvaluateOptions, say: Callable[[str], None]) -> str:
    """Score a model on the sets that were given; return what is to be printed.

    Raises CommandError.
    """
    for first, second in (("pos_train", "pos_test"), ("homographs_train", "homographs_test")):
        if (getattr(options, first) is None) != (getattr(options, second) is None):
            given = [f"--{name.replace('_', '-')}" for name in (first, second)]
            raise CommandError(f"{given[0]} and {given[1]} are given together or not at all")
    if not (options.pos_train or options.homographs_train or options.wic or options.senses):
        raise CommandError(
            "there is no set, expected --pos-train, --homographs-train, --wic or --senses"
        )
    if options.tags not in ("upos", "xpos"):
        raise CommandError(f"--tags is {options.tags!r}, expected upos or xpos")
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        say(f"Reading {options.model}")
        elmo = open_model(options.model, device=device)
        scores = _scores(elmo, options, say)
    except (CheckpointError, EvaluationError, TextError) as error:
        raise CommandError(str(error)) from error
    if options.as_json:
        return json.dumps(
            {"model": asdict(elmo.origin), "scores": [asdict(score) for score in scores]}, indent=2
        )
    return table(scores)


def _scores(elmo: Elmo, options: EvaluateOptions, say: Callable[[str], None]) -> list[Score]:
    scores = []
    if options.pos_train and options.pos_test:
        say("Tagging")
        scores.append(
            tagging(elmo, options.pos_train, options.pos_test, options.tags, options.limit)
        )
    if options.homographs_train and options.homographs_test:
        say("Telling senses")
        scores += homographs(elmo, options.homographs_train, options.homographs_test, options.limit)
    if options.wic:
        say("Comparing words in context")
        scores.append(word_in_context(elmo, options.wic, options.limit))
    if options.senses:
        say("Comparing senses")
        scores.append(senses(elmo))
    return scores
