"""Ray Data: a corpus of files to a folder of parts, and vectors as a column of any dataset.

dataset = ray.data.read_parquet("s3://...")  # with a column `tokens`: lists of strings
embed_dataset(dataset, model="english", layers="top").write_parquet("s3://...")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import ray
from ray.data import ActorPoolStrategy, Dataset

from elmo_model.errors import ElmoError
from elmo_model.steps import OnStep
from elmo_serve.distributed.table_embedder import TableEmbedder
from elmo_serve.files.folder import Attempts, FolderRun, PartWriter
from elmo_serve.files.inputs import FileError
from elmo_serve.files.run import Report
from elmo_serve.files.text import Part
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


@contextmanager
def cluster(address: str) -> Iterator[Mapping[str, float]]:
    """Join a cluster, or start one on this machine for `local`; yield its resources by name.

    Raises FileError where there is none, and in place of the errors of Ray.
    """
    try:
        ray.init(
            address=None if address == "local" else address,
            log_to_driver=False,
            logging_level="error",
        )
    except ConnectionError as error:
        raise FileError(f"--ray {address}: {error}") from error
    try:
        yield ray.cluster_resources()
    except ray.exceptions.RayError as error:
        # Its text is the traceback of another process; the last line is the error.
        raise FileError(str(error).strip().rpartition("\n")[2]) from error
    finally:
        ray.shutdown()


def embed_folder(job: FolderRun, actors: Actors, step: OnStep, *, force: bool = False) -> Report:
    """Write every part of a folder that is not there yet, on the machines of a cluster.

    Raises:
        FileError, Interrupted: as `FolderRun.run`; FileError for a model that cannot be loaded.
    """
    model = _described(job, actors)
    # every actor computes in the precision of the first one, also where that was chosen
    job = replace(job, options=replace(job.options, precision=model.precision))
    return job.run(model, partial(_attempts, job, actors), step, force=force)


def _attempts(job: FolderRun, actors: Actors, parts: Sequence[Part]) -> Attempts:
    """Write parts. A failure is a row, so that the other parts are written."""
    dataset = ray.data.from_items(
        [asdict(part) for part in parts], override_num_blocks=min(len(parts), _MOST_BLOCKS)
    ).map(_PartActor, fn_constructor_args=(job,), **actors.options())
    for row in dataset.iter_rows():
        fault = row.pop("fault")
        yield Part(**row), fault


class _PartActor:
    """A `PartWriter` as an actor of Ray Data, with a model that stays loaded."""

    def __init__(self, job: FolderRun) -> None:
        self._stack = ExitStack()
        self._writer = PartWriter(job, self._stack.enter_context(job.options.open()))

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        ((_, fault),) = self._writer.attempts([Part(**row)])
        return {**row, "fault": fault}


def _described(job: FolderRun, actors: Actors) -> ModelInfo:
    """Return the description of the model, which a machine of the cluster loads.

    Raises FileError when it cannot be loaded.
    """
    task = ray.remote(_describe).options(num_cpus=actors.cpus, num_gpus=actors.gpus)
    found: ModelInfo | str = ray.get(task.remote(job))
    if isinstance(found, str):
        raise FileError(found)
    return found


def _describe(job: FolderRun) -> ModelInfo | str:
    try:
        return job.options.network().info
    except ElmoError as error:
        return str(error)
