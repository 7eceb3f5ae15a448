"""The command line: `elmo serve`, `elmo info`, `elmo convert`.

What is slow to import (torch, FastAPI, pydantic) is imported by the command that needs it.
"""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click
from click.core import ParameterSource

from service.embedding_files.command import embed
from service.model_commands import download, located, tasks, with_located_model

if TYPE_CHECKING:
    from model.elmo import Elmo

_NATIVE: Final = ".safetensors"
_PAIR: Final = frozenset({"options.json", "weights.hdf5", "vocab.txt", "align.pth"})


# As process 1 a server has no default action for SIGTERM, and one that comes while modules are
# still imported would be lost.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="elmo-serve", prog_name="elmo")
def main() -> None:
    """ELMo vectors over HTTP, and what belongs to it."""


main.add_command(embed)
main.add_command(download)
main.add_command(tasks)


class _SettingsCommand(click.Command):
    """A command with one option per field of Settings, made when they are asked for."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*_settings_options(), *super().get_params(ctx)]


@main.command(cls=_SettingsCommand)
@click.pass_context
def serve(ctx: click.Context, /, **values: str | None) -> None:
    """Serve a model over HTTP.

    Each option is also an environment variable; an option wins over its variable, and an empty
    variable counts as unset.
    """
    from service.settings import SettingsError, from_strings, option, variable

    _warn_of_misspelt_variables()
    spoken = {
        name: option(name)
        for name in values
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    try:
        settings = from_strings(values, spoken)
        if settings.tasks is not None:
            from service.tasks import open_folder

            open_folder(settings.tasks, spoken.get("tasks", variable("tasks")))
        from service.listener import serve as run

        code = run(with_located_model(settings))
    except SettingsError as error:
        _fail(str(error), code=2)
    ctx.exit(code)


@main.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(model: str, as_json: bool) -> None:
    """Say what MODEL is: a checkpoint's path or a built-in name."""
    from model.checkpoints import CheckpointError
    from model.pretrained import describe_model

    try:
        model = located(model)
        config, origin, parameters = describe_model(model)
    except CheckpointError as error:
        _fail(str(error), code=1)
    except OSError as error:
        _fail(f"{model} cannot be read: {error.strerror or error}", code=1)
    facts = {
        "name": origin.name,
        "format": origin.format,
        "revision": origin.revision,
        "layers": config.layers,
        "dimension": config.dimension,
        "parameters": parameters,
    }
    hyper = config.to_dict()
    if as_json:
        click.echo(json.dumps({**facts, "configuration": hyper}, indent=2))
        return
    for part, values in hyper.items():
        if isinstance(values, dict):
            facts |= {f"{part}.{key}": value for key, value in values.items()}
        else:
            facts[part] = values
    width = max(map(len, facts))
    for key, value in facts.items():
        click.echo(f"{key:<{width}}  {_written(value)}")


