"""`elmo train` and `elmo perplexity`, from their options to their last line."""

import json
import math
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from elmo_model import checkpoints
from elmo_model.checkpoints import CheckpointError
from elmo_model.config import ConfigError, ElmoConfig
from elmo_model.inference.malloc import keep_memory
from elmo_model.text_files import TextError
from elmo_model.training.corpus import Corpus, CorpusError, encode, find_shards, sentences_of
from elmo_model.training.joined_loop import TIME_LOOPS
from elmo_model.training.perplexity import Perplexity, bilm_tf, per_token
from elmo_model.training.processes import Processes, joined
from elmo_model.training.recipe import RECIPES, Recipe
from elmo_model.training.run import Folder, Plan, RunError, trained_model
from elmo_model.training.shapes import SHAPES
from elmo_model.training.snapshot import SnapshotError
from elmo_model.training.trainer import Habits, Outcome, Trainer, TrainingError
from elmo_model.training.vocabulary import Vocabulary, VocabularyError

_PRECISIONS = ("float32", "bfloat16")
_EXPECTED = (
    CheckpointError,
    ConfigError,
    CorpusError,
    RunError,
    SnapshotError,
    TextError,
    TrainingError,
    VocabularyError,
)


class CommandError(Exception):
    """What a user can mend; one line."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of `elmo train`; None takes what the recipe, the device or the text says."""

    run: Path
    text: tuple[str, ...]
    heldout: Path | None = None
    heldout_sentences: int = 2000
    recipe: str = "modern"
    shape: str = "small"
    vocabulary: Path | None = None
    vocabulary_size: int = 50_000
    epochs: float | None = None
    steps: int | None = None
    rows: int | None = None
    unroll: int | None = None
    softmax: str = "sampled"
    state: str | None = None
    samples: int | None = None
    dropout: float | None = None
    learning_rate: float | None = None
    warmup: float | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    seed: int = 1
    name: str | None = None
    precision: str | None = None
    device: str | None = None
    time_loop: str = "joined"
    minutes: float | None = None
    log_every: int = 100
    measure_every: int = 5000
    save_every: int = 5000
    workers: int | None = None
    encoded: Path | None = None


def train(options: TrainOptions) -> int:
    """Train, or go on with the run in the folder; return the exit code.

    SIGTERM and SIGINT end it saved, with the code that a shell gives them. Raises CommandError.
    """
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise CommandError(f"--device is {device!r}, expected cpu or cuda")
    keep_memory()
    with _refusals(), _signals() as received, joined(device) as processes:
        if processes.first:
            _encode(options)
        processes.wait()
        corpus = _encode(options)
        folder = Folder(options.run)
        vocabulary = _vocabulary(options, corpus)
        plan = _plan(options, corpus, vocabulary, device)
        if plan.recipe.rows % processes.count:
            raise CommandError(
                f"--rows is {plan.recipe.rows}, expected a multiple of the {processes.count} "
                f"processes"
            )
        if processes.first:
            folder.begin(plan, vocabulary)
        processes.wait()
        if device == "cuda" and plan.precision == "bfloat16":
            torch.set_float32_matmul_precision("high")
        trainer = Trainer(folder, plan, _habits(options), corpus, vocabulary, processes)
        outcome = trainer.run(_heldout(options, processes), lambda: bool(received))
        if processes.first:
            _say(outcome, folder)
    return 128 + received[0] if received and outcome.stopped else 0


def perplexity(
    run: Path, text: tuple[str, ...], rows: int, sentences: int | None, as_json: bool
) -> str:
    """Measure the last snapshot of a run on text; return what is to be printed.

    Raises CommandError.
    """
    with _refusals():
        model, vocabulary, plan = trained_model(Folder(run))
        shards = find_shards(text)
        every = (sentence for shard in shards for sentence in sentences_of(shard))
        try:
            own = per_token(model, vocabulary, islice(every, sentences))
        except ValueError as error:
            raise CommandError(f"{', '.join(text)}: {error}") from error
        theirs = _bilm_tf(model, vocabulary, shards, rows) if sentences is None else None
    if as_json:
        figures = {"per_token": _figures(own), "bilm_tf": theirs and _figures(theirs)}
        return json.dumps({"run": plan.name, **figures}, indent=2)
    lines = [f"{'':24}{'forward':>10}{'backward':>10}{'both':>10}{'predictions':>14}"]
    lines.append(_row("per token, state zero", own))
    if theirs is not None:
        lines.append(_row(f"bilm-tf, {rows} rows", theirs))
    return "\n".join(lines)


def _bilm_tf(model: Any, vocabulary: Vocabulary, shards: list[Path], rows: int) -> Perplexity:
    with tempfile.TemporaryDirectory(prefix="elmo-perplexity-") as aside:
        corpus = encode(shards, Path(aside) / "corpus", 1, lambda _: None)
        try:
            return bilm_tf(model, vocabulary, corpus, rows)
        except ValueError as error:
            raise CommandError(f"--rows: {error}") from error


