"""The run of `elmo embed`: the text that it reads, the format that it writes, what it says.

`elmo embed` imports it when it runs: with a server this process needs neither torch nor pydantic.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from elmo_model.errors import counted
from elmo_model.text.tokenizers import raw_note
from elmo_serve.commands.options import DEFAULT_MODEL, model_of_server
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps, tell
from elmo_serve.files.folder import PART_SENTENCES, FolderRun, PartWriter
from elmo_serve.files.inputs import INPUTS, TABLES, Rules, input_format
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs import OUTPUTS, PARTS, output_format
from elmo_serve.files.outputs.output_format import Layout
from elmo_serve.files.outputs.proteins import SEQVEC_ENDINGS, seqvec_layout
from elmo_serve.files.proteins import Records
from elmo_serve.files.run import EmbedRun, Report
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import Source

if TYPE_CHECKING:
    from elmo_serve.commands.embed import Options

_TABS_FROM: Final = 1_000  # lines in which TABs are looked for
_STREAMS: Final = [name for name, form in OUTPUTS.items() if form.is_stream]
_ENDINGS: Final = [ending for form in OUTPUTS.values() for ending in form.endings]


def write_vectors(options: Options) -> None:
    """Write OUTPUT and say so."""
    _tell_of_tables(options)
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


def _tell_of_tables(options: Options) -> None:
    """Tell of tables, one file or some of a folder, whose lines are read as sentences."""
    corpus = options.corpus
    tables = [corpus.text(each).name for each in corpus.files if each.endswith(TABLES)]
    if tables and options.input_format is None and not options.is_fasta:
        more = f", and so are {len(tables) - 1:,} more" if tables[1:] else ""
        tell(
            f"{tables[0]} is read as plain text: each line is a sentence{more}; "
            "--input-format reads others"
        )


def _tell_of_raw(text: Text, options: Options) -> None:
    """Tell of plain text that is not tokenised, unless a tokenizer is named."""
    if text.form is INPUTS["plain"] and options.tokenizer is None:
        tokens = (sentence.tokens for sentence in text.sentences())
        if note := raw_note(tokens, "--tokenizer model splits them"):
            tell(f"{text.name}: {note}")
        if options.output_format == "elmoformanylangs":
            first = [sentence.text for sentence in islice(text.sentences(), _TABS_FROM)]
            if any("\t" in line and " " in line for line in first):
                tell(f"{text.name}: tokens end at spaces too; --input-format tab: at TABs alone")


@contextmanager
def _opened(options: Options, run: EmbedOptions) -> Iterator[Source]:
    """Open the source of vectors. Ends the command where the usual model of a server is English."""
    with run.open() as source:
        if options.is_fasta and run.model is None and source.info.name == DEFAULT_MODEL:
            fail(options.english_fault, code=2)
        yield source


def _to_file(options: Options) -> Report:
    if options.layout is not None:
        _tell_of_ending(options.output, options.layout)
    run = _embed_options(options, options.layout or _format_of_file(options))
    form = "fasta" if options.is_fasta else options.input_format or input_format(options.input)
    with (
        _text(options, run, form) as text,
        _opened(options, run) as source,
        text.split(run.split(source.info)) as sentences,
        steps() as step,
    ):
        job = EmbedRun(sentences, run.form, source, step)
        if isinstance(text, Text):
            _tell_of_raw(text, options)
        if options.output == "-":
            return job.to_stream(sys.stdout.buffer)
        if is_stream(options.output):
            with Path(options.output).open("wb") as stream:
                return job.to_stream(stream)
        identity = run.identity(source.info, form)
        return job.to_file(Path(options.output), identity, force=options.force)


@contextmanager
def _text(options: Options, run: EmbedOptions, form: str) -> Iterator[Text | Records]:
    """Yield the text of a file, or the records of FASTA for a layout, whose notes are told."""
    if run.rules is None or run.form.layout is None:
        read_as = replace(run, input_format=form).input(options.input)
        with Text.open(options.input, read_as, run.keep_blank) as text:
            yield text
        return
    with Records.open(options.input, run.rules, run.form.layout.repeats) as records:
        for note in records.notes:
            tell(note)
        yield records


def _to_folder(options: Options) -> Report:
    run = _embed_options(options, options.output_format or PARTS)
    job = FolderRun(
        root=str(Path(options.input).resolve()),
        folder=str(Path(options.output).resolve()),
        options=run,
        part_sentences=options.part_sentences or PART_SENTENCES,
    )
    for name in options.corpus.files[:1]:
        _tell_of_raw(job.corpus.text(name), options)
    with steps() as step, _opened(options, run) as source:
        writer = PartWriter(job, source)
        return job.run(source.info, writer.attempts, step, force=options.force)


def _embed_options(options: Options, form: str) -> EmbedOptions:
    """Return the options of the run; a published model is fetched."""
    flags = options.forget_sentences or options.use_sentence_keys
    if flags and form != "allennlp":
        fail(f"--forget-sentences and --use-sentence-keys belong to allennlp, not {form}", code=2)
    OUTPUTS[form].require()
    layout = OUTPUTS[form].layout
    usual = "" if layout is None else "sum" if options.protein else layout.layers
    return EmbedOptions(
        layers=options.layers[0] if options.layers else usual,
        output_format=form,
        model=_model(options),
        server=options.server,
        api_key=options.api_key,
        device=options.device,
        precision=options.precision,
        word_vectors=options.word_vectors,
        normalize=options.normalize,
        input_format=options.input_format,
        column=options.column,
        tokenizer=options.tokenizer,
        keep_blank=options.keep_blank_lines,
        batch_size=options.carried_batch,
        forget_sentences=options.forget_sentences,
        use_sentence_keys=options.use_sentence_keys,
        rules=_rules(options, layout or Layout()) if options.is_fasta else None,
        protein=options.protein,
    )


def _rules(options: Options, layout: Layout) -> Rules:
    """Return the rules of a layout, with those that the command line names."""
    if not layout.rules.split_char and (options.split_char, options.id) != (None, None):
        fail("--split-char and --id belong to seqvec: other layouts have ids of their own", code=2)
    rules = replace(layout.rules, unknown=options.unknown)
    if options.upper is not None:
        rules = replace(rules, upper=options.upper)
    if options.split_char is not None:
        rules = replace(rules, split_char=options.split_char)
    return rules if options.id is None else replace(rules, field=options.id)


def _model(options: Options) -> str | None:
    """Return the name or the path of the model, for the process that computes."""
    if options.server:
        return model_of_server()
    return resolve_model(options.model)


def _tell_of_ending(output: str, layout: str) -> None:
    """Tell of a layout of proteins in a file with the ending of another one."""
    by_ending = seqvec_layout(output)
    is_hdf5 = by_ending == "seqvec" and layout == "biotrainer"
    if by_ending not in (None, layout) and not is_hdf5:
        tell(f"{output} holds {layout}; its ending is that of {by_ending}")


def _format_of_file(options: Options) -> str:
    """Return the name of the format of OUTPUT. Ends the command where it has none."""
    output = options.output
    by_ending = output_format(output)
    name = options.output_format or by_ending
    if by_ending and name and OUTPUTS[name].ending != OUTPUTS[by_ending].ending:
        tell(f"{output} holds {name}; its ending is that of {by_ending}")
    if name is None and is_stream(output):
        fail(f"{output} has no ending: name its --format, {', '.join(_STREAMS)}", code=2)
    if name is None:
        endings, option = (
            (list(SEQVEC_ENDINGS), "--layout") if options.is_fasta else (_ENDINGS, "--format")
        )
        fail(f"{output} ends in none of {', '.join(endings)}: name its {option}", code=2)
    if is_stream(output) and name not in _STREAMS:
        fail(
            f"{name} cannot be written to {output}: HDF5 is no stream; name a file, or take "
            f"--format {', '.join(_STREAMS)}",
            code=2,
        )
    return name


def is_stream(output: str) -> bool:
    """Tell whether OUTPUT is a pipe, a device or an open file, beside which no part can be kept."""
    path = Path(output)
    is_descriptor = path.is_relative_to("/dev") and path.is_symlink()  # /dev/stdout, /dev/fd/3
    is_other = path.exists() and not path.is_file() and not path.is_dir()
    return output == "-" or is_descriptor or is_other
