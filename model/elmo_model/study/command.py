"""`elmo study`: from its options to a folder of results, tables and pictures."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from elmo_model.atomic_files import write_bytes
from elmo_model.fitting.features import Encode
from elmo_model.fitting.fitter import FitOptions
from elmo_model.inference.encoder import Encoder
from elmo_model.pretrained import open_model
from elmo_model.study.evaluation_sets import EvaluationSet, StudyError, evaluation_sets
from elmo_model.study.layer_choice import layer_choice
from elmo_model.study.places import TAGGING, place_result, read_tagged
from elmo_model.study.report import report
from elmo_model.study.results import Part, Results
from elmo_model.study.tagger import PLACES
from elmo_model.study.tagger_training import Tagged, TaggerOptions
from elmo_model.word_vectors.cache import open_word_vectors
from elmo_model.word_vectors.word_vectors import WordVectors

OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StudyCommand:
    """The options of `elmo study`.

    `data` is the folder of the evaluation sets, `out` that of the results. Without `word_vectors`
    there are no taggers. `limit` and `tagger_limit` bound the sentences of each part. `seeds` is
    that of the fits as well.
    """

    data: Path
    out: Path
    model: str
    cache: Path
    word_vectors: Path | None = None
    tasks: Sequence[str] = ()
    limit: int | None = None
    tagger_limit: int | None = None
    seeds: int = 3
    tagger: TaggerOptions = field(default_factory=TaggerOptions)
    fits: FitOptions = field(default_factory=FitOptions)


def study(command: StudyCommand, on_step: OnStep = lambda _: None) -> str:
    """Make the parts of the study that are missing, then the report; return its tables.

    Each part is a JSON file in the folder `out`; the tables and pictures are written there at the
    end. Raises StudyError, FitError, WordVectorsError, CheckpointError and TextError.
    """
    if command.seeds < 1:
        raise StudyError(f"seeds is {command.seeds}, expected 1 or more")
    chosen = evaluation_sets(command.tasks or None)
    on_step(f"Reading {command.model}")
    encoder = Encoder.of(open_model(command.model))
    static = None
    if command.word_vectors is not None:
        static = open_word_vectors(command.word_vectors, command.cache)

    def encode(sentences: Any) -> Any:
        return encoder.encode_whole(sentences, bounded=True).sentences()

    settings = {"model": asdict(encoder.origin), "seeds": command.seeds}
    choices = _choices(command, chosen, encode, settings, on_step)
    taggers: list[Part] = []
    if static is not None:
        taggers = _taggers(command, chosen, encode, static, settings, on_step)
    files = report(choices, taggers)
    for name, text in files.items():
        write_bytes(command.out / name, text.encode())
    return files["tables.md"]


def _choices(
    command: StudyCommand,
    chosen: Sequence[EvaluationSet],
    encode: Encode,
    settings: dict[str, Any],
    on_step: OnStep,
) -> list[Part]:
    results = Results(command.out, {**settings, "limit": command.limit})
    options = replace(command.fits, seeds=command.seeds)
    parts = []
    for each in chosen:
        on_step(f"Layers: {each.name}")
        make = partial(
            layer_choice, each, command.data, encode, limit=command.limit, options=options
        )
        parts.append(results.ensure(f"layers-{each.name}", make))
    return parts


def _taggers(
    command: StudyCommand,
    chosen: Sequence[EvaluationSet],
    encode: Encode,
    static: WordVectors,
    settings: dict[str, Any],
    on_step: OnStep,
) -> list[Part]:
    options = asdict(command.tagger)
    words = asdict(static.info)
    del settings["seeds"]  # each part is of one seed
    results = Results(
        command.out,
        {**settings, "limit": command.tagger_limit, "tagger": options, "word_vectors": words},
    )
    parts = []
    for each in chosen:
        if each.name not in TAGGING:
            continue
        read: dict[str, Tagged] = {}

        def make(place: Any, seed: int, own: EvaluationSet = each, read: Any = read) -> Part:
            if not read:  # vectors are computed for the first part that is missing
                read |= read_tagged(own, command.data, encode, static, command.tagger_limit)
            return {"task": own.name, **place_result(place, read, seed, command.tagger)}

        for seed in range(command.seeds):
            for place in PLACES:
                on_step(f"Tagger: {each.name}, {place}, seed {seed}")
                name = f"tagger-{each.name}-{place}-{seed}"
                parts.append(results.ensure(name, partial(make, place, seed)))
    return parts
