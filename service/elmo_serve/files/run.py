"""Embeds a file into a file of vectors, or a folder into parts, each whole or not there."""

import errno
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from elmo_model.files import atomic as atomic_files
from elmo_model.steps import OnStep, ignore
from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs.output_format import Check, Facts, OutputFormat, Target
from elmo_serve.files.resume import PART_SECONDS, FileParts, folder_of_parts, parts_of_file
from elmo_serve.files.text import Part, Survey, Text
from elmo_serve.files.vectors import Source

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. The message says what is kept."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run; `resumed` counts the sentences that an earlier run had computed."""

    sentences: int
    tokens: int
    resumed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class EmbedRun:
    """A text, the source of its vectors, and the format to write them in.

    A part of a file is written after `part_seconds` of work, at the latest: a killed run loses
    those.
    """

    text: Text
    form: OutputFormat
    source: Source
    step: OnStep = ignore
    part_seconds: float = PART_SECONDS

    @property
    def facts(self) -> Facts:
        """The model and the selection, for the output."""
        return Facts(self.source.info, self.source.output, self.text.first)

    def to_file(self, output: Path, identity: Mapping[str, Any], *, force: bool = False) -> Report:
        """Write OUTPUT, or the rest of it. It appears when it is complete, or not at all.

        `identity` holds what decides the vectors or the file besides the text and the model: a run
        continues only a run of the same identity. `force` replaces OUTPUT, and discards the parts
        of another run.

        Raises FileError for an invalid input, a full disk and files of somebody else; Interrupted
        on Ctrl-C.
        """
        started = time.monotonic()
        if output.is_dir():
            raise FileError(f"{output} is a folder that exists; name another, or remove it")
        if output.exists() and not force:
            raise FileError(f"{output} exists; --force replaces it")
        found = self.text.survey(self._check())
        whole = {
            **identity,
            "text": self.text.digest(),
            "model": self.source.info.revision,
            "precision": self.source.info.precision,
        }
        parts_of = parts_of_file(output, whole, found.sentences, discard=force)
        with explained(output), parts_of as parts:
            resumed = parts.sentences
            try:
                self._write(parts, self._compute(parts, found), found, output)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"interrupted; {parts.folder} keeps {parts.sentences:,} of "
                    f"{found.sentences:,} sentences: the same command continues from there"
                ) from None
        return Report(found.sentences, found.tokens, resumed, time.monotonic() - started)

    def to_stream(self, stream: BinaryIO) -> Report:
        """Write to a pipe, vector by vector as they are computed. Nothing is kept for a resumption.

        Raises FileError for an invalid input and for a format that needs a file.
        """
        started = time.monotonic()
        found = self._pass_on(stream)
        stream.flush()
        return Report(found.sentences, found.tokens, 0, time.monotonic() - started)

    def to_part(self, path: Path) -> None:
        """Write a file at once, whole or not at all, in place of an older one.

        Raises FileError for an invalid input, for a full disk and for what else the disk refuses.
        """
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_files.replacing(path) as temporary:
                self._pass_on(temporary)

    def _pass_on(self, target: Target) -> Survey:
        """Write the vectors as they are computed."""
        found = self.text.survey(self._check())
        sentences, tokens = tee(self.text.sentences())
        groups = self.source.groups(
            (sentence.tokens for sentence in tokens), self._counter("Embedding", 0, found)
        )
        arrays = (array for group in groups for array in group)
        self.form.write(target, zip(sentences, arrays, strict=True), self.facts)
        return found

    def _check(self) -> Check:
        """Return a check of what the format and the source can take of the text."""
        by_form = self.form.check(self.source.output)

        def check(sentence: Sentence) -> None:
            by_form(sentence)
            self.source.check(sentence.tokens)

        return check

    def _compute(self, parts: FileParts, found: Survey) -> list[NDArray[Any]]:
        """Compute what the parts lack: into further parts, and the last vectors, returned."""
        self.source.restore(parts.state)
        rest = islice(self.text.sentences(), parts.sentences, None)
        lengths, sentences = tee(sentence.tokens for sentence in rest)
        groups = self.source.groups(sentences, self._counter("Embedding", parts.tokens, found))
        last = parts.keep(groups, map(len, lengths), self.source.state, self.part_seconds)
        if parts.sentences + len(last) != found.sentences:
            raise FileError(f"{self.text.name} changed while it was read; start again")
        return last

    def _write(
        self, parts: FileParts, last: list[NDArray[Any]], found: Survey, output: Path
    ) -> None:
        """Write the output beside its parts, and move it to its place."""
        temporary = parts.folder / f"{atomic_files.TEMPORARY}output"
        try:
            self.form.write(temporary, self._items(parts, last, found), self.facts)
            atomic_files.publish(temporary, output)
        finally:
            if temporary.is_dir():  # a format of several files
                shutil.rmtree(temporary)
            temporary.unlink(missing_ok=True)

    def _items(
        self, parts: FileParts, last: list[NDArray[Any]], found: Survey
    ) -> Iterator[tuple[Sentence, NDArray[Any]]]:
        count = self._counter("Writing", 0, found)
        dimension = self.source.info.dimension
        kept = parts.arrays(lambda tokens: self.source.output.shape(tokens, dimension))
        for sentence, array in zip(self.text.sentences(), chain(kept, last), strict=True):
            yield sentence, array
            count(len(sentence.tokens))

    def _counter(self, name: str, done: int, found: Survey) -> Callable[[int], None]:
        """Return a function that adds tokens to those done and reports them."""
        self.step(name, done, found.tokens)

        def count(tokens: int) -> None:
            nonlocal done
            done += tokens
            self.step(name, done, found.tokens)

        return count


