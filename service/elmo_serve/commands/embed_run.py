"""The run of `elmo embed`: checks of its options, the text that it reads, its output and notes.

`elmo embed` imports it when it runs: with a server this process needs neither torch nor pydantic.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Final

import click

from elmo_model.errors import OptionError, counted
from elmo_model.text.tokenizers import raw_note
from elmo_serve.commands.options import note_path_of_this_name
from elmo_serve.commands.terminal import download_progress, fail, steps, tell
from elmo_serve.files.inputs import INPUTS, TABLES
from elmo_serve.files.options import PROTEINS, EmbedOptions, may_read_proteins
from elmo_serve.files.outputs import OUTPUTS, output_format
from elmo_serve.files.outputs.proteins import LAYOUTS, SEQVEC_ENDINGS
from elmo_serve.files.proteins import Records, begins_as_fasta
from elmo_serve.files.run import EmbedRun, FolderRun, Report
from elmo_serve.files.text import Text
from elmo_serve.output import NAMED

ONE_SELECTION: Final = (
    f"one of {', '.join(f'--{name}' for name in NAMED)} and --layer is needed, and only one"
)
_RECORDS: Final = ("protein", "upper", "unknown", "split_char", "id")
_ENDINGS: Final = [ending for form in OUTPUTS.values() for ending in form.endings]


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


def check(options: EmbedOptions, *, is_model_named: bool = True) -> None:
    """Raise OptionError for options that do not go together.

    `is_model_named` tells that the user has chosen the model for this run.
    """
    for fault in _faults(options, is_model_named):
        raise OptionError(fault)


def _faults(options: EmbedOptions, is_model_named: bool) -> Iterator[str]:
    name = options.output_format
    if name in LAYOUTS and not options.is_fasta:
        yield f"{name} is a layout of FASTA, not of {options.input_format}"
    if options.read_as == "plain" and not options.input_format and begins_as_fasta(options.input):
        yield f"{options.input} begins with '>': name --input-format fasta, or plain for text"
    if options.holds_fasta and not (
        is_model_named or options.server or may_read_proteins(options.model)
    ):
        yield f"{options.input} holds FASTA, and {options.model} reads text: {PROTEINS}"
    if options.layout is not None and options.part_sentences is not None:
        yield f"{options.layout} is one file: leave out --part-sentences"
    if options.layout == "bio_embeddings" and options.layers is not None:
        yield "bio_embeddings holds all layers and their sum: name no other layers"
    yield from _folder_faults(options) if options.to_folder else _file_faults(options)
    if options.layers is None and not options.layout:
        yield ONE_SELECTION
    if options.server and options.word_vectors not in (None, "append"):
        yield "--word-vectors is `append` with --server: the server has the file"
    yield from _without_effect(options)


def _file_faults(options: EmbedOptions) -> Iterator[str]:
    source, output, name = Path(options.input), Path(options.output), options.format
    if name is None:
        known = SEQVEC_ENDINGS if options.is_fasta else _ENDINGS
        yield f"{options.output} ends in none of {', '.join(known)}: name its --format"
    elif is_stream(options.output) and not OUTPUTS[name].is_stream:
        yield f"{name} cannot be written to {options.output}, which is no file"
    if source.is_file() and output.exists() and source.samefile(output):
        yield f"{options.output} is INPUT: the vectors would take the place of the text"


def _folder_faults(options: EmbedOptions) -> Iterator[str]:
    output = Path(options.output)
    if options.input == "-":
        yield "the INPUT of parts is a file or a folder, not standard input"
    if options.output == "-" or (output.exists() and not output.is_dir()):
        yield f"the OUTPUT of parts is a folder, and {options.output} is none"
    by_ending = output_format(options.output)
    if by_ending not in (None, options.format) and not output.exists():
        yield f"{options.output} ends like a file, and the OUTPUT of parts is a folder"
    if output.resolve().is_relative_to(Path(options.input).resolve()):
        yield f"OUTPUT lies in INPUT, {options.input}: its parts would be read as text"


def _without_effect(options: EmbedOptions) -> Iterator[str]:
    """Yield a message for each option that would have no effect beside the others."""
    read_as, form = options.read_as, options.format
    has_ids = bool(form and (layout := OUTPUTS[form].layout) and layout.rules.split_char)
    table = (
        (options.server, ("device", "precision"), "has no effect with --server"),
        (options.server, ("carry_state",), "needs the model here: a server keeps no state"),
        (not options.carry_state, ("batch_size",), "has no effect without --carry-state"),
        (options.to_folder, ("carry_state",), "goes with one file, not with parts in any order"),
        (not options.is_fasta, _RECORDS, "goes with FASTA and its layouts, not this INPUT"),
        (not has_ids, ("split_char", "id"), "belongs to the layout seqvec"),
        (
            form != "allennlp",
            ("forget_sentences", "use_sentence_keys"),
            f"belongs to allennlp, not {form}",
        ),
        (read_as not in ("conll", "by name"), ("column",), f"goes with conll, not {read_as}"),
        (
            read_as not in ("plain", "by name"),
            ("tokenizer",),
            f"splits plain text, not {read_as}",
        ),
    )
    usual = {each.name: each.default for each in fields(options)}
    for is_refused, names, why in table:
        for name in names:
            if is_refused and getattr(options, name) != usual[name]:
                yield f"--{name.replace('_', '-')} {why}"


def is_stream(output: str) -> bool:
    """Tell whether OUTPUT is a pipe, a device or an open file, beside which no part can be kept."""
    path = Path(output)
    is_descriptor = path.is_relative_to("/dev") and path.is_symlink()  # /dev/stdout, /dev/fd/3
    is_other = path.exists() and not path.is_file() and not path.is_dir()
    return output == "-" or is_descriptor or is_other
