"""The command `elmo embed`: its options, and the line that says what was written."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from elmo_model.errors import counted
from elmo_model.text.tokenizers import raw_note
from elmo_serve.commands.options import (
    MODEL_OR_SERVERS,
    api_key_option,
    device_option,
    is_given,
    model_of_server,
    model_option,
    precision_option,
    server_option,
    tokenizer_option,
)
from elmo_serve.commands.server import connected
from elmo_serve.commands.terminal import download_progress, fail, steps, tell
from elmo_serve.files.folder import kept
from elmo_serve.files.forecast import Forecast
from elmo_serve.files.inputs import INPUTS
from elmo_serve.files.outputs import OUTPUTS, PARTS, is_stream
from elmo_serve.files.text import Text
from elmo_serve.selection import NAMED, Pooling

if TYPE_CHECKING:
    from elmo_serve.files.options import EmbedOptions
    from elmo_serve.files.run import EmbedRun
    from elmo_serve.workers.messages import ModelInfo

_PATIENCE_SECONDS = 600.0
"""Seconds that a request is repeated while a server that responded before is busy or restarts."""


@click.command()
@click.argument("input", type=click.Path(exists=True, allow_dash=True))
@click.argument("output", type=click.Path(allow_dash=True))
@click.option("--all", is_flag=True, help="All layers of each token.")
@click.option("--top", is_flag=True, help="The top layer.")
@click.option("--average", is_flag=True, help="The mean of all layers.")
@click.option("--sum", is_flag=True, help="The sum of all layers.")
@click.option("--concat", is_flag=True, help="All layers of a token joined to one vector.")
@click.option("--layer", type=click.IntRange(min=0), metavar="K", help="Layer K; 0: token layer.")
@click.option(
    "--pooling",
    type=click.Choice(get_args(Pooling)),
    default="none",
    show_default=True,
    help="npz, parquet, seqvec: one vector a sentence, the mean or the maximum over its tokens.",
)
@click.option("--normalize", is_flag=True, help="Scale every vector to length 1.")
@model_option(MODEL_OR_SERVERS)
@server_option("Compute on this server, not in this process.")
@api_key_option
@click.option(
    "--input-format",
    type=click.Choice(list(INPUTS)),
    help="Tokens between white space, tokens between TABs, CoNLL-U, a token a line in columns "
    "(CoNLL-2003) or FASTA. Default: by the ending of INPUT (.conllu; .conll; .fasta, .fa, .faa, "
    ".fas), else plain.",
)
@click.option(
    "--column",
    type=click.IntRange(min=0),
    metavar="N",
    help="conll: the column of the tokens, from 0. Default: 0.",
)
@tokenizer_option("Split each line into tokens; model: with the tokenizer of the model.", "model")
@click.option(
    "--format",
    "--layout",
    "output_format",
    type=click.Choice(list(OUTPUTS)),
    help="Format of OUTPUT. Default: by its ending (.hdf5 and .h5: allennlp, of FASTA seqvec; "
    f".npz; .parquet); of parts: {PARTS}.",
)
@click.option("--forget-sentences", is_flag=True, help="allennlp: no `sentence_to_index`.")
@click.option("--use-sentence-keys", is_flag=True, help="allennlp: sentences as keys.")
@click.option("--keep-blank-lines", is_flag=True, help="A blank line is a sentence of no tokens.")
@click.option("--carry-state", is_flag=True, help="Carry LSTM state, as AllenNLP and bilm-tf did.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    help="With --carry-state: sentences in a batch. Default: 64.",
)
@device_option()
@precision_option("Precision of the weights; vectors are float32.")
@click.option("--force", is_flag=True, help="Replace OUTPUT, and the part of another run.")
@click.option(
    "--part-sentences",
    type=click.IntRange(min=1),
    help="Sentences of a part, in a folder of parts. Default: 2000.",
)
def embed(**values: Any) -> None:
    """Write the vectors of every sentence of INPUT to OUTPUT.

    Give one of --all, --top, --average, --sum, --concat and --layer; the layout seqvec has the sum
    without one. A command that was interrupted or killed continues where it was when it is
    started again. `-` is standard input or standard output. Where INPUT is a folder, OUTPUT is a
    folder of parts.

    \b
    Examples:
      $ elmo embed sentences.txt vectors.hdf5 --all
      $ elmo embed text.txt vectors.npz --top --tokenizer model
      $ elmo embed sentences.conllu vectors.npz --top --input-format conllu
      $ elmo embed sentences.txt vectors.npz --average --server http://localhost:8000
      $ elmo embed corpus/ vectors/ --top
      $ elmo embed proteins.fasta vectors.h5 --model seqvec
      $ echo "Hello world" | elmo embed - - --top --format elmoformanylangs-text
    """
    from elmo_serve.files.options import ONE_SELECTION, EmbedOptions

    selected = [name for name in NAMED if values.pop(name)]
    layer = values.pop("layer")
    if len(selected) + (layer is not None) > 1:
        fail(ONE_SELECTION, code=2)
    if values["server"]:
        values["model"] = model_of_server()
    options = EmbedOptions(layers=selected[0] if selected else layer, **values)
    options.check(is_model_named=is_given("model"))
    options.form.require()
    run = _written(options)
    again = f", {run.resumed:,} of them by an earlier run" if run.resumed else ""
    click.echo(
        f"Wrote {options.output}: {counted(run.resumed + run.sentences, 'sentence')}{again}, "
        f"{counted(run.tokens, 'token')} in {run.seconds:.1f} s",
        err=is_stream(options.output),
    )


def _written(options: EmbedOptions) -> EmbedRun:
    """Write OUTPUT; a published model is fetched."""
    try:
        return _run(options)
    except BrokenPipeError:
        # The reader of the pipe is gone. Python flushes standard output once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail("standard output was closed", code=1)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept(options.parts_folder)) from None
    except SystemExit:  # SIGTERM
        tell(kept(options.parts_folder))
        raise


def _run(options: EmbedOptions) -> EmbedRun:
    """Open INPUT and the source of vectors, and write OUTPUT or its parts."""
    from elmo_serve.files.opening import source_here, source_of_server
    from elmo_serve.files.run import EmbedRun

    with ExitStack() as stack:
        if options.to_folder:
            texts = list(map(options.corpus.text, options.corpus.files[:1]))
        else:
            form = options.reader(options.input)
            texts = [stack.enter_context(Text.open(options.input, form, options.keep_blank_lines))]
        if options.server is None:
            source = source_here(options, download_progress)
        else:
            server = connected(
                options.server,
                options.api_key,
                options.model,
                patience_seconds=_PATIENCE_SECONDS,
            )
            source = source_of_server(options, stack.enter_context(server))
        step = stack.enter_context(steps())
        for text in texts:
            _tell_of_raw(text, options)
        run = EmbedRun(options.form, source, step, Forecast(tell))
        if options.to_folder:
            run.to_folder(options)
        else:
            _to_file(run, texts[0].split(options.split(source.info)), options, source.info)
    return run


def _to_file(run: EmbedRun, text: Text, options: EmbedOptions, model: ModelInfo) -> None:
    output = Path(options.output)
    if options.output == "-":
        run.to_whole(text, sys.stdout.buffer)
    elif is_stream(options.output):
        with output.open("wb") as stream:
            run.to_whole(text, stream)
    else:
        run.to_file(text, output, options.identity(model), force=options.force)


def _tell_of_raw(text: Text, options: EmbedOptions) -> None:
    """Tell of plain text that is not tokenised, unless a tokenizer is named."""
    if text.form is INPUTS["plain"] and options.tokenizer is None:
        tokens = (sentence.tokens for sentence in text.sentences())
        if note := raw_note(tokens, "--tokenizer model splits them"):
            tell(f"{text.name}: {note}")