@contextmanager
def explained(output: Path) -> Iterator[None]:
    """Turn an OSError into a FileError that says what failed, and what to do on a full disk."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        if error.errno not in _FULL:
            raise FileError(f"{output} cannot be written: {why}") from error
        raise FileError(
            f"{output} cannot be written: {why}; make room and start the same command again: it "
            "continues where it was"
        ) from error


@dataclass(frozen=True, slots=True)
class FolderRun:
    """The options of a run, whose INPUT is a folder or a file, and the source of its vectors."""

    options: EmbedOptions
    source: Source
    step: OnStep = ignore

    def path(self, part: Part) -> Path:
        """Return the path of a part's output."""
        return Path(self.options.output) / part.name(self.options.form.ending)

    def run(self) -> Report:
        """Write every part that is not there yet.

        The tokens of the report are those before a tokenizer splits them.

        Raises:
            FileError: the input or the output folder; or a part that could not be written, after
                all the others are there.
            Interrupted: Ctrl-C.
        """
        started = time.monotonic()
        options, form = self.options, self.options.form
        form.check(self.source.output)
        assert options.part_size is not None, "OUTPUT is a folder"
        parts = list(options.corpus.parts(options.part_size))
        if not parts:
            raise FileError(f"{options.input} has no sentences")
        identity = {**options.identity(self.source.info), "text": options.corpus.digest()}
        counts = Counter(part.file for part in parts)
        folder = Path(options.output)
        with folder_of_parts(folder, identity, counts, form.ending, discard=options.force):
            missing = [part for part in parts if not self.path(part).is_file()]
            try:
                faults = self._write_all(missing)
            except KeyboardInterrupt:
                raise self._interrupted(parts) from None
        if faults:
            raise FileError(f"{faults[0]} ({len(faults):,} of {len(parts):,} parts failed)")
        sentences = sum(part.sentences for part in parts)
        resumed = sentences - sum(part.sentences for part in missing)
        tokens = sum(part.tokens for part in parts)
        return Report(sentences, tokens, resumed, time.monotonic() - started)

    def write(self, part: Part) -> None:
        """Write one part, in place of an older file of its name.

        Raises FileError for a text that has changed, for sentences that the format cannot hold, and
        for a full disk.
        """
        split = self.options.split(self.source.info)
        with self.options.corpus.part(part).split(split) as text:
            EmbedRun(text, self.options.form, self.source).to_part(self.path(part))

    def _write_all(self, parts: Sequence[Part]) -> list[str]:
        """Write parts, also after one that failed; return a line for each that did."""
        faults = []
        done, tokens = 0, sum(part.tokens for part in parts)
        for part in parts:
            self.step("Embedding", done, tokens)
            try:
                self.write(part)
            except (FileError, OSError, RuntimeError) as error:  # a GPU without memory
                line = " ".join(str(error).split())
                name = part.name(self.options.form.ending)
                faults.append(line if line.startswith(self.options.output) else f"{name}: {line}")
            done += part.tokens
        return faults

    def _interrupted(self, parts: Sequence[Part]) -> Interrupted:
        finished = sum(self.path(part).is_file() for part in parts)
        return Interrupted(
            f"interrupted; {finished:,} of {len(parts):,} parts are finished: the same command "
            "continues from there"
        )
