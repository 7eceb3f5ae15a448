"""The programs behind `elmo train` and `elmo perplexity`."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from elmo_model.files.locks import only_writer
from elmo_model.steps import OnStep, ignore
from elmo_model.system import keep_freed_memory
from elmo_model.text.lines import refuse_learned
from elmo_model.text.tokenizers import raw_note
from elmo_model.text.tokenizers.moses import LANGUAGES
from elmo_model.threads import fastest_threads, using_threads
from elmo_model.training import TrainingError
from elmo_model.training.corpus import Corpus, encode, find_shards, sentences_of
from elmo_model.training.options import Options
from elmo_model.training.perplexity import Perplexity, per_token, unigram
from elmo_model.training.run_folder import Folder, Run, language_model, trained_model
from elmo_model.training.trainer import Outcome, Trainer
from elmo_model.training.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Measured:
    """The perplexity of a model on text.

    `unigram` is the perplexity of words predicted by their share of the text of a run, None where
    the encoded text is not in its folder.
    """

    model: str
    perplexity: Perplexity
    unigram: float | None


def train(
    options: Options, tell: Callable[[str], object] = ignore, on_step: OnStep = ignore
) -> Outcome:
    """Train a new run, or continue the run in the folder.

    `tell` prints a line of notice or of the log. SIGTERM, SIGINT and SIGHUP end the run after
    saving it. Raises ElmoError for faults of options, text and files, and OSError.
    """
    device, folder = options.chosen_device(), Folder(options.run)
    keep_freed_memory()
    with ExitStack() as stack:
        network = options.network()
        config = options.config(network)
        shards = find_shards(options.text)
        if options.heldout is not None:
            refuse_learned(options.heldout, shards)
        heldout = _heldout(options)  # before the folder is made and the text encoded
        words = None if options.vocabulary is None else Vocabulary.read(options.vocabulary)
        busy = "another elmo train writes this run; wait for its end, or name another folder"
        stack.enter_context(only_writer(options.run, TrainingError(f"{options.run}: {busy}")))
        known = folder.known()
        run = Run.of(options, config, shards, network, known)
        if known is not None:
            run.refuse_other(known)  # before its encoded text is replaced
        corpus = encode(shards, folder.corpus, lambda path: tell(f"Encoded {path.name}"))
        vocabulary = words or corpus.vocabulary(options.vocabulary_size)
        run = run.on_text(corpus, vocabulary)
        for note in _notes(run, shards[0], is_new=known is None):
            tell(note)
        folder.begin(run, vocabulary, known)
        trainer = Trainer(folder, run, corpus, vocabulary, torch.device(device), network)
        if device == "cpu":
            threads = run.options.threads or fastest_threads(trainer.trial)
            stack.enter_context(using_threads(threads))
            folder.write(replace(run, options=replace(run.options, threads=threads)))
        with stop_signals() as received:
            return trainer.run(heldout, received, tell, on_step)


def perplexity(
    name: str | Path,
    text: tuple[str, ...],
    sentences: int | None = None,
    on_step: OnStep = ignore,
    device: str = "cpu",
) -> Measured:
    """Measure the last snapshot of a run, or a model with a softmax.

    `sentences` is the number of the first ones that are measured, None for all. Raises ElmoError
    for faults of the model and the text, and OSError.
    """
    if Folder(Path(name)).run.is_file():
        model, vocabulary = trained_model(Folder(Path(name)))
    else:
        model, vocabulary = language_model(str(name))
    model.to(device)
    shards = find_shards(text)
    every = list(islice(chain.from_iterable(map(sentences_of, shards)), sentences))
    if not every:
        raise TrainingError(f"{', '.join(text)}: there is no sentence to measure on")
    found = per_token(model, vocabulary, every, on_step)
    return Measured(model.elmo.origin.name, found, _unigram(Folder(Path(name)), vocabulary, every))


def _unigram(
    folder: Folder, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> float | None:
    """Return the perplexity of the unigrams of a run's text; None where it is not in its folder."""
    if (corpus := Corpus.open(folder.corpus)) is None:
        return None
    return unigram(vocabulary.counts(corpus.words, corpus.counts), vocabulary, sentences)


def _notes(run: Run, shard: Path, *, is_new: bool) -> Iterator[str]:
    """Yield what may be a mistake in the options of a run, or in the first file of its text."""
    options = run.options
    if options.heldout is None:
        yield "Without --heldout no perplexity is measured"
    note = raw_note(sentences_of(shard), "`elmo tokenize` splits them") if is_new else ""
    if note:
        yield f"{shard}: {note}"
    if options.tokenizer == "moses" and options.language not in LANGUAGES:
        yield (
            f"moses does not know the language {options.language!r}: it splits text by the "
            f"abbreviations of English"
        )
    if options.softmax_steps >= run.steps:
        yield (
            f"softmax_steps is {options.softmax_steps:,} and the run has {run.steps:,} steps: they "
            f"train the softmax alone, the network stays as it is"
        )


def _heldout(options: Options) -> list[list[str]]:
    if options.heldout is None:
        return []
    sentences = list(islice(sentences_of(options.heldout), options.heldout_sentences))
    if not sentences:
        raise TrainingError(f"{options.heldout}: holds no sentence, expected one or more")
    return sentences


# SIGHUP comes when a terminal or an ssh connection is lost; Windows has none.
_STOPPING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Yield the SIGTERM, SIGINT and SIGHUP received so far; they do not end the process.

    Each is acknowledged at once on standard error. The second signal of a kind has its former
    effect. An ignored SIGHUP stays ignored: `nohup` asks for that.
    """
    received: list[int] = []
    former: dict[int, Any] = {}

    def handle(number: int, _: Any) -> None:
        signal.signal(number, former[number])
        received.append(number)
        text = f"\nelmo: {signal.Signals(number).name}: finishing the step, then saving\n"
        # The handler may interrupt a write to the same stream: only the descriptor is safe. Its
        # reader may be gone, as `tee` is after Ctrl-C.
        with contextlib.suppress(OSError):
            os.write(2, text.encode())

    for number in _STOPPING:
        if number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) == signal.SIG_IGN:
            continue
        former[number] = signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, action in former.items():
            signal.signal(number, action)