@main.command()
@click.argument("source")
@click.argument("destination", type=click.Path(path_type=Path, resolve_path=True))
@click.option("--name", help="Name kept in the file; the source's own when not given.")
@click.option("--force", is_flag=True, help="Replace a checkpoint that is at DESTINATION.")
def convert(source: str, destination: Path, name: str | None, force: bool) -> None:
    """Write the model SOURCE, a path or a built-in name, to DESTINATION.

    A DESTINATION that ends in .safetensors becomes one file in the project's own format, any other
    a folder with the published pair, options.json and weights.hdf5. What was written is read back
    and compared before it takes its place.
    """
    native = destination.suffix == _NATIVE
    if name is not None and not native:
        _fail(f"--name: a folder's name is its model's name; only {_NATIVE} keeps one", code=2)
    if refusal := _occupied(destination, native, force):
        _fail(refusal, code=2)
    from model.checkpoints import CheckpointError

    try:
        _convert(source, destination, name)
    except CheckpointError as error:
        _fail(str(error), code=1)
    except OSError as error:
        _fail(f"{destination} cannot be written: {error.strerror or error}", code=1)


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--text", multiple=True, required=True, help="Shards: a path or a pattern; again.")
@click.option("--heldout", type=click.Path(path_type=Path), help="Text to measure on meanwhile.")
@click.option("--heldout-sentences", type=int, help="First sentences of it that count.")
@click.option("--recipe", help="modern (AdamW, cosine) or reference (bilm-tf's Adagrad).")
@click.option("--shape", help="tiny, half, small, medium, original, or a checkpoint's path.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="One word a line, by rank.")
@click.option("--vocabulary-size", type=int, help="Words taken from the text when none is given.")
@click.option("--epochs", type=float, help="How often the text is read.")
@click.option("--steps", type=int, help="Steps instead of epochs.")
@click.option("--rows", type=int, help="Rows of a batch, of all processes together.")
@click.option("--unroll", type=int, help="Steps of truncated back-propagation.")
@click.option("--softmax", help="sampled or full.")
@click.option("--state", help="fresh: zero before every sentence; carried: as bilm-tf has it.")
@click.option("--samples", type=int, help="Words that the sampled softmax draws.")
@click.option("--dropout", type=float)
@click.option("--learning-rate", type=float)
@click.option("--warmup", type=float, help="Share of the steps.")
@click.option("--weight-decay", type=float)
@click.option("--clip-norm", type=float, help="Greatest norm of the whole gradient.")
@click.option("--seed", type=int)
@click.option("--name", help="Name of the model; that of the folder when not given.")
@click.option("--precision", help="float32 or bfloat16; bfloat16 for modern on a GPU.")
@click.option("--device", help="cpu or cuda; cuda where there is one.")
@click.option("--time-loop", help="joined, compiled or plain: the same numbers, other speeds.")
@click.option("--minutes", type=float, help="End early after so long, saved.")
@click.option("--log-every", type=int, help="Steps between two lines of the log.")
@click.option("--measure-every", type=int, help="Steps between two held-out perplexities.")
@click.option("--save-every", type=int, help="Steps between two snapshots.")
@click.option("--workers", type=int, help="Processes that encode the text at first.")
@click.option("--encoded", type=click.Path(path_type=Path), help="Folder for the encoded text.")
@click.pass_context
def train(ctx: click.Context, /, **values: object) -> None:
    """Pretrain a biLM on text into the folder RUN.

    The same command again goes on from the last snapshot. RUN holds model.safetensors and the
    published pair when it ends, however it ends.
    """
    from model.training.command import CommandError, TrainOptions
    from model.training.command import train as run

    given = {key: value for key, value in values.items() if value is not None}
    try:
        code = run(TrainOptions(**given))  # type: ignore[arg-type]
    except CommandError as error:
        _fail(str(error), code=1)
    ctx.exit(code)


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("text", nargs=-1, required=True)
@click.option("--rows", default=256, help="Rows of bilm-tf's figure, which depends on them.")
@click.option("--sentences", type=int, help="Measure on the first ones, without bilm-tf's figure.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def perplexity(
    run: Path, text: tuple[str, ...], rows: int, sentences: int | None, as_json: bool
) -> None:
    """Say how well the last snapshot of RUN predicts TEXT."""
    from model.training.command import CommandError
    from model.training.command import perplexity as measure

    try:
        click.echo(measure(run, text, rows, sentences, as_json))
    except CommandError as error:
        _fail(str(error), code=1)


@main.command()
@click.argument("model")
@click.option("--pos-train", type=click.Path(path_type=Path), help="CoNLL-U to fit the probe on.")
@click.option("--pos-test", type=click.Path(path_type=Path), help="CoNLL-U to score it on.")
@click.option("--tags", default="upos", show_default=True, help="upos or xpos.")
@click.option("--homographs-train", type=click.Path(path_type=Path), help="Senses to learn.")
@click.option("--homographs-test", type=click.Path(path_type=Path), help="Senses to tell.")
@click.option("--wic", type=click.Path(path_type=Path), help="Pairs of a word in two sentences.")
@click.option("--limit", type=int, help="First sentences, uses of a word, and pairs that count.")
@click.option("--device", help="cpu or cuda; cuda where there is one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(model: str, **values: object) -> None:
    """Score every layer of MODEL, a path or a built-in name, by probes on frozen vectors."""
    from model.evaluation.command import CommandError, EvaluateOptions
    from model.evaluation.command import evaluate as run

    try:
        with _steps() as step:
            text = run(EvaluateOptions(model, **values), step)  # type: ignore[arg-type]
    except CommandError as error:
        _fail(str(error), code=1)
    click.echo(text)


def _convert(source: str, destination: Path, name: str | None) -> None:
    """Write into a folder beside the destination, which a killed command leaves as it was."""
    from model.checkpoints import describe
    from model.pretrained import open_model

    source = located(source)
    with _steps() as step:
        step(f"Reading {source}")
        elmo = open_model(source, token_cache_size=0)
        if name is not None:
            elmo.origin = dataclasses.replace(elmo.origin, name=name)
        with tempfile.TemporaryDirectory(prefix=".elmo-", dir=destination.parent) as aside:
            step(f"Writing {destination}")
            written = Path(aside) / destination.name
            _write(elmo, written, destination)
            step("Comparing")
            _, origin, _ = describe(written)
            if origin.revision != elmo.origin.revision:
                raise OSError(f"revision {origin.revision} came back for {elmo.origin.revision}")
            size = _sync(written)
            _place(written, destination)
    click.echo(f"Wrote {destination}: {elmo.origin.name}, {origin.format}, {size / 1e6:.1f} MB")
    if elmo.tasks and destination.suffix != _NATIVE:
        names = ", ".join(task.name for task in elmo.tasks)
        click.echo(
            f"elmo: a pair keeps no tasks, these are left out: {names}; "
            f"`elmo tasks {source} FOLDER` writes them",
            err=True,
        )


def _write(elmo: Elmo, written: Path, destination: Path) -> None:
    from model.checkpoints import CheckpointError, allennlp, save

    write = save if destination.suffix == _NATIVE else allennlp.write
    try:
        write(elmo, written)
    except CheckpointError as error:
        # The user knows nothing of the folder beside.
        raise CheckpointError(str(error).replace(str(written), str(destination))) from error


def _place(written: Path, destination: Path) -> None:
    if not destination.is_dir():
        written.replace(destination)
        return
    replaced = written.with_name("replaced.old")
    destination.rename(replaced)
    try:
        written.rename(destination)
    except OSError:
        replaced.rename(destination)
        raise


def _occupied(destination: Path, native: bool, force: bool) -> str | None:
    """Return why `destination` must not be written to; None where it may."""
    if not destination.parent.is_dir():
        return f"{destination}: {destination.parent} is no folder"
    if not destination.exists() or (destination.is_dir() and not any(destination.iterdir())):
        return f"{destination} is a folder" if native and destination.is_dir() else None
    if destination.is_dir():
        # A whole folder is replaced: it must hold nothing but what is written again.
        others = sorted(path.name for path in destination.iterdir() if path.name not in _PAIR)
        if native or others:
            return f"{destination} is a folder with other files in it: {', '.join(others[:3])}"
    elif not native:
        return f"{destination} is a file; a folder is written, or a file that ends in {_NATIVE}"
    return None if force else f"{destination} exists; --force replaces it"


@functools.cache
def _settings_options() -> Sequence[click.Option]:
    from service.settings import Settings, allowed, default, option, variable

    options = []
    for name, field in Settings.model_fields.items():
        usual = default(name)
        options.append(
            click.Option(
                [option(name)],
                envvar=variable(name),
                show_envvar=True,
                metavar="VALUE",
                help=f"{field.description} Allowed: {allowed(name)}."
                + (f" Default: {usual}." if usual is not None else ""),
            )
        )
    return options


def _warn_of_misspelt_variables() -> None:
    from service.settings import PREFIX, Settings, variable

    known = [variable(name) for name in Settings.model_fields]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known:
            # Only a near miss is named: Kubernetes sets ELMO_SERVICE_HOST and the like by itself.
            for meant in difflib.get_close_matches(name, known, n=1, cutoff=0.85):
                click.echo(f"elmo: {name} is no setting; did you mean {meant}?", err=True)


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """Show on a terminal which step runs and for how long; elsewhere show nothing."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(finished_text="*"), TextColumn("{task.description}", markup=False)
    progress = Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    )

    def step(text: str) -> None:
        finish()
        progress.add_task(text, total=1)

    def finish() -> None:
        for task in progress.task_ids:
            progress.update(task, completed=1)

    with progress:
        yield step
        finish()


def _sync(written: Path) -> int:
    """Bring a file, or the files of a folder, to the disk; return their size in bytes."""
    size = 0
    for path in sorted(written.iterdir()) if written.is_dir() else [written]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
        size += path.stat().st_size
    return size


def _written(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return " ".join("x".join(map(str, pair)) for pair in value)
        case _:
            return str(value)


def _fail(message: str, code: int) -> NoReturn:
    """Say it in one line and end."""
    click.echo(f"elmo: {' '.join(message.split())}", err=True)
    sys.exit(code)
