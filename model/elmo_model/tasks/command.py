"""`elmo fit`: from its options to a task file, a head and a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo_model.errors import OptionError
from elmo_model.files.atomic import write_bytes
from elmo_model.inference.encoder import Encoder
from elmo_model.models.catalogue import tokenization
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import Origin
from elmo_model.steps import OnStep, ignore
from elmo_model.tasks import report
from elmo_model.tasks.comparison import FittedTask, compare, json_bytes
from elmo_model.tasks.examples import Examples, FitError, Kind
from elmo_model.tasks.features import Encode, encode_by
from elmo_model.tasks.fitter import FitOptions
from elmo_model.tasks.readers import read_parts
from elmo_model.tasks.stored_vectors import open_stored_vectors
from elmo_model.text.tokenizers import tokenizer
from elmo_model.word_vectors.look_up import WordVectors

__all__ = ["FitCommand", "FitOptions", "fit"]

DESCRIPTION = "Learned by elmo fit."


@dataclass(frozen=True, slots=True)
class FitCommand:
    """The options of `elmo fit`. `model` is a path or a built-in name.

    `tokenizer` splits the columns that hold text; None: that of the model.
    `vectors` is an HDF5 file of the layers of all sentences, which are then not computed.
    `word_vectors` is the folder of a map of static word vectors, which the head sees as well.
    """

    name: str
    kind: Kind
    label: str
    train: Path
    out: Path
    model: str
    test: Path | None = None
    vectors: Path | None = None
    word_vectors: Path | None = None
    limit: int | None = None
    tokenizer: str | None = None
    device: str = "cpu"
    precision: str = "float32"
    force: bool = False
    options: FitOptions = field(default_factory=FitOptions)


def fit(command: FitCommand, on_step: OnStep = ignore) -> str:
    """Fit a task, write its files, and return the report for the terminal.

    `NAME.json` in the folder `out` is a task file for the service; `NAME.fit/` beside it holds
    `head.safetensors` and `report.json`. Everything is written at the end. Raises FitError where
    nothing can be learned or the files of the task exist, CheckpointError and TextError.
    """
    task, folder = command.out / f"{command.name}.json", command.out / f"{command.name}.fit"
    for path in (task, folder):
        if path.exists() and not command.force:
            raise FitError(f"{path}: exists; --force replaces it")

    on_step(f"Reading {command.vectors or command.model}")
    elmo = open_model(command.model, device=command.device)
    encoder = Encoder.of(elmo, command.precision)
    train, test = _examples(command, encoder.origin)
    words = None if command.word_vectors is None else WordVectors.open(command.word_vectors)
    with _encode(command, encoder, train) as encode:
        found = compare(encode, train, test, command.options, on_step, words)
    info = None if words is None else words.info
    fitted = FittedTask(command.name, command.kind, command.options, found, encoder.origin, info)
    shown = report.text_of(found)
    fitted.write(folder)
    write_bytes(task, json_bytes(_task(fitted)))
    return f"{shown}\nWrote {task} and {folder}"


def _examples(command: FitCommand, origin: Origin) -> tuple[Examples, Examples | None]:
    """Read the examples to learn from, and those to score on, if there are any.

    Text is split by the tokenizer that was asked for, else by that of the model, as the service has
    it.
    """
    usual, language = tokenization(origin.name, command.model)
    tokenize = tokenizer(command.tokenizer or usual, language)
    files = command.train, command.test
    return read_parts(*files, command.kind, command.label, tokenize, command.limit)


@contextmanager
def _encode(command: FitCommand, encoder: Encoder, train: Examples) -> Iterator[Encode]:
    """Yield the function that gives the layers of sentences: computed ones, or stored ones."""
    compute = encode_by(encoder)
    if command.vectors is None:
        yield compute
        return
    if command.options.layer_norm:
        raise OptionError(
            f"{command.vectors}: layer norm counts the boundary tokens, which the file lacks; "
            "fit without --vectors"
        )
    with open_stored_vectors(command.vectors) as stored:
        stored.check(compute, next(filter(None, train.sentences), ()))
        yield stored.encode


def _task(fitted: FittedTask) -> dict[str, Any]:
    """Return the task file: the keys of PUT /tasks/{name}, and the object `fit`."""
    return {
        "name": fitted.name,
        "weights": list(fitted.found.best.weights),
        "gamma": fitted.found.best.gamma,
        "layer_norm": fitted.options.layer_norm,
        "description": DESCRIPTION,
        "model": fitted.origin.name,
        "revision": fitted.origin.revision,
        "fit": fitted.fit,
    }