def _encode(options: TrainOptions) -> Corpus:
    console = Console(stderr=True)
    shards = find_shards(options.text)
    workers = options.workers or min(len(shards), os.cpu_count() or 1)

    def done(path: Path) -> None:
        console.print(f"Encoded {path.name}", markup=False, highlight=False)

    return encode(shards, options.encoded or options.run / "corpus", workers, done)


def _vocabulary(options: TrainOptions, corpus: Corpus) -> Vocabulary:
    if options.vocabulary is None:
        return corpus.vocabulary(options.vocabulary_size)
    try:
        return Vocabulary.read(options.vocabulary)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{options.vocabulary}: cannot be read: {error}") from error


def _plan(options: TrainOptions, corpus: Corpus, vocabulary: Vocabulary, device: str) -> Plan:
    recipe = _recipe(options, len(vocabulary))
    steps = options.steps or recipe.steps_of(corpus.pairs)
    precision = options.precision or (
        "bfloat16" if recipe.mixed and device == "cuda" else "float32"
    )
    if precision not in _PRECISIONS:
        raise CommandError(f"--precision is {precision!r}, expected {' or '.join(_PRECISIONS)}")
    text = tuple((shard.name, shard.bytes) for shard in corpus.shards)
    name = options.name or options.run.resolve().name
    return Plan(
        name, _shape(options.shape), recipe, len(vocabulary), steps, options.seed, precision, text
    )


def _recipe(options: TrainOptions, words: int) -> Recipe:
    if options.recipe not in RECIPES:
        raise CommandError(f"--recipe is {options.recipe!r}, expected {' or '.join(RECIPES)}")
    recipe = RECIPES[options.recipe]
    given: Mapping[str, Any] = {
        key: getattr(options, key)
        for key in (
            "epochs",
            "rows",
            "unroll",
            "samples",
            "dropout",
            "learning_rate",
            "warmup",
            "weight_decay",
            "clip_norm",
        )
        if getattr(options, key) is not None
    }
    if options.state not in (None, "fresh", "carried"):
        raise CommandError(f"--state is {options.state!r}, expected fresh or carried")
    fresh = recipe.fresh if options.state is None else options.state == "fresh"
    recipe = replace(recipe, fresh=fresh, **given)
    if options.softmax == "full":
        return replace(recipe, samples=0)
    if options.softmax != "sampled":
        raise CommandError(f"--softmax is {options.softmax!r}, expected sampled or full")
    if not 0 < recipe.samples < words:
        raise CommandError(
            f"--samples is {recipe.samples}, expected fewer than the {words} words of the "
            f"vocabulary, or --softmax full"
        )
    return recipe


def _shape(name: str) -> ElmoConfig:
    if name in SHAPES:
        return SHAPES[name]
    path = Path(name)
    if not path.exists():
        raise CommandError(
            f"--shape is {name!r}, expected {', '.join(SHAPES)}, or a checkpoint whose shape is "
            f"to be taken"
        )
    config, _, _ = checkpoints.describe(path)
    return config


def _habits(options: TrainOptions) -> Habits:
    if options.time_loop not in TIME_LOOPS:
        raise CommandError(
            f"--time-loop is {options.time_loop!r}, expected {', '.join(TIME_LOOPS)}"
        )
    return Habits(
        log_every=options.log_every,
        measure_every=options.measure_every,
        save_every=options.save_every,
        seconds=None if options.minutes is None else options.minutes * 60,
        time_loop=options.time_loop,
    )


def _heldout(options: TrainOptions, processes: Processes) -> list[list[str]]:
    if options.heldout is None or not processes.first:
        return []
    sentences = sentences_of(options.heldout)
    return list(islice(sentences, options.heldout_sentences))


def _say(outcome: Outcome, folder: Folder) -> None:
    console = Console(stderr=True, highlight=False)
    if outcome.stopped:
        console.print(
            f"Stopped and saved after step {outcome.step:,} of {outcome.steps:,}; the same command "
            f"goes on from there",
            markup=False,
        )
    console.print(f"Wrote {folder.path / 'model.safetensors'}", markup=False)


def _figures(found: Perplexity) -> dict[str, float]:
    return {
        "forward": found.forward,
        "backward": found.backward,
        "both": found.both,
        "bits_per_word": (found.forward_loss + found.backward_loss) / 2 / math.log(2),
        "predictions": found.predictions,
    }


def _row(title: str, found: Perplexity) -> str:
    figures = f"{found.forward:>10.2f}{found.backward:>10.2f}{found.both:>10.2f}"
    return f"{title:24}{figures}{found.predictions:>14,}"


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except _EXPECTED as error:
        raise CommandError(str(error)) from error


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Give the list of SIGTERMs and SIGINTs that came; a second one acts as it always did."""
    received: list[int] = []
    before: dict[int, Any] = {}

    def note(number: int, _: Any) -> None:
        received.append(number)
        signal.signal(number, before[number])

    for each in (signal.SIGTERM, signal.SIGINT):
        before[each] = signal.signal(each, note)
    try:
        yield received
    finally:
        for number, action in before.items():
            signal.signal(number, action)
