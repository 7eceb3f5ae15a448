"""Embeds a file into a file of vectors, or a folder into parts, each whole or not there.

Both write parts into a folder, and a killed run continues after those that are there. The parts of
a file are joined at the end by its format.
"""

import errno
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

import numpy as np

from elmo_model.files import atomic as atomic_files
from elmo_model.steps import OnStep, ignore
from elmo_serve.files.folder import folder_of, folder_of_parts, part_name, parts_in, remove_folder
from elmo_serve.files.forecast import Forecast
from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs import part as part_format
from elmo_serve.files.outputs.output_format import (
    Check,
    Facts,
    Item,
    OutputFormat,
    Target,
    accept,
)
from elmo_serve.files.text import Survey, Text
from elmo_serve.files.vectors import SentenceError, Source

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class EmbedRun:
    """A run: its source of vectors, the format of OUTPUT or of its parts, and what is done.

    `tokens` and `sentences` count those of this run, `resumed` the sentences of an earlier one.
    """

    def __init__(
        self,
        form: OutputFormat,
        source: Source,
        step: OnStep = ignore,
        forecast: Forecast | None = None,
    ) -> None:
        self._form, self._source, self._step = form, source, step
        self._forecast = forecast or Forecast()
        self._started = time.monotonic()
        self._ratio, self._done, self._total = 1.0, 0, 0
        self._size = 0  # bytes of OUTPUT
        self._is_split = False  # by a tokenizer, so that tokens are estimated
        self.tokens = self.sentences = self.resumed = 0

    @property
    def seconds(self) -> float:
        """The age of the run."""
        return time.monotonic() - self._started

    def to_file(
        self, text: Text, output: Path, identity: Mapping[str, Any], *, force: bool = False
    ) -> None:
        """Write OUTPUT, or the rest of it. It appears when it is complete, or not at all.

        `identity` holds what decides the vectors or the file besides the text: a run continues only
        a run of the same identity. `force` replaces OUTPUT, and discards the parts of another run.

        Raises FileError for an invalid input, a full disk and files of somebody else.
        """
        if output.is_dir():
            raise FileError(f"{output} is a folder that exists; name another, or remove it")
        if output.exists() and not force:
            raise FileError(f"{output} exists; --force replaces it")
        if self._source.carries_state:  # which no part keeps
            self.to_whole(text, output)
            return
        found = self._survey(text)
        whole = {**identity, "text": text.digest()}
        folder, parts = folder_of(output), {".": found.sentences}
        with explained(output):
            output.parent.stat()  # a folder that is missing is not made
            with folder_of_parts(folder, whole, parts, part_format.ENDING, discard=force):
                self._tell_size(output, folder)
                paths = self._parts_of_file(text, folder, found)
                self._join(paths, folder, output)
                remove_folder(folder, paths)

    def to_folder(self, options: EmbedOptions) -> None:
        """Write every part of a corpus that is not there yet, also after one that failed.

        Raises FileError for the input or the output folder, and for the first part that could not
        be written, after all the others are there.
        """
        self._form.check(self._source.output)
        corpus, split = options.corpus, options.split(self._source.info)
        texts = [corpus.text(file).split(split) for file in corpus.files]
        found = [text.survey() for text in texts]
        self._expect(texts, found)
        size = options.part_size
        assert size is not None, "OUTPUT is a folder"
        counts = {file: each.sentences for file, each in zip(corpus.files, found, strict=True)}
        parts = {file: -(-count // size) for file, count in counts.items() if count}
        if not parts:
            raise FileError(f"{options.input} has no sentences")
        identity = {**options.identity(self._source.info), "text": corpus.digest()}
        folder, faults = Path(options.output), list[str]()
        with folder_of_parts(folder, identity, parts, self._form.ending, discard=options.force):
            self._tell_size(folder, folder)
            for text, (file, count) in zip(texts, counts.items(), strict=True):
                faults += self._parts_of_text(text, folder / file, count, size)
        if faults:
            raise FileError(
                f"{faults[0]} ({len(faults):,} of {sum(parts.values()):,} parts failed)"
            )

    def to_whole(self, text: Text, target: Target) -> None:
        """Write the vectors as they are computed, to a pipe or to a file: nothing is continued.

        A file appears when it is complete, in place of an older one. Raises FileError as `to_file`
        does, and for a format that needs a file.
        """
        self._survey(text)
        if isinstance(target, Path):
            self._tell_size(target)
        with explained(target) if isinstance(target, Path) else nullcontext():
            self._write(target, self._computed(text, text.sentences()))
        if not isinstance(target, Path):
            target.flush()

    def _survey(self, text: Text) -> Survey:
        """Read a text once. Raises FileError for what the format or the source cannot take of it.

        A sentence that is not split yet is checked by the source when it is.
        """
        by_form = self._form.check(self._source.output)
        found = text.survey(by_form if text.tokenize is not None else self._check(by_form))
        self._expect([text], [found])
        return found

    def _check(self, by_form: Check = accept) -> Check:
        """Return a check of what a format and the source can take."""

        def check(sentence: Sentence) -> None:
            by_form(sentence)
            self._source.check(sentence.tokens)

        return check

    def _parts_of_file(self, text: Text, folder: Path, found: Survey) -> list[Path]:
        """Write the parts of one file that are not there; return the paths of all, in order.

        The number of a part is that of its first sentence. It ends where the source ends it.
        """
        kept = part_format.parts_in(folder)
        raw, position, paths = text.sentences(), 0, list[Path]()
        while position < found.sentences:
            if position in kept:
                count = kept[position]
                self._skip(islice(raw, count))
                paths.append(folder / part_name(".", position, part_format.ENDING))
                position += count
                continue
            until = min((each for each in kept if each > position), default=None)
            rest = islice(raw, None if until is None else until - position)
            before = position
            for group in (groups := self._computed(text, rest, position)):
                paths.append(folder / part_name(".", position, part_format.ENDING))
                position += self._write_part(paths[-1], chain([group], groups))
            if position == before:
                break
        if position != found.sentences:
            raise FileError(f"{text.name} changed while it was read; start again")
        return paths

    def _write_part(self, path: Path, groups: Iterator[list[Item]]) -> int:
        """Write groups up to the end of a part of a file; return how many sentences they have."""
        count = 0

        def items() -> Iterator[Item]:
            nonlocal count
            tokens = 0
            for group in groups:
                yield from group
                count += len(group)
                tokens += sum(len(sentence.tokens) for sentence, _ in group)
                if tokens >= self._source.part_tokens:
                    return

        # Not synced: after a power cut the checksums of a part tell whether it is whole.
        temporary = path.with_name(f"{atomic_files.TEMPORARY}part.tmp")
        part_format.write(temporary, items())
        temporary.replace(path)
        return count

    def _parts_of_text(self, text: Text, folder: Path, sentences: int, size: int) -> list[str]:
        """Write the missing parts of one file of a corpus; return a line for each that failed."""
        faults = []
        raw = text.sentences()
        for number, first in enumerate(range(0, sentences, size)):
            path = folder / part_name(".", number, self._form.ending)
            rest = islice(raw, min(size, sentences - first))
            if path.is_file():
                self._skip(rest)
                continue
            check = self._form.check(self._source.output)
            try:
                with explained(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._write(path, self._computed(text, rest, first, check), first)
            except (FileError, RuntimeError) as error:  # RuntimeError: the device
                line = " ".join(str(error).split())
                faults.append(line if isinstance(error, FileError) else f"{path}: {line}")
                deque(rest, maxlen=0)  # the next part begins after this one
        return faults

    def _computed(
        self, text: Text, raw: Iterator[Sentence], first: int = 0, by_form: Check = accept
    ) -> Iterator[list[Item]]:
        """Yield groups of consecutive sentences of a text with their vectors.

        `raw` yields them before a tokenizer, from number `first` on. Raises FileError, with the
        place, for a sentence that `by_form` or the source refuses, or whose vectors are not finite.
        """
        check = self._check(by_form)
        self._forecast.begin()

        def read() -> Iterator[Sentence]:
            for number, each in enumerate(raw, first + 1):
                yield text.checked(number, text.tokens(number, each), check)

        sentences, tokens = tee(read())
        number = first
        try:
            for arrays in self._source.groups((each.tokens for each in tokens), self._count):
                group = list(zip(islice(sentences, len(arrays)), arrays, strict=True))
                _check_finite(text, number, group)
                number += len(group)
                self.sentences += len(group)
                yield group
        except SentenceError as error:
            raise FileError(f"{text.place(first + error.number + 1)}: {error}") from error

    def _write(self, target: Target, groups: Iterator[list[Item]], first: int = 0) -> None:
        """Write to a stream, or a file at once, whole or not at all, in place of an older one."""
        items = chain.from_iterable(groups)
        if isinstance(target, Path):
            with atomic_files.replacing(target) as temporary:
                self._form.write(temporary, items, self._facts(first))
        else:
            self._form.write(target, items, self._facts(first))

    def _join(self, paths: Sequence[Path], folder: Path, output: Path) -> None:
        """Write the output beside its parts, and move it to its place.

        Where the disk has no room for both, a part is removed when it is written: a process that is
        killed then has to compute these again.
        """
        is_short = self._forecast.is_short(folder, self._size)
        self._done = 0

        def items() -> Iterator[Item]:
            for path in paths:
                for item in part_format.items_of(path, self._facts()):
                    yield item
                    self._done += len(item[0].tokens)
                self._step("Writing", self._done, self._total)
                if is_short:
                    path.unlink()

        temporary = folder / f"{atomic_files.TEMPORARY}output"
        try:
            self._form.write(temporary, items(), self._facts())
            atomic_files.publish(temporary, output)
        finally:
            temporary.unlink(missing_ok=True)

    def _facts(self, first: int = 0) -> Facts:
        return Facts(self._source.info, self._source.output, first)

    def _expect(self, texts: Sequence[Text], found: Sequence[Survey]) -> None:
        """Set the size of the whole run, estimated by the first text where tokens are split."""
        sample = next((text for text, each in zip(texts, found, strict=True) if each.tokens), None)
        self._is_split = sample is not None and sample.tokenize is not None
        with suppress(FileError):  # a sentence that cannot be split fails in its part
            self._ratio = sample.ratio() if sample is not None else 1.0
        self._total = round(sum(each.tokens for each in found) * self._ratio)
        sentences = sum(each.sentences for each in found)
        output, width = self._source.output, self._source.info.dimension
        rows = output.size(self._total, width), sentences * output.size(1, width)
        self._size = self._form.size(rows[output.pooling != "none"], sentences)
        self._step("Embedding", 0, self._total)

    def _tell_size(self, output: Path, folder: Path | None = None) -> None:
        """Tell the size of OUTPUT; `folder` is that of its parts."""
        kept = sum(path.stat().st_size for path in parts_in(folder)) if folder is not None else 0
        self._forecast.size(output, self._size, kept, about=self._is_split)

    def _count(self, tokens: int) -> None:
        """Count tokens that were computed."""
        self.tokens += tokens
        self._done += tokens
        left = self._total - self._done
        self._forecast.count(self.tokens, left, self._source.batch_tokens)
        self._step("Embedding", self._done, self._total)

    def _skip(self, sentences: Iterator[Sentence]) -> None:
        """Read sentences that an earlier run has computed."""
        tokens = 0
        for each in sentences:
            self.resumed += 1
            tokens += len(each.tokens)
        self._done += round(tokens * self._ratio)
        self._step("Embedding", self._done, self._total)


def _check_finite(text: Text, first: int, group: Sequence[Item]) -> None:
    """Raise FileError for a sentence whose vectors hold NaN or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        for number, (_, vectors) in enumerate(group, first + 1):
            # A sum is finite where all are, unless it overflows, and is cheaper.
            if not np.isfinite(vectors.sum()) and not np.isfinite(vectors).all():
                why = "a weight of the model does, or a number is too large for --precision"
                raise FileError(f"{text.place(number)}: the vectors hold NaN or infinity: {why}")


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
