"""The command `elmo embed`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from elmo_model.inference.malloc import keep_freed_memory
from elmo_model.precision import PRECISIONS
from elmo_model.tokenizers import TOKENIZERS, tokenizer
from elmo_serve.commands.embed_on_ray import embed_on_ray, refuse_folders
from elmo_serve.commands.published import model_of_server, model_option, resolve_model
from elmo_serve.commands.terminal import fail, token_progress
from elmo_serve.commands.word_vector_map import word_vector_map
from elmo_serve.files.inputs import INPUTS
from elmo_serve.files.selection import selection
from elmo_serve.files.sentence import FileError
from elmo_serve.output import NAMED

if TYPE_CHECKING:
    from elmo_model.word_vectors.word_vectors import WordVectors
    from elmo_serve.files.in_process import InProcess
    from elmo_serve.files.outputs.output_format import OutputFormat
    from elmo_serve.files.run import Job, Report
    from elmo_serve.files.sources.source import Source
    from elmo_serve.files.text import Text
    from elmo_serve.output import Output
    from elmo_serve.workers.messages import ModelInfo

# Named here and not taken from the table of formats, which imports h5py.
OUTPUT_FORMATS: Final = (
    "allennlp",
    "elmoformanylangs",
    "elmoformanylangs-text",
    "npz",
    "parquet",
)
STREAMS: Final = ("elmoformanylangs-text", "npz", "parquet")

_BATCH_SIZE = 64  # sentences; the default of `allennlp elmo`

# Seconds that a request is repeated while a server that responded before is busy or restarts.
_PATIENCE_SECONDS = 600.0


@click.command()
@click.argument("input", type=click.Path(exists=True, allow_dash=True))
@click.argument("output", type=click.Path(allow_dash=True))
@click.option("--all", is_flag=True, help="All layers of each token.")
@click.option("--top", is_flag=True, help="The top layer.")
@click.option("--average", is_flag=True, help="The mean of all layers.")
@click.option("--sum", is_flag=True, help="The sum of all layers.")
@click.option("--concat", is_flag=True, help="All layers of a token joined to one vector.")
@click.option("--layer", type=click.IntRange(min=0), metavar="K", help="Layer K; 0: token layer.")
@click.option("--normalize", is_flag=True, help="Scale every vector to length 1.")
@click.option(
    "--word-vectors",
    metavar="FILE",
    help="Append the static word vectors of FILE; with --server `append`: those of the server.",
)
@model_option("Name or path of the model; with --server one of its models, or its first.")
@click.option("--server", metavar="URL", help="Compute on this server, not in this process.")
@click.option("--api-key", envvar="ELMO_API_KEY", show_envvar=True, help="A key of the server.")
@click.option(
    "--input-format",
    type=click.Choice(list(INPUTS)),
    default="plain",
    show_default=True,
    help="Tokens between white space, tokens between TABs, or CoNLL-U.",
)
@click.option(
    "--tokenizer",
    type=click.Choice(["model", *TOKENIZERS]),
    help="Split each line into tokens; model: with the tokenizer of the model.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(OUTPUT_FORMATS),
    help="Format of OUTPUT. Default: by its ending (.hdf5 and .h5: allennlp; .npz; .parquet).",
)
@click.option("--forget-sentences", is_flag=True, help="allennlp: no `sentence_to_index`.")
@click.option("--use-sentence-keys", is_flag=True, help="allennlp: sentences as keys.")
@click.option("--keep-blank-lines", is_flag=True, help="A blank line is a sentence of no tokens.")
@click.option("--carry-state", is_flag=True, help="Carry LSTM state, as AllenNLP and bilm-tf did.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    help=f"With --carry-state: sentences in a batch. Default: {_BATCH_SIZE}.",
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    show_default=True,
    help="Precision of the weights; vectors are float32. int8: on a CPU with VNNI.",
)
@click.option("--force", is_flag=True, help="Replace OUTPUT, and the part of another run.")
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Compute on a cluster of Ray: auto, host:port, or local for a new one on this machine. "
    "INPUT may be a folder; OUTPUT is a folder of parts, in Parquet by default.",
)
@click.option("--actors", type=click.IntRange(min=1), help="With --ray: the most models at once.")
@click.option("--part-sentences", type=click.IntRange(min=1), help="With --ray: of one part.")
@click.pass_context
def embed(context: click.Context, /, input: str, output: str, **options: Any) -> None:  # noqa: A002 - the argument's name
    """Write the vectors of every sentence of INPUT to OUTPUT.

    Give one of --all, --top, --average, --sum, --concat and --layer. A command that was
    interrupted or killed continues where it was when it is started again. `-` is standard input or
    standard output.

    \b
    Examples:
      $ elmo embed sentences.txt vectors.hdf5 --all
      $ elmo embed text.txt vectors.npz --top --tokenizer model
      $ elmo embed sentences.conllu vectors.npz --top --input-format conllu
      $ elmo embed sentences.txt vectors.npz --average --server http://localhost:8000
      $ elmo embed corpus/ vectors/ --top --ray auto
      $ echo "Hello world" | elmo embed - - --top --format elmoformanylangs-text
    """
    from elmo_client import ElmoError
    from elmo_serve.files.run import Interrupted

    layers = _layers(options)
    if options["ray"]:
        embed_on_ray(input, output, layers, options)
        return
    refuse_folders(input, output, options)
    name, form = _output_format(output, options)
    _check_source(context, options)
    try:
        form.require()
        with _job(input, layers, form, options) as job:
            report = _run(job, output, layers, name, options)
    except (FileError, ElmoError) as error:
        fail(str(error), code=1)
    except BrokenPipeError:
        # The reader of the pipe is gone. Python flushes standard output once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail("the reader of standard output is gone", code=1)
    except OSError as error:
        fail(f"{error.filename or input}: {error.strerror or error}", code=1)
    except Interrupted as error:
        fail(str(error), code=130)
    except KeyboardInterrupt:
        fail("interrupted; nothing is kept", code=130)
    again = f", {report.resumed:,} of them by an earlier run" if report.resumed else ""
    click.echo(
        f"Wrote {output}: {report.sentences:,} sentences{again}, {report.tokens:,} tokens "
        f"in {report.seconds:.1f} s",
        err=is_stream(output),
    )


def _run(
    job: Job, output: str, layers: str | int, format_name: str, options: dict[str, Any]
) -> Report:
    if output == "-":
        return job.to_stream(sys.stdout.buffer)
    if is_stream(output):
        with Path(output).open("wb") as stream:
            return job.to_stream(stream)
    identity = {
        "layers": layers,
        "input format": options["input_format"],
        "blank lines": options["keep_blank_lines"],
        "batch size": _batch_size(options),
        "format": format_name,
    }
    if options["word_vectors"]:
        identity["word vectors"] = _revision(job.source.info)
    identity |= {key: options[key] for key in ("normalize", "tokenizer") if options[key]}
    return job.to_file(Path(output), identity, force=options["force"])


def _revision(model: ModelInfo) -> str:
    assert model.word_vectors is not None, "they are appended"
    return model.word_vectors.revision


def is_stream(output: str) -> bool:
    """Tell whether OUTPUT is a pipe, a device or an open file, beside which no part can be kept."""
    path = Path(output)
    is_descriptor = path.is_relative_to("/dev") and path.is_symlink()  # /dev/stdout, /dev/fd/3
    return output == "-" or is_descriptor or (path.exists() and not path.is_file())


def _layers(options: dict[str, Any]) -> str | int:
    given: list[str | int] = [name for name in NAMED if options[name]]
    if options["layer"] is not None:
        given.append(options["layer"])
    if len(given) != 1:
        names = ", ".join(f"--{name}" for name in NAMED)
        fail(f"one of {names} and --layer is needed, and only one", code=2)
    return given[0]


def _output_format(output: str, options: dict[str, Any]) -> tuple[str, OutputFormat]:
    from elmo_serve.files.outputs import BY_SUFFIX, OUTPUTS, allennlp

    name = options["output_format"] or BY_SUFFIX.get(Path(output).suffix)
    if name is None and is_stream(output):
        fail(f"{output} has no ending: name its --format, {', '.join(STREAMS)}", code=2)
    if name is None:
        fail(f"{output} ends in none of {', '.join(BY_SUFFIX)}: name its --format", code=2)
    if is_stream(output) and name not in STREAMS:
        fail(
            f"{name} cannot be written to {output}: HDF5 is no stream; name a file, or take "
            f"--format {', '.join(STREAMS)}",
            code=2,
        )
    flags = {key: options[key] for key in ("forget_sentences", "use_sentence_keys")}
    if name == "allennlp":
        return f"{name} {flags}", allennlp.variant(**flags)
    if any(flags.values()):
        fail(f"--forget-sentences and --use-sentence-keys belong to allennlp, not {name}", code=2)
    return name, OUTPUTS[name]


def _check_source(context: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that would have no effect."""
    given = {
        name
        for name in ("device", "precision", "api_key")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if options["server"]:
        options["model"] = model_of_server()
        for name in ("device", "precision"):
            if name in given:
                fail(f"--{name} has no effect with --server: the server chose it", code=2)
        if options["carry_state"]:
            fail("--carry-state needs the model in this process: a server keeps no state", code=2)
    elif "api_key" in given:
        fail("--api-key goes with --server; without it, it has no effect", code=2)
    if options["tokenizer"] and options["input_format"] != "plain":
        fail(f"--tokenizer splits plain text, not {options['input_format']}", code=2)
    if options["batch_size"] and not options["carry_state"]:
        fail("--batch-size goes with --carry-state; without it, it has no effect", code=2)


def _batch_size(options: dict[str, Any]) -> int | None:
    """Return the number of sentences in a batch that shares state; None without state."""
    return (options["batch_size"] or _BATCH_SIZE) if options["carry_state"] else None


@contextmanager
def _job(
    name: str, layers: str | int, form: OutputFormat, options: dict[str, Any]
) -> Iterator[Job]:
    from elmo_serve.files.run import Job
    from elmo_serve.files.text import Text

    input_format = INPUTS[options["input_format"]]
    with (
        Text.open(name, input_format, options["keep_blank_lines"]) as text,
        _source(layers, options) as (source, wanted),
        _split(text, options["tokenizer"], source.info) as sentences,
        token_progress() as step,
    ):
        yield Job(sentences, form, source, wanted, step)


@contextmanager
def _split(text: Text, name: str | None, model: ModelInfo) -> Iterator[Text]:
    """Split the lines of a text with the tokenizer of this name, if there is one."""
    if name is None:
        yield text
        return
    split = tokenizer(model.tokenizer if name == "model" else name, model.language)
    with text.split(split) as sentences:
        yield sentences


@contextmanager
def _source(layers: str | int, options: dict[str, Any]) -> Iterator[tuple[Source, Output]]:
    """Open the server or the network; close it in the end."""
    if (url := options["server"]) is not None:
        from elmo_client import Client
        from elmo_serve.files.sources.remote import Remote

        key = options["api_key"]
        with Client(
            url, api_key=key, model=options["model"], patience_seconds=_PATIENCE_SECONDS
        ) as client:
            count = client.info()["layers"]
            width = _server_width(client.info(), options["word_vectors"])
            wanted = selection(layers, count, normalize=options["normalize"], appended=width)
            yield Remote(client, layers, wanted), wanted
        return
    from elmo_serve.files.sources.local import LengthSorted, Stateful

    network = _network(options)
    width = network.words.dimension if network.words is not None else 0
    normalize = options["normalize"]
    wanted = selection(layers, network.info.layers, normalize=normalize, appended=width)
    batch_size = _batch_size(options)
    if batch_size is None:
        yield LengthSorted(network, wanted), wanted
    else:
        yield Stateful(network, wanted, batch_size), wanted


def _server_width(info: dict[str, Any], word_vectors: str | None) -> int:
    """Return the width of the server's word vectors; 0 where none are asked for."""
    if word_vectors is None:
        return 0
    if word_vectors != "append":
        fail("--word-vectors is `append` with --server: the server has the file", code=2)
    if info.get("word_vectors") is None:
        raise FileError("the server has no word vectors; its ELMO_WORD_VECTORS names a file")
    return int(info["word_vectors"]["dimension"])


def _words(path: str | None) -> WordVectors | None:
    if path is None:
        return None
    from elmo_model.word_vectors.word_vectors import WordVectors

    return WordVectors.open(word_vector_map(Path(path)))


def _network(options: dict[str, Any]) -> InProcess:
    from elmo_model.checkpoints import CheckpointError
    from elmo_serve.files.in_process import InProcess

    model = resolve_model(options["model"])
    try:
        network = InProcess.open(
            model,
            device=options["device"],
            precision=options["precision"],
            owns_process=True,
            words=_words(options["word_vectors"]),
        )
    except CheckpointError as error:
        raise FileError(str(error)) from error
    except (RuntimeError, ValueError) as error:
        raise FileError(f"{options['device']}, {options['precision']}: {error}") from error
    keep_freed_memory()
    return network
