"""Ray Data: a corpus that is killed, continued, and loses a node; vectors as a column."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_model.models.opening import open_model
from elmo_serve.files.folder import FolderRun
from elmo_serve.files.inputs import FileError
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.resume import MANIFEST
from tests.support.embedding_runs import COMMAND, close, layers_of, sentences_of
from tests.support.servers import SMALL

pytest.importorskip("ray", reason="ray is not installed: `make test-scale` installs it")

import ray
from pyarrow import parquet

from elmo_serve.distributed.ray_data import Actors, embed_dataset, embed_folder
from tests.support.ray_cluster import cluster, until

pytestmark = [pytest.mark.scale, pytest.mark.filterwarnings("ignore")]

SENTENCES = sentences_of(200)
FILES = {"a.txt": SENTENCES[:90], "b/b.txt": SENTENCES[90:]}
PART = 5  # sentences: 40 parts


@pytest.fixture
def job(tmp_path: Path) -> FolderRun:
    for name, sentences in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(" ".join(tokens) + "\n" for tokens in sentences))
    options = EmbedOptions("all", "parquet", model=str(SMALL))
    return FolderRun(str(tmp_path / "in"), str(tmp_path / "out"), options, PART)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with cluster(1, 1, 1) as found:
        yield found


def parts_in(folder: str) -> int:
    """Return the number of finished parts."""
    return len([path for path in Path(folder).rglob("*.parquet") if path.is_file()])


def check(folder: str) -> None:
    """Each sentence is there once, with its vectors; nothing else is in the folder."""
    expected = layers_of(open_model(str(SMALL)), SENTENCES)
    first = 0
    for name, sentences in FILES.items():
        rows = parquet.read_table(Path(folder) / name).sort_by("index").to_pylist()
        assert [row["index"] for row in rows] == list(range(len(sentences)))
        assert [row["tokens"] for row in rows] == sentences
        for row, wanted in zip(rows, expected[first:], strict=False):
            found = np.array(row["vectors"], np.float32)
            close(found.reshape(3, len(row["tokens"]), -1), wanted)
        first += len(sentences)
    files = {path for path in Path(folder).rglob("*") if path.is_file()}
    assert {path.name for path in files if path.suffix != ".parquet"} == {MANIFEST}
    assert len(files) == 1 + len(SENTENCES) // PART


def embed(job: FolderRun, *, force: bool = False, on_step: Any = lambda *_: None) -> Any:
    return embed_folder(job, Actors(most=3), on_step, force=force)


def test_every_sentence_is_embedded_once(nodes: Any, job: FolderRun) -> None:
    report = embed(job)

    assert (report.sentences, report.resumed) == (200, 0)
    assert report.tokens == sum(map(len, SENTENCES))
    check(job.folder)
    assert embed(job).resumed == 200
    assert embed(job, force=True).resumed == 0
    check(job.folder)


def test_a_node_is_lost_on_the_way(nodes: Any, job: FolderRun) -> None:
    victim = nodes.list_all_nodes()[-1]
    lost = threading.Event()

    def on_step(_name: str, done: int, _all: int) -> None:
        if done and not lost.is_set():
            lost.set()
            nodes.remove_node(victim, allow_graceful=False)

    assert embed(job, on_step=on_step).sentences == 200
    assert lost.is_set()
    check(job.folder)
    nodes.add_node(num_cpus=1, object_store_memory=100 * 1024**2)


def test_a_part_that_cannot_be_written_leaves_the_others(nodes: Any, job: FolderRun) -> None:
    """As a full disk of one machine does."""
    in_the_way = Path(job.folder) / "b" / "b.txt" / "000003.parquet"

    def on_step(_name: str, _done: int, _all: int) -> None:
        in_the_way.mkdir(parents=True, exist_ok=True)
        (in_the_way / "file").touch()

    with pytest.raises(FileError, match=r"000003\.parquet cannot be written.*\(1 of 40 parts"):
        embed(job, on_step=on_step)
    assert parts_in(job.folder) == 39

    (in_the_way / "file").unlink()
    in_the_way.rmdir()
    assert embed(job).resumed == 195
    check(job.folder)


def test_a_model_that_does_not_exist_is_one_line(nodes: Any, job: FolderRun) -> None:
    with pytest.raises(FileError, match="no/model"):
        embed(replace(job, options=replace(job.options, model="no/model")))


def test_a_killed_command_continues(nodes: Any, job: FolderRun) -> None:
    """SIGKILL ends the driver, and the same command finishes the rest."""
    command = [
        *(COMMAND, "embed", job.root, job.folder, "--all", "--model", SMALL),
        *("--ray", nodes.address, "--actors", "2", "--part-sentences", str(PART)),
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    process = subprocess.Popen(list(map(str, command)), env=environment)
    until(lambda: parts_in(job.folder) > 2 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = parts_in(job.folder)
    assert 2 < kept <= 40

    done = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert f"200 sentences, {kept * PART:,} of them by an earlier run" in done.stdout
    check(job.folder)


def test_a_dataset_gets_a_column_of_vectors(nodes: Any) -> None:
    rows = [{"id": number, "tokens": tokens} for number, tokens in enumerate(SENTENCES[:50])]
    dataset = ray.data.from_items(rows)

    found = embed_dataset(
        dataset, actors=Actors(most=2), batch_rows=16, model=str(SMALL), layers="top"
    ).take_all()

    expected = layers_of(open_model(str(SMALL)), SENTENCES[:50])
    assert sorted(row["id"] for row in found) == list(range(50))
    for row in found:
        vectors = np.array(row["vectors"], np.float32).reshape(row["shape"])
        close(vectors, expected[row["id"]][-1])
