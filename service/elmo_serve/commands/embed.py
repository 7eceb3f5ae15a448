"""The command `elmo embed`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elmo_model.models.catalogue import path_fault, published_model
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
from elmo_serve.commands.published import resolve_model
from elmo_serve.commands.terminal import fail, steps
from elmo_serve.commands.word_vectors import word_vector_map
from elmo_serve.files.inputs import INPUTS, FileError, input_format
from elmo_serve.files.outputs import OUTPUTS, output_format
from elmo_serve.files.text import Text
from elmo_serve.output import NAMED

if TYPE_CHECKING:
    from elmo_model.steps import OnStep
    from elmo_serve.files.folder import FolderJob
    from elmo_serve.files.options import EmbedOptions
    from elmo_serve.files.run import Report
    from elmo_serve.models import CacheSettings

_STREAMS: Final = [name for name, form in OUTPUTS.items() if form.is_stream]
_ENDINGS: Final = [ending for form in OUTPUTS.values() for ending in form.endings]
_PARTS: Final = "parquet"  # the format of the parts of a folder

_BATCH_SIZE: Final = 64  # sentences; the default of `allennlp elmo`


@dataclass(frozen=True, slots=True)
class _Options:
    """The command line as click has read it."""

    input: str
    output: str
    all: bool
    top: bool
    average: bool
    sum: bool
    concat: bool
    layer: int | None
    normalize: bool
    word_vectors: str | None
    model: str
    server: str | None
    api_key: str | None
    input_format: str | None
    tokenizer: str | None
    output_format: str | None
    forget_sentences: bool
    use_sentence_keys: bool
    keep_blank_lines: bool
    carry_state: bool
    batch_size: int | None
    device: str
    precision: str
    force: bool
    part_sentences: int | None
    ray: str | None
    actors: int | None

    @property
    def to_folder(self) -> bool:
        """Whether OUTPUT is a folder of parts."""
        parts = self.ray is not None or self.part_sentences is not None
        return parts or Path(self.input).is_dir()

    @property
    def layers(self) -> list[str | int]:
        """The selections of layers; there should be one."""
        numbers = [] if self.layer is None else [self.layer]
        return [*(name for name in NAMED if getattr(self, name)), *numbers]


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
@model_option(MODEL_OR_SERVERS)
@server_option("Compute on this server, not in this process.")
@api_key_option()
@click.option(
    "--input-format",
    type=click.Choice(list(INPUTS)),
    help="Tokens between white space, tokens between TABs, or CoNLL-U. Default: by the ending of "
    "INPUT (.conllu), else plain.",
)
@tokenizer_option("Split each line into tokens; model: with the tokenizer of the model.", "model")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(OUTPUTS)),
    help="Format of OUTPUT. Default: by its ending (.hdf5 and .h5: allennlp; .npz; .parquet); of "
    f"parts: {_PARTS}.",
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
@device_option()
@precision_option("Precision of the weights; vectors are float32.")
@click.option("--force", is_flag=True, help="Replace OUTPUT, and the part of another run.")
@click.option(
    "--part-sentences",
    type=click.IntRange(min=1),
    help="Sentences of a part, in a folder of parts. Default: 2000.",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Compute the parts on a cluster of Ray: auto, host:port, or local for a new one on this "
    "machine.",
)
@click.option("--actors", type=click.IntRange(min=1), help="With --ray: the most models at once.")
def embed(**values: Any) -> None:
    """Write the vectors of every sentence of INPUT to OUTPUT.

    Give one of --all, --top, --average, --sum, --concat and --layer. A command that was
    interrupted or killed continues where it was when it is started again. `-` is standard input or
    standard output. Where INPUT is a folder, OUTPUT is a folder of parts.

    \b
    Examples:
      $ elmo embed sentences.txt vectors.hdf5 --all
      $ elmo embed text.txt vectors.npz --top --tokenizer model
      $ elmo embed sentences.conllu vectors.npz --top --input-format conllu
      $ elmo embed sentences.txt vectors.npz --average --server http://localhost:8000
      $ elmo embed corpus/ vectors/ --top
      $ echo "Hello world" | elmo embed - - --top --format elmoformanylangs-text
    """
    options = _Options(**values)
    _check(options)
    try:
        report = _to_folder(options) if options.to_folder else _to_file(options)
    except BrokenPipeError:
        # The reader of the pipe is gone. Python flushes standard output once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail("standard output was closed", code=1)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(str(error) or "interrupted; nothing is kept") from None
    again = f", {report.resumed:,} of them by an earlier run" if report.resumed else ""
    click.echo(
        f"Wrote {options.output}: {report.sentences:,} sentences{again}, {report.tokens:,} tokens "
        f"in {report.seconds:.1f} s",
        err=is_stream(options.output),
    )


def is_stream(output: str) -> bool:
    """Tell whether OUTPUT is a pipe, a device or an open file, beside which no part can be kept."""
    path = Path(output)
    is_descriptor = path.is_relative_to("/dev") and path.is_symlink()  # /dev/stdout, /dev/fd/3
    is_other = path.exists() and not path.is_file() and not path.is_dir()
    return output == "-" or is_descriptor or is_other


# What is refused before anything is opened


def _check(options: _Options) -> None:
    """Refuse options that exclude each other or would have no effect."""
    if len(options.layers) != 1:
        names = ", ".join(f"--{name}" for name in NAMED)
        fail(f"one of {names} and --layer is needed, and only one", code=2)
    _check_source(options)
    if options.to_folder:
        _check_folder(options)
    elif Path(options.output).is_dir():
        fail(
            f"{options.output} is a folder and {options.input} a file: name a file, or the "
            "--part-sentences of a folder of parts",
            code=2,
        )
    if options.ray is not None:
        _check_ray(options)
    elif options.actors is not None:
        fail("--actors goes with --ray; without it, it has no effect", code=2)


def _check_source(options: _Options) -> None:
    given = {name for name in ("device", "precision", "api_key") if is_given(name)}
    if options.server:
        for name in ("device", "precision"):
            if name in given:
                fail(f"--{name} has no effect with --server: the server chose it", code=2)
        if options.carry_state:
            fail("--carry-state needs the model in this process: a server keeps no state", code=2)
        if options.word_vectors not in (None, "append"):
            fail("--word-vectors is `append` with --server: the server has the file", code=2)
    elif "api_key" in given:
        fail("--api-key goes with --server; without it, it has no effect", code=2)
    if options.tokenizer and options.input_format not in (None, "plain"):
        fail(f"--tokenizer splits plain text, not {options.input_format}", code=2)
    if options.batch_size and not options.carry_state:
        fail("--batch-size goes with --carry-state; without it, it has no effect", code=2)


def _check_folder(options: _Options) -> None:
    source, output = options.input, options.output
    if options.carry_state:
        fail("--carry-state goes with one file: parts are computed in any order", code=2)
    if source == "-":
        fail("the INPUT of parts is a file or a folder, not standard input", code=2)
    if output == "-" or (Path(output).exists() and not Path(output).is_dir()):
        fail(f"the OUTPUT of parts is a folder, and {output} is none", code=2)
    if Path(output).resolve().is_relative_to(Path(source).resolve()):
        fail(f"OUTPUT lies in INPUT, {source}: its parts would be read as text", code=2)


def _check_ray(options: _Options) -> None:
    for name in ("server", "word_vectors"):
        if getattr(options, name):
            fail(f"--{name.replace('_', '-')} does not go with --ray", code=2)
    if options.device.startswith("cuda:"):
        fail("--device is auto, cpu or cuda with --ray, which gives each actor a GPU", code=2)


# What is run


def _to_file(options: _Options) -> Report:
    from elmo_serve.files.run import Job

    run = _embed_options(options, _format_of_file(options))
    form = run.input_format or input_format(options.input)
    with (
        Text.open(options.input, INPUTS[form], run.keep_blank) as text,
        run.open() as source,
        text.split(run.split(source.info)) as sentences,
        steps() as step,
    ):
        job = Job(sentences, run.form, source, step)
        if options.output == "-":
            return job.to_stream(sys.stdout.buffer)
        if is_stream(options.output):
            with Path(options.output).open("wb") as stream:
                return job.to_stream(stream)
        identity = run.identity(source.info, form)
        return job.to_file(Path(options.output), identity, force=options.force)


def _to_folder(options: _Options) -> Report:
    from elmo_serve.files.folder import PART_SENTENCES, FolderJob, PartWriter

    run = _embed_options(options, options.output_format or _PARTS)
    job = FolderJob(
        root=str(Path(options.input).resolve()),
        folder=str(Path(options.output).resolve()),
        options=run,
        part_sentences=options.part_sentences or PART_SENTENCES,
    )
    with steps() as step:
        if options.ray is not None:
            return _on_ray(job, options, step)
        with run.open() as source:
            writer = PartWriter(job, source)
            return job.run(source.info, writer.attempts, step, force=options.force)


def _on_ray(job: FolderJob, options: _Options, step: OnStep) -> Report:
    if importlib.util.find_spec("ray") is None:
        raise FileError("--ray needs Ray, which is not installed: elmo-serve[ray] has it")
    import ray

    from elmo_serve.distributed.ray_data import Actors, embed_folder

    address = None if options.ray == "local" else options.ray
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except ConnectionError as error:
        raise FileError(f"--ray {options.ray}: {error}") from error
    try:
        gpus = gpus_of(options.device, ray.cluster_resources())
        actors = Actors(most=options.actors, gpus=gpus)
        return embed_folder(job, actors, step, force=options.force)
    except ray.exceptions.RayError as error:
        # Its text is the traceback of another process; the last line is the error.
        raise FileError(str(error).strip().rpartition("\n")[2]) from error
    finally:
        ray.shutdown()


def gpus_of(device: str, resources: Mapping[str, float]) -> float:
    """Return the GPUs of an actor on a cluster with these resources; `auto` takes one if any is."""
    wants = device.startswith("cuda") or (device == "auto" and resources.get("GPU", 0) >= 1)
    return 1.0 if wants else 0.0


def _embed_options(options: _Options, form: str) -> EmbedOptions:
    """Return the options of the run; a published model and word vectors are fetched."""
    from elmo_serve.files.options import EmbedOptions

    flags = options.forget_sentences or options.use_sentence_keys
    if flags and form != "allennlp":
        fail(f"--forget-sentences and --use-sentence-keys belong to allennlp, not {form}", code=2)
    OUTPUTS[form].require()
    words = options.word_vectors
    if words is not None and not options.server:
        words = str(word_vector_map(Path(words)))
    batch_size = (options.batch_size or _BATCH_SIZE) if options.carry_state else None
    return EmbedOptions(
        layers=options.layers[0],
        output_format=form,
        model=_model(options),
        cache=_cache_for_ray(options),
        server=options.server,
        api_key=options.api_key,
        device=options.device,
        precision=options.precision,
        word_vectors=words,
        normalize=options.normalize,
        input_format=options.input_format,
        tokenizer=options.tokenizer,
        keep_blank=options.keep_blank_lines,
        batch_size=batch_size,
        forget_sentences=options.forget_sentences,
        use_sentence_keys=options.use_sentence_keys,
    )


def _model(options: _Options) -> str | None:
    """Return the name or the path of the model, for the process that computes."""
    if options.server:
        return model_of_server()
    if options.ray is None:
        return resolve_model(options.model)
    # Another process may have another working folder.
    is_path = path_fault(options.model) is None
    return str(Path(options.model).resolve()) if is_path else options.model


def _cache_for_ray(options: _Options) -> CacheSettings | None:
    """Return the cache of the machines of a cluster, for a published model."""
    if options.ray is None or published_model(options.model) is None:
        return None
    from elmo_serve.models import cache_of_environment

    return cache_of_environment()


def _format_of_file(options: _Options) -> str:
    """Return the name of the format of OUTPUT. Ends the command where it has none."""
    output = options.output
    name = options.output_format or output_format(output)
    if name is None and is_stream(output):
        fail(f"{output} has no ending: name its --format, {', '.join(_STREAMS)}", code=2)
    if name is None:
        fail(f"{output} ends in none of {', '.join(_ENDINGS)}: name its --format", code=2)
    if is_stream(output) and name not in _STREAMS:
        fail(
            f"{name} cannot be written to {output}: HDF5 is no stream; name a file, or take "
            f"--format {', '.join(_STREAMS)}",
            code=2,
        )
    return name
