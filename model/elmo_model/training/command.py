"""The programs behind `elmo train` and `elmo perplexity`."""

import contextlib
import json
import math
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from elmo_model.files.locks import only_writer
from elmo_model.progress import output
from elmo_model.steps import OnStep, ignore
from elmo_model.system import keep_freed_memory
from elmo_model.text.tokenizers import raw_note
from elmo_model.text.tokenizers.moses import LANGUAGES
from elmo_model.threads import fastest_threads, using_threads
from elmo_model.training import TrainingError
from elmo_model.training.corpus import Corpus, encode, find_shards, refuse_shard, sentences_of
from elmo_model.training.options import Options
from elmo_model.training.perplexity import Perplexity, per_token, unigram
from elmo_model.training.run_folder import Folder, Run, language_model, trained_model
from elmo_model.training.trainer import Outcome, Trainer
from elmo_model.training.vocabulary import Vocabulary


def train(options: Options) -> int:
    """Train a new run, or continue the run in the folder; return the exit code.

    SIGTERM, SIGINT and SIGHUP end the run after saving it, with the exit code that a shell gives
    them. Raises ElmoError for faults of options, text and files, and OSError.
    """
    device, folder = options.chosen_device(), Folder(options.run)
    keep_freed_memory()
    with ExitStack() as stack:
        network = options.network()
        config = options.config(network)
        shards = find_shards(options.text)
        if options.heldout is not None:
            refuse_shard(options.heldout, shards)
        words = None if options.vocabulary is None else Vocabulary.read(options.vocabulary)
        busy = "another elmo train writes this run; wait for its end, or name another folder"
        stack.enter_context(only_writer(options.run, TrainingError(f"{options.run}: {busy}")))
        known = folder.known()
        run = Run.of(options, config, shards, network, known)
        if known is not None:
            run.refuse_other(known)  # before its encoded text is replaced
        corpus = _encode(shards, folder)
        vocabulary = words or corpus.vocabulary(options.vocabulary_size)
        run = run.on_text(corpus, vocabulary)
        heldout = _heldout(options)
        if known is None:
            _tell_of_raw(shards[0])
        _tell_of_language(run)
        folder.begin(run, vocabulary, known)
        _tell_softmax_alone(run)
        trainer = Trainer(folder, run, corpus, vocabulary, torch.device(device), network)
        if device == "cpu":
            threads = run.options.threads or fastest_threads(trainer.trial)
            stack.enter_context(using_threads(threads))
            folder.write(replace(run, options=replace(run.options, threads=threads)))
        with stop_signals() as received:
            outcome = trainer.run(heldout, lambda: bool(received))
        _report(outcome, folder)
    # the exit code that a shell gives for a signal
    return 128 + received[0] if outcome.stopped and received else 0


def perplexity(
    name: str | Path,
    text: tuple[str, ...],
    sentences: int | None,
    as_json: bool,
    on_step: OnStep = ignore,
    device: str = "cpu",
) -> str:
    """Measure the last snapshot of a run, or a model with a softmax; return the text to print.

    For a run whose folder has the encoded text, the perplexity of its unigrams stands beside.

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
    alone = _unigram(Folder(Path(name)), vocabulary, every)
    if as_json:
        beside = {} if alone is None else {"unigram": alone}
        return json.dumps({"run": model.elmo.origin.name, **_figures(found), **beside}, indent=2)
    columns = {"forward": found.forward, "backward": found.backward, "both": found.both}
    if alone is not None:
        columns["unigram"] = alone
    head = "".join(f"{column:>10}" for column in columns)
    figures = "".join(f"{figure:>10.2f}" for figure in columns.values())
    return f"{head}{'predictions':>14}\n{figures}{found.predictions:>14,}"


def _unigram(
    folder: Folder, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> float | None:
    """Return the perplexity of the unigrams of a run's text; None where it is not in its folder."""
    if (corpus := Corpus.open(folder.corpus)) is None:
        return None
    return unigram(vocabulary.counts(corpus.words, corpus.counts), vocabulary, sentences)


def _tell_of_language(run: Run) -> None:
    if run.options.tokenizer == "moses" and run.options.language not in LANGUAGES:
        output().print(
            f"moses does not know the language {run.options.language!r}: it splits text by the "
            f"abbreviations of English",
            markup=False,
        )


def _tell_softmax_alone(run: Run) -> None:
    alone = run.options.softmax_steps
    if alone >= run.steps:
        output().print(
            f"softmax_steps is {alone:,} and the run has {run.steps:,} steps: they train the "
            f"softmax alone, the network stays as it is",
            markup=False,
        )


def _tell_of_raw(shard: Path) -> None:
    if note := raw_note(sentences_of(shard), "`elmo tokenize` splits them"):
        output().print(f"{shard}: {note}", markup=False)


def _encode(shards: Sequence[Path], folder: Folder) -> Corpus:
    console = output()

    def done(path: Path) -> None:
        console.print(f"Encoded {path.name}", markup=False)

    return encode(shards, folder.corpus, done)


def _heldout(options: Options) -> list[list[str]]:
    if options.heldout is None:
        output().print("Without --heldout no perplexity is measured", markup=False)
        return []
    sentences = list(islice(sentences_of(options.heldout), options.heldout_sentences))
    if not sentences:
        raise TrainingError(f"{options.heldout}: holds no sentence, expected one or more")
    return sentences


def _report(outcome: Outcome, folder: Folder) -> None:
    console = output()
    if outcome.begun == outcome.steps:
        console.print(
            f"All {outcome.steps:,} steps were done already; nothing was trained", markup=False
        )
    if outcome.stopped:
        console.print(
            f"Stopped and saved after step {outcome.step:,} of {outcome.steps:,}; the same command "
            f"continues from there",
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
