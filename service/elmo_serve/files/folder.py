"""Embeds the files of a folder into a folder of parts, which are computed in any order."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from elmo_model.steps import OnStep, ignore
from elmo_serve.files.inputs import FileError
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.resume import folder_of_parts
from elmo_serve.files.run import EmbedRun, Interrupted, Report
from elmo_serve.files.text import Corpus, Part
from elmo_serve.files.vectors import Source
from elmo_serve.workers.messages import ModelInfo

PART_SENTENCES: Final = 2_000
"""Default number of sentences of a part. A killed run loses the parts that were being written."""

Attempts = Iterator[tuple[Part, str]]
"""Parts in the order in which they were finished, each with a line that says why it failed, or an
empty one."""


@dataclass(frozen=True, slots=True)
class FolderRun:
    """The files below `root`, or one file, and the folder of their parts: values.

    Every process that computes sees both paths.
    """

    root: str
    folder: str
    options: EmbedOptions
    part_sentences: int = PART_SENTENCES

    @property
    def corpus(self) -> Corpus:
        """The files to read."""
        return Corpus(Path(self.root), self.options.input, self.options.keep_blank)

    def path(self, part: Part) -> Path:
        """Return the path of a part's output."""
        return Path(self.folder) / part.name(self.options.form.ending)

    def run(
        self,
        model: ModelInfo,
        write: Callable[[Sequence[Part]], Attempts],
        step: OnStep = ignore,
        *,
        force: bool = False,
    ) -> Report:
        """Write every part that is not there yet, with `write`, which a `PartWriter` has.

        The tokens of the report are those before a tokenizer splits them.

        Raises:
            FileError: the input or the output folder; or a part that could not be written, after
                all the others are there.
            Interrupted: Ctrl-C.
        """
        started = time.monotonic()
        self.options.form.require()
        self.options.form.check(self.options.output(model))
        corpus = self.corpus
        parts = list(corpus.parts(self.part_sentences))
        if not parts:
            raise FileError(f"{self.root} has no sentences")
        counts = Counter(part.file for part in parts)
        ending = self.options.form.ending
        with folder_of_parts(
            Path(self.folder), self._identity(model, corpus), counts, ending, discard=force
        ):
            missing = [part for part in parts if not self.path(part).is_file()]
            try:
                faults = _written(missing, write, step)
            except KeyboardInterrupt:
                raise self._interrupted(parts) from None
        if faults:
            raise FileError(f"{faults[0]} ({len(faults):,} of {len(parts):,} parts failed)")
        sentences = sum(part.sentences for part in parts)
        resumed = sentences - sum(part.sentences for part in missing)
        tokens = sum(part.tokens for part in parts)
        return Report(sentences, tokens, resumed, time.monotonic() - started)

    def _interrupted(self, parts: Sequence[Part]) -> Interrupted:
        finished = sum(self.path(part).is_file() for part in parts)
        return Interrupted(
            f"interrupted; {finished:,} of {len(parts):,} parts are finished: the same command "
            "continues from there"
        )

    def _identity(self, model: ModelInfo, corpus: Corpus) -> dict[str, Any]:
        """Return what a run has in common with the one that it continues."""
        return {
            **self.options.identity(model, self.options.input_format or "by name"),
            "model": model.revision,
            "precision": model.precision,
            "part sentences": self.part_sentences,
            "text": corpus.digest(),
        }


def _written(
    missing: Sequence[Part], write: Callable[[Sequence[Part]], Attempts], step: OnStep
) -> list[str]:
    """Write the missing parts; return a line for each that could not be written."""
    if not missing:
        return []
    faults = []
    done, tokens = 0, sum(part.tokens for part in missing)
    step("Embedding", done, tokens)
    for part, fault in write(missing):
        if fault:
            faults.append(fault)
        done += part.tokens
        step("Embedding", done, tokens)
    return faults


class PartWriter:
    """Embeds parts and writes each as a whole, or not at all."""

    def __init__(self, job: FolderRun, source: Source) -> None:
        self._job = job
        self._source = source
        self._split = job.options.split(source.info)

    def write(self, part: Part) -> None:
        """Write one part, in place of an older file of its name.

        Raises FileError for a text that has changed, for sentences that the format cannot hold, and
        for a full disk.
        """
        with self._job.corpus.part(part).split(self._split) as text:
            EmbedRun(text, self._job.options.form, self._source).to_part(self._job.path(part))

    def attempts(self, parts: Sequence[Part]) -> Attempts:
        """Write parts, one after another; one that cannot be written does not hinder the others.

        A network that fails (a GPU without memory) raises RuntimeError.
        """
        for part in parts:
            fault = ""
            try:
                self.write(part)
            except (FileError, OSError, RuntimeError) as error:
                name = part.name(self._job.options.form.ending)
                line = " ".join(str(error).split())
                fault = line if line.startswith(self._job.folder) else f"{name}: {line}"
            yield part, fault
