"""The command `elmo embed`."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elmo_model.inference.malloc import keep_freed_memory
from elmo_model.precision import PRECISIONS
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, token_progress

if TYPE_CHECKING:
    from elmo_serve.files.in_process import InProcess
    from elmo_serve.files.outputs.output_format import OutputFormat
    from elmo_serve.files.sources.source import Source
    from elmo_serve.output import Output

INPUT_FORMATS: Final = ("plain", "tab", "conllu")
OUTPUT_FORMATS: Final = (
    "allennlp",
    "elmoformanylangs",
    "elmoformanylangs-text",
    "npz",
    "parquet",
)
_BATCH_SIZE = 64  # `allennlp elmo`'s
_FIRST_SECONDS = 5.0
_PATIENCE_SECONDS = 600.0


@click.command()
@click.argument("input", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("output", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--all", is_flag=True, help="All layers of a token.")
@click.option("--top", is_flag=True, help="The top layer.")
@click.option("--average", is_flag=True, help="The plain mean of all layers.")
@click.option("--layer", type=click.IntRange(min=0), metavar="K", help="Layer K alone; 0: tokens.")
@click.option("--model", envvar="ELMO_MODEL", show_envvar=True, help="Built-in name or path.")
@click.option("--server", metavar="URL", help="Let this server compute instead of this process.")
@click.option("--api-key", envvar="ELMO_API_KEY", show_envvar=True, help="The server's, if any.")
@click.option(
    "--input-format",
    type=click.Choice(INPUT_FORMATS),
    default="plain",
    show_default=True,
    help="Tokens between white space, tokens between TABs, or CoNLL-U.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(OUTPUT_FORMATS),
    help="Of the output. Default: by its ending (.hdf5 and .h5: allennlp; .npz; .parquet).",
)
@click.option("--forget-sentences", is_flag=True, help="allennlp: no `sentence_to_index`.")
@click.option("--use-sentence-keys", is_flag=True, help="allennlp: sentences for keys.")
@click.option("--keep-blank-lines", is_flag=True, help="A sentence of no tokens is one, too.")
@click.option("--carry-state", is_flag=True, help="As the old tools: carry state between batches.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    help=f"With --carry-state: sentences of a batch. Default: {_BATCH_SIZE}.",
)
@click.option("--device", default="auto", show_default=True, help="cpu or cuda:0, for one.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    show_default=True,
    help="Of weights and products; vectors are float32.",
)
@click.option("--force", is_flag=True, help="Replace OUTPUT, and what another run left of it.")
def embed(input: Path, output: Path, **options: Any) -> None:  # noqa: A002 - the argument's name
    """Write the vectors of every sentence of INPUT to OUTPUT.

    One of --all, --top, --average and --layer says which. A command that was killed, started again
    as it was, goes on where it was.
    """
    from elmo_client import ElmoError
    from elmo_serve.files.inputs import INPUTS
    from elmo_serve.files.run import Text, run
    from elmo_serve.files.sentence import FileError

    layers = _layers(options)
    name, form = _output_format(output, options)
    _check_source(options)
    text = Text(input, INPUTS[options["input_format"]], options["keep_blank_lines"])
    identity = {
        "layers": layers,
        "input format": options["input_format"],
        "blank lines": options["keep_blank_lines"],
        "batch size": _batch_size(options),
        "format": name,
    }
    try:
        form.require()
        with _source(layers, options) as (source, wanted), token_progress() as step:
            report = run(
                text, output, form, source, wanted, identity, force=options["force"], step=step
            )
    except (FileError, ElmoError) as error:
        fail(str(error), code=1)
    except OSError as error:
        fail(f"{error.filename or input}: {error.strerror or error}", code=1)
    again = f", {report.resumed:,} of them by an earlier run" if report.resumed else ""
    click.echo(
        f"Wrote {output}: {report.sentences:,} sentences{again}, {report.tokens:,} tokens "
        f"in {report.seconds:.1f} s"
    )


def _layers(options: dict[str, Any]) -> str | int:
    given: list[str | int] = [name for name in ("all", "top", "average") if options[name]]
    if options["layer"] is not None:
        given.append(options["layer"])
    if len(given) != 1:
        fail("one of --all, --top, --average and --layer is needed, and only one", code=2)
    return given[0]


def _output_format(output: Path, options: dict[str, Any]) -> tuple[str, OutputFormat]:
    from elmo_serve.files.outputs import BY_SUFFIX, OUTPUTS, allennlp

    name = options["output_format"] or BY_SUFFIX.get(output.suffix)
    if name is None:
        fail(
            f"{output} ends in none of {', '.join(BY_SUFFIX)}: --format says what it is to be",
            code=2,
        )
    flags = {key: options[key] for key in ("forget_sentences", "use_sentence_keys")}
    if name == "allennlp":
        return f"{name} {flags}", allennlp.variant(**flags)
    if any(flags.values()):
        fail(f"--forget-sentences and --use-sentence-keys belong to allennlp, not {name}", code=2)
    return name, OUTPUTS[name]


def _check_source(options: dict[str, Any]) -> None:
    if options["server"] and options["carry_state"]:
        fail("--carry-state needs the model in this process: a server keeps no state", code=2)
    if options["batch_size"] and not options["carry_state"]:
        fail("--batch-size goes with --carry-state; without it, it would change nothing", code=2)


def _batch_size(options: dict[str, Any]) -> int | None:
    """Return the sentences of a batch that shares state; None where none is carried."""
    return (options["batch_size"] or _BATCH_SIZE) if options["carry_state"] else None


@contextmanager
def _source(layers: str | int, options: dict[str, Any]) -> Iterator[tuple[Source, Output]]:
    """Open what computes; close it in the end."""
    from elmo_client import Client
    from elmo_serve.files.selection import selection
    from elmo_serve.files.sources.remote import Remote

    if (url := options["server"]) is not None:
        key = options["api_key"]
        # A server that was never there is said at once; one that is lost for a while is waited for.
        with Client(url, api_key=key, patience_seconds=_FIRST_SECONDS) as client:
            client.info()
        with Client(url, api_key=key, patience_seconds=_PATIENCE_SECONDS) as client:
            wanted = selection(layers, client.info()["layers"])
            yield Remote(client, layers, wanted), wanted
        return
    from elmo_serve.files.sources.local import Carried, Sorted

    network = _network(options)
    wanted = selection(layers, network.info.layers)
    batch_size = _batch_size(options)
    if batch_size is None:
        yield Sorted(network, wanted), wanted
    else:
        yield Carried(network, wanted, batch_size), wanted


def _network(options: dict[str, Any]) -> InProcess:
    from elmo_model.checkpoints import CheckpointError
    from elmo_serve.files.in_process import InProcess
    from elmo_serve.files.sentence import FileError
    from elmo_serve.settings_text import default

    model = resolve_model(options["model"] or str(default("model")))
    try:
        network = InProcess.open(model, device=options["device"], precision=options["precision"])
    except CheckpointError as error:
        raise FileError(str(error)) from error
    except (RuntimeError, ValueError) as error:
        raise FileError(f"{options['device']}, {options['precision']}: {error}") from error
    keep_freed_memory()
    return network
