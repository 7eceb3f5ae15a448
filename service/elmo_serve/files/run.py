"""A file of sentences to a file of vectors: survey, embed into the part, write, put in place."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, tee
from pathlib import Path
from typing import Any

from elmo_serve.files.inputs import Read
from elmo_serve.files.outputs.output_format import Facts, OutputFormat
from elmo_serve.files.resume import Part, sync
from elmo_serve.files.sentence import FileError, Sentence
from elmo_serve.files.sources.source import Source
from elmo_serve.output import Output

_KEEP_SECONDS = 0.5
_BLANKS_SHOWN = 10
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Step = Callable[[str, int, int], None]
"""Told what is done, how many tokens of it are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file of sentences; `keep_blank` says whether one without tokens is one."""

    path: Path
    read: Read
    keep_blank: bool = False

    def sentences(self) -> Iterator[Sentence]:
        """Yield them from the beginning. Raises FileError for what cannot be read."""
        try:
            with self.path.open(encoding="utf-8") as file:
                yield from self.read(file)
        except UnicodeDecodeError as error:
            raise FileError(f"{self.path} is no UTF-8: {error}") from error
        except FileError as error:
            raise FileError(f"{self.path}: {error}") from error


@dataclass(frozen=True, slots=True)
class Survey:
    """What a file holds."""

    sentences: int
    tokens: int
    digest: str


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run; `resumed` is what an earlier one had done already."""

    sentences: int
    tokens: int
    resumed: int
    seconds: float


def survey(text: Text, form: OutputFormat) -> Survey:
    """Read a file once: count it, and refuse what could not be written in the end.

    Raises FileError for blank lines, which are listed, and for what the format cannot hold.
    """
    check = form.check()
    sentences = tokens = blanks = 0
    blank: list[int] = []  # the first of them
    for number, sentence in enumerate(text.sentences()):
        if not sentence.tokens and not text.keep_blank:
            blanks += 1
            if blanks <= _BLANKS_SHOWN:
                blank.append(number)
        else:
            check(number, sentence)
        sentences += 1
        tokens += len(sentence.tokens)
    if blank:
        shown = ", ".join(map(str, blank))
        more = f" and {blanks - len(blank)} more" if blanks > len(blank) else ""
        raise FileError(
            f"{text.path}: no tokens in {blanks} of {sentences} sentences, counted from 0: "
            f"{shown}{more}; --keep-blank-lines gives them no vectors and their place"
        )
    with text.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Survey(sentences, tokens, digest)


def run(
    text: Text,
    output: Path,
    form: OutputFormat,
    source: Source,
    wanted: Output,
    run_of: Mapping[str, Any],
    *,
    force: bool = False,
    step: Step = lambda _what, _done, _all: None,
) -> Report:
    """Embed a file, or the rest of it. OUTPUT appears whole, in the end, or not at all.

    `run_of` says what else than the text and the model decides the vectors, or the file.

    Raises FileError for what cannot be, and for a disk that is full.
    """
    started = time.monotonic()
    form.require()
    if output.exists() and not force:
        raise FileError(f"{output} exists; --force replaces it")
    found = survey(text, form)
    facts = Facts(source.info, wanted)
    identity = {
        **run_of,
        "text": found.digest,
        "model": source.info.revision,
        "precision": source.info.precision,
    }
    with _full_disk(output), Part.opened(output, identity, afresh=force) as part:
        resumed = part.progress.sentences
        _embed(text, found, source, part, step)
        _write(text, found, output, form, facts, part, step)
        part.remove()
    return Report(found.sentences, found.tokens, resumed, time.monotonic() - started)


def _embed(text: Text, found: Survey, source: Source, part: Part, step: Step) -> None:
    """Append to the part what it lacks."""
    source.restore(part.progress.state)
    step("Embedding", part.progress.tokens, found.tokens)
    lengths, sentences = tee(
        sentence.tokens for sentence in islice(text.sentences(), part.progress.sentences, None)
    )
    done = part.progress.tokens

    def computed(tokens: int) -> None:
        nonlocal done
        done += tokens
        step("Embedding", done, found.tokens)

    kept = time.monotonic()
    for group in source.groups(sentences, computed):
        part.append(group, sum(len(tokens) for tokens in islice(lengths, len(group))))
        if time.monotonic() - kept >= _KEEP_SECONDS:
            part.keep(source.state())
            kept = time.monotonic()
    part.keep(source.state())
    if part.progress.sentences != found.sentences:
        raise FileError(f"{text.path} changed while it was read; start again")


def _write(
    text: Text,
    found: Survey,
    output: Path,
    form: OutputFormat,
    facts: Facts,
    part: Part,
    step: Step,
) -> None:
    """Make the output of the part, beside its place, and put it there."""
    temporary = output.with_name(output.name + ".new")
    try:
        form.write(temporary, _items(text, found, facts, part, step), facts)
        sync(temporary)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


def _items(
    text: Text, found: Survey, facts: Facts, part: Part, step: Step
) -> Iterator[tuple[Sentence, Any]]:
    done = 0
    named, sentences = tee(text.sentences())
    arrays = part.arrays(
        facts.output.shape(len(sentence.tokens), facts.model.dimension) for sentence in sentences
    )
    step("Writing", 0, found.tokens)
    for sentence, array in zip(named, arrays, strict=True):
        yield sentence, array
        done += len(sentence.tokens)
        step("Writing", done, found.tokens)


@contextmanager
def _full_disk(output: Path) -> Iterator[None]:
    """Say of a disk that is full what to do about it, and of other failures what failed."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        if error.errno not in _FULL:
            raise FileError(f"{output} cannot be written: {why}") from error
        raise FileError(
            f"{output} cannot be written: {why}; make room (it needs twice its size while it is "
            "made) and start the same command again: it goes on where it was"
        ) from error
