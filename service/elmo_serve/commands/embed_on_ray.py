"""`elmo embed --ray`: the files of a corpus to a folder of parts, on a cluster of Ray."""

# ruff: noqa: PLC0415 - `elmo --help` must not wait for imports it has no use for

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elmo_model.catalogue import path_fault, published_model
from elmo_serve.commands.published import cache_options
from elmo_serve.commands.terminal import fail, token_progress
from elmo_serve.files.sentence import FileError

if TYPE_CHECKING:
    from elmo_serve.files.run import Report

PART_SENTENCES: Final = 2_000
"""Default number of sentences of a part. A killed run loses the parts that were being written."""

_SUFFIXES: Final = {
    "allennlp": ".hdf5",
    "elmoformanylangs": ".hdf5",
    "elmoformanylangs-text": ".txt",
    "npz": ".npz",
    "parquet": ".parquet",
}


def embed_on_ray(source: str, output: str, layers: str | int, options: dict[str, Any]) -> None:
    """Write the parts of a corpus that are missing in the folder OUTPUT, and print the result.

    Ends the command with one line where that is not possible.
    """
    from elmo_serve.files.run import Interrupted

    _refuse_other_places(source, output, options)
    try:
        report = _embed(source, output, layers, options)
    except FileError as error:
        fail(str(error), code=1)
    except OSError as error:
        fail(f"{error.filename or output}: {error.strerror or error}", code=1)
    except Interrupted as error:
        fail(str(error), code=130)
    except KeyboardInterrupt:
        fail("interrupted; finished parts are kept", code=130)
    again = f", {report.resumed:,} of them by an earlier run" if report.resumed else ""
    click.echo(
        f"Wrote {output}: {report.sentences:,} sentences{again}, {report.tokens:,} tokens "
        f"in {report.seconds:.1f} s"
    )


def refuse_folders(source: str, output: str, options: dict[str, Any]) -> None:
    """Refuse folders, and options of parts, in a command without --ray."""
    for name in ("actors", "part_sentences"):
        if options[name]:
            fail(f"--{name.replace('_', '-')} goes with --ray; without it, no effect", code=2)
    for path in (source, output):
        if Path(path).is_dir():
            fail(f"{path} is a folder; --ray embeds the files of a folder into another", code=2)


def gpus_of(device: str, resources: Mapping[str, float]) -> float:
    """Return the GPUs of an actor on a cluster with these resources; `auto` takes one if any is."""
    wants = device.startswith("cuda") or (device == "auto" and resources.get("GPU", 0) >= 1)
    return 1.0 if wants else 0.0


def _embed(source: str, folder: str, layers: str | int, options: dict[str, Any]) -> Report:
    if importlib.util.find_spec("ray") is None:
        raise FileError("--ray needs Ray, which is not installed: elmo-serve[ray] has it")
    import ray

    from elmo_serve.distributed.part_writer import PartJob
    from elmo_serve.distributed.ray_data import Actors, embed_corpus

    model = options["model"]
    name = options["output_format"] or "parquet"
    job = PartJob(
        root=str(Path(source).resolve()),
        folder=str(Path(folder).resolve()),
        cache=cache_options() if published_model(model) is not None else None,
        model=str(Path(model).resolve()) if path_fault(model) is None else model,
        layers=layers,
        output_format=name,
        suffix=_SUFFIXES[name],
        input_format=options["input_format"],
        tokenizer=options["tokenizer"],
        keep_blank=options["keep_blank_lines"],
        normalize=options["normalize"],
        device=options["device"],
        precision=options["precision"],
    )
    most = options["part_sentences"] or PART_SENTENCES
    address = None if options["ray"] == "local" else options["ray"]
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except ConnectionError as error:
        raise FileError(f"--ray {options['ray']}: {error}") from error
    try:
        gpus = gpus_of(options["device"], ray.cluster_resources())
        actors = Actors(most=options["actors"], gpus=gpus)
        with token_progress() as step:
            return embed_corpus(job, most, actors, step, force=options["force"])
    except ray.exceptions.RayError as error:
        # Its text is the traceback of another process; the last line is the error.
        raise FileError(str(error).strip().rpartition("\n")[2]) from error
    finally:
        ray.shutdown()


def _refuse_other_places(source: str, output: str, options: dict[str, Any]) -> None:
    """Refuse what cannot be on a cluster."""
    for name in ("server", "carry_state", "word_vectors", "forget_sentences", "use_sentence_keys"):
        if options[name]:
            fail(f"--{name.replace('_', '-')} does not go with --ray", code=2)
    if options["device"].startswith("cuda:"):
        fail("--device is auto, cpu or cuda with --ray, which gives each actor a GPU", code=2)
    if source == "-":
        fail("INPUT is a file or a folder with --ray, not standard input", code=2)
    if output == "-" or (Path(output).exists() and not Path(output).is_dir()):
        fail(f"OUTPUT is a folder with --ray, and {output} is none", code=2)
    if Path(output).resolve().is_relative_to(Path(source).resolve()):
        fail(f"OUTPUT lies in INPUT, {source}: its parts would be read as text", code=2)
