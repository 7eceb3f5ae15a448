"""The run of `elmo embed`: the text that it reads, the file that it writes, its notes.

`elmo embed` imports it when it runs: with a server this process needs neither torch nor pydantic.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from elmo_model.errors import counted
from elmo_model.text.tokenizers import raw_note
from elmo_serve.commands.options import note_path_of_this_name
from elmo_serve.commands.terminal import download_progress, fail, steps, tell
from elmo_serve.files.checks import is_stream
from elmo_serve.files.inputs import INPUTS, TABLES
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.proteins import Records
from elmo_serve.files.run import EmbedRun, FolderRun, Report
from elmo_serve.files.text import Text


def write_vectors(options: EmbedOptions) -> None:
    """Write OUTPUT and say so; a published model is fetched."""
    _tell_of_tables(options)
    options.form.require()
    if options.model is not None and not options.server:
        note_path_of_this_name(options.model)
    try:
        report = _to_folder(options) if options.to_folder else _to_file(options)
    except BrokenPipeError:
        # The reader of the pipe is gone. Python flushes standard output once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail("standard output was closed", code=1)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(str(error) or "interrupted; nothing is kept") from None
    again = f", {report.resumed:,} of them by an earlier run" if report.resumed else ""
    sentence, token = ("protein", "residue") if options.layout else ("sentence", "token")
    if not report.sentences:
        tell(f"{options.input} holds no sentence, so there are no vectors in {options.output}")
    click.echo(
        f"Wrote {options.output}: {counted(report.sentences, sentence)}{again}, "
        f"{counted(report.tokens, token)} in {report.seconds:.1f} s",
        err=is_stream(options.output),
    )


def _tell_of_tables(options: EmbedOptions) -> None:
    """Tell of tables, one file or some of a folder, whose lines are read as sentences."""
    corpus = options.corpus
    tables = [corpus.text(each).name for each in corpus.files if each.endswith(TABLES)]
    if tables and options.input_format is None and not options.is_fasta:
        more = f", and so are {len(tables) - 1:,} more" if tables[1:] else ""
        tell(
            f"{tables[0]} is read as plain text: each line is a sentence{more}; "
            "--input-format reads others"
        )


def _tell_of_raw(text: Text, options: EmbedOptions) -> None:
    """Tell of plain text that is not tokenised, unless a tokenizer is named."""
    if text.form is INPUTS["plain"] and options.tokenizer is None:
        tokens = (sentence.tokens for sentence in text.sentences())
        if note := raw_note(tokens, "--tokenizer model splits them"):
            tell(f"{text.name}: {note}")


def _to_file(options: EmbedOptions) -> Report:
    with (
        _text(options) as text,
        options.open(download_progress) as source,
        text.split(options.split(source.info)) as sentences,
        steps() as step,
    ):
        job = EmbedRun(sentences, options.form, source, step)
        if isinstance(text, Text):
            _tell_of_raw(text, options)
        if options.output == "-":
            return job.to_stream(sys.stdout.buffer)
        output = Path(options.output)
        if is_stream(options.output):
            with output.open("wb") as stream:
                return job.to_stream(stream)
        return job.to_file(output, options.identity(source.info), force=options.force)


@contextmanager
def _text(options: EmbedOptions) -> Iterator[Text | Records]:
    """Yield the text of a file, or the records of FASTA for a layout, whose notes are told."""
    layout = options.form.layout
    if options.rules is None or layout is None:
        read_as = options.reader(options.input)
        with Text.open(options.input, read_as, options.keep_blank_lines) as text:
            yield text
        return
    with Records.open(options.input, options.rules, layout.repeats) as records:
        for note in records.notes:
            tell(note)
        yield records


def _to_folder(options: EmbedOptions) -> Report:
    for name in options.corpus.files[:1]:
        _tell_of_raw(options.corpus.text(name), options)
    with steps() as step, options.open(download_progress) as source:
        return FolderRun(options, source, step).run()
