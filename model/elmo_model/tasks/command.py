"""`elmo fit`: from its options to a task, its head and its report."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from elmo_model.inference.centre import sentences
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.threads import fastest_threads, using_threads
from elmo_model.models.catalogue import tokenization
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import Origin
from elmo_model.steps import OnStep, ignore
from elmo_model.tasks.comparison import compare
from elmo_model.tasks.examples import FitError, Kind
from elmo_model.tasks.features import Encode, encode_by
from elmo_model.tasks.fitter import FitOptions
from elmo_model.tasks.readers import read_parts
from elmo_model.tasks.report import FittedTask
from elmo_model.text.tokenizers import tokenizer
from elmo_model.word_vectors import WordVectors

_TRIED = 8  # sentences that a trial of threads computes at once


@dataclass(frozen=True, slots=True)
class FitCommand:
    """The options of `elmo fit` that say what is learned from which examples.

    `tokenizer` splits the columns that hold text; None: that of the model.
    `word_vectors` is a file of static word vectors, which the head sees as well.
    """

    name: str
    kind: Kind
    label: str
    train: Path
    test: Path | None = None
    word_vectors: Path | None = None
    limit: int | None = None
    tokenizer: str | None = None
    options: FitOptions = field(default_factory=FitOptions)


@dataclass(frozen=True, slots=True)
class LayerSource:
    """Where a fit takes the layers of its sentences from: an encoder here, or a server.

    `tokenizer` and `language` are those of the model, for text. `threads` are those of the fit.
    """

    origin: Origin
    tokenizer: str
    language: str
    encode: Encode
    threads: int = 1


def encoder_source(
    model: str, device: str, precision: str, *, layer_norm: bool, threads: int | None = None
) -> LayerSource:
    """Return the source of an encoder in this process; `model` is a path or a built-in name.

    Without `threads` a trial of the network on a few sentences chooses them. Raises
    CheckpointError.
    """
    elmo = open_model(model, device=device)
    with torch.no_grad():
        threads = threads or fastest_threads(lambda: elmo(sentences()[:_TRIED]))
    with using_threads(threads):
        encoder = Encoder.of(elmo, precision)
    split_by, language = tokenization(encoder.origin.name, model)
    encode = encode_by(encoder, layer_norm=layer_norm)
    return LayerSource(encoder.origin, split_by, language, encode, threads)


def fit(command: FitCommand, source: LayerSource, on_step: OnStep = ignore) -> FittedTask:
    """Fit a task on the layers of a source.

    Raises FitError where nothing can be learned, and TextError for a file that is no text.
    """
    tokenize = tokenizer(command.tokenizer or source.tokenizer, source.language)
    files = command.train, command.test
    train, test = read_parts(*files, command.kind, command.label, tokenize, command.limit)
    words = None if command.word_vectors is None else WordVectors.open(command.word_vectors)
    with using_threads(source.threads):
        found = compare(source.encode, train, test, command.options, on_step, words)
    return FittedTask(
        command.name,
        command.kind,
        command.options,
        found,
        source.origin,
        None if words is None else words.info,
        source.threads,
    )


def refuse_existing(name: str, out: Path) -> None:
    """Raise FitError for a file of a task of this name in the folder `out`."""
    for path in (out / f"{name}.json", out / f"{name}.fit"):
        if path.exists():
            raise FitError(f"{path}: exists; --force replaces it")
