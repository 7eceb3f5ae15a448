"""Embeds the files of a folder into a folder of parts, each written whole or not at all."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_model.steps import OnStep, ignore
from elmo_serve.files.inputs import FileError
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.resume import folder_of_parts
from elmo_serve.files.run import EmbedRun, Interrupted, Report
from elmo_serve.files.text import Part
from elmo_serve.files.vectors import Source


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
        form.require()
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
