"""Ray Data: a corpus of files to a folder of parts, and vectors as a column of any dataset.

dataset = ray.data.read_parquet("s3://...")  # with a column `tokens`: lists of strings
embed_dataset(dataset, model="english", layers="top").write_parquet("s3://...")
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import ray
from ray.data import ActorPoolStrategy, Dataset

from elmo_model.checkpoints import CheckpointError
from elmo_serve.distributed.corpus import Part
from elmo_serve.distributed.manifest import FinishedPart, Manifest
from elmo_serve.distributed.part_writer import PartJob, PartWriter
from elmo_serve.distributed.table_embedder import TableEmbedder
from elmo_serve.files.run import Interrupted, OnStep, Report
from elmo_serve.files.selection import selection
from elmo_serve.files.sentence import FileError
from elmo_serve.model_cache import DownloadError
from elmo_serve.workers.messages import ModelInfo

_MOST_BLOCKS: Final = 10_000
"""Blocks of the dataset of parts. Ray keeps each block in the driver's table; more parts share."""

_BATCH_ROWS: Final = 1_024
"""Rows that an actor computes at a time. More rows pad less and hold more vectors in memory."""


@dataclass(frozen=True, slots=True)
class Actors:
    """The actors that keep a model: how many at least and at most, and the share of each."""

    fewest: int = 1
    most: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def options(self) -> dict[str, Any]:
        """Return them as arguments of a dataset's `map` or `map_batches`."""
        pool = ActorPoolStrategy(min_size=self.fewest, max_size=self.most)
        return {"compute": pool, "num_cpus": self.cpus, "num_gpus": self.gpus}


def embed_dataset(
    dataset: Dataset,
    *,
    actors: Actors | None = None,
    batch_rows: int = _BATCH_ROWS,
    **embedder: Any,
) -> Dataset:
    """Add the columns `vectors` and `shape` to a dataset; `embedder` as for `TableEmbedder`.

    Ray runs the computation again where a machine is lost.
    """
    return dataset.map_batches(
        TableEmbedder,
        fn_constructor_kwargs=embedder,
        batch_format="pyarrow",
        batch_size=batch_rows,
        zero_copy_batch=True,
        **(actors or Actors()).options(),
    )


def embed_corpus(
    job: PartJob, part_sentences: int, actors: Actors, step: OnStep, *, force: bool
) -> Report:
    """Write every part of a corpus that is not there yet.

    Raises:
        FileError: the input, the output folder or the model; or a part that could not be written,
            after all others that were begun are recorded.
    """
    started = time.monotonic()
    job.form.require()
    parts = list(job.corpus.parts(part_sentences))
    if not parts:
        raise FileError(f"{job.root} has no sentences")
    info = _described(job, actors)
    job.form.check(selection(job.layers, info.layers, normalize=job.normalize))
    run = {
        **{name: value for name, value in asdict(job).items() if name not in _PLACES},
        "part sentences": part_sentences,
        "text": job.corpus.digest(),
        "model": info.revision,
        "precision": info.precision,
    }
    counts = Counter(part.file for part in parts)
    with Manifest.open(Path(job.folder), run, counts, discard=force) as manifest:
        earlier = sum(part.sentences for part in manifest.finished.values())
        missing = [part for part in parts if part.name(job.suffix) not in manifest.finished]
        try:
            faults = _written(job, missing, manifest, actors, step) if missing else ()
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; {len(manifest.finished):,} of {len(parts):,} parts are finished: "
                "the same command continues from there"
            ) from None
        if faults:
            raise FileError(f"{faults[0]} ({len(faults):,} of {len(parts):,} parts failed)")
        manifest.complete()
        written = manifest.finished.values()
        return Report(
            sum(part.sentences for part in written),
            sum(part.tokens for part in written),
            earlier,
            time.monotonic() - started,
        )


_PLACES: Final = ("root", "folder", "cache", "device", "model")
"""Members of a job that decide where it runs, and not the vectors."""


def _written(
    job: PartJob, missing: Sequence[Part], manifest: Manifest, actors: Actors, step: OnStep
) -> Sequence[str]:
    """Write the missing parts and record each; return a line for each that could not be written."""
    faults: list[str] = []
    done, tokens = 0, sum(part.tokens for part in missing)
    step("Embedding", done, tokens)
    tokens_of = {part.name(job.suffix): part.tokens for part in missing}
    dataset = ray.data.from_items(
        [asdict(part) for part in missing], override_num_blocks=min(len(missing), _MOST_BLOCKS)
    ).map(_PartActor, fn_constructor_args=(job,), **actors.options())
    for row in dataset.iter_rows():
        if fault := row.pop("fault"):
            faults.append(fault)
            continue
        manifest.add(FinishedPart(**row))
        done += tokens_of[row["part"]]
        step("Embedding", done, tokens)
    return faults


class _PartActor:
    """A `PartWriter` as an actor of Ray Data. A fault is a row, so that other parts are written."""

    def __init__(self, job: PartJob) -> None:
        self._job = job
        self._writer = PartWriter(job)

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        part = Part(**row)
        name = part.name(self._job.suffix)
        found = self._writer.attempt(part)
        if isinstance(found, str):
            return {**asdict(FinishedPart(name, 0, 0, 0)), "fault": found}
        return {**asdict(found), "fault": ""}


def _described(job: PartJob, actors: Actors) -> ModelInfo:
    """Return the description of the model, which a machine of the cluster loads.

    Raises FileError when it cannot be loaded.
    """
    task = ray.remote(_describe).options(num_cpus=actors.cpus, num_gpus=actors.gpus)
    found: ModelInfo | str = ray.get(task.remote(job))
    if isinstance(found, str):
        raise FileError(found)
    return found


def _describe(job: PartJob) -> ModelInfo | str:
    try:
        return job.open().info
    except (CheckpointError, DownloadError, RuntimeError, ValueError) as error:
        return str(error)
