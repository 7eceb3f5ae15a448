"""Parts of a corpus as files: the vectors of `elmo embed`, whole or not there."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_model.pretrained import open_model
from elmo_serve.distributed.manifest import FinishedPart
from elmo_serve.distributed.part_writer import PartJob, PartWriter, explained
from elmo_serve.files.in_process import InProcess
from elmo_serve.files.sentence import FileError
from tests.support.embedding_runs import close, layers_of, sentences_of
from tests.support.full_disk import full_disk
from tests.support.servers import SMALL

SENTENCES = sentences_of(25)


def job_of(folder: Path, output_format: str = "npz", suffix: str = ".npz") -> PartJob:
    (folder / "in").mkdir()
    text = "".join(" ".join(tokens) + "\n" for tokens in SENTENCES)
    (folder / "in" / "x.txt").write_text(text)
    return PartJob(
        root=str(folder / "in"),
        folder=str(folder / "out"),
        cache=None,
        model=str(SMALL),
        layers="all",
        output_format=output_format,
        suffix=suffix,
    )


def test_the_parts_hold_the_vectors_of_the_sentences_in_their_order(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    expected = layers_of(open_model(str(SMALL)), SENTENCES)
    writer = PartWriter(job)

    for part in job.corpus.parts(10):
        finished = writer.write(part)
        path = Path(job.folder) / finished.part
        assert finished.size == path.stat().st_size
        assert finished.tokens == part.tokens
        with np.load(path) as arrays:
            assert len(arrays.files) == part.sentences
            for row in range(part.sentences):
                close(arrays[str(row)], expected[part.first + row])


def test_the_layouts_of_hdf5_can_be_written(tmp_path: Path) -> None:
    job = job_of(tmp_path, "allennlp", ".hdf5")
    (part,) = job.corpus.parts(100)

    finished = PartWriter(job).write(part)

    with h5py.File(Path(job.folder) / finished.part) as file:
        assert len(file) == 26, "25 sentences and sentence_to_index"


def test_rows_of_parquet_have_the_numbers_of_their_file(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    job = job_of(tmp_path, "parquet", ".parquet")
    writer = PartWriter(job)

    for part in job.corpus.parts(10):
        writer.write(part)

    table = parquet.read_table(Path(job.folder) / "x.txt")
    assert sorted(table["index"].to_pylist()) == list(range(25))


def test_a_part_that_fails_leaves_the_file_of_before(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    (part,) = job.corpus.parts(100)
    writer = PartWriter(job)
    before = writer.write(part)
    (tmp_path / "in" / "x.txt").write_text("a\n")

    with pytest.raises(FileError, match="changed while it was read"):
        writer.write(part)

    found = list((tmp_path / "out" / "x.txt").iterdir())
    assert [path.name for path in found] == ["000000.npz"]
    assert found[0].stat().st_size == before.size


def test_a_full_disk_leaves_the_file_of_before(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    (part,) = job.corpus.parts(100)
    writer = PartWriter(job)
    writer.write(part)
    path = tmp_path / "out" / "x.txt" / "000000.npz"
    before = path.read_bytes()

    with pytest.raises(OSError, match="File too large"), full_disk(len(before) // 2):
        writer.write(part)

    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("CUDA out of memory.\nTried to allocate"), "x.txt/000000.npz: CUDA out of"),
        (OSError(28, "No space left on device"), "x.txt/000000.npz cannot be written: No space"),
        (FileError("x.txt: line 3"), "x.txt: line 3"),
    ],
)
def test_a_part_that_fails_is_one_line_so_that_others_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, fault: str
) -> None:
    job = job_of(tmp_path)
    (part,) = job.corpus.parts(100)
    writer = PartWriter(job)
    assert isinstance(writer.attempt(part), FinishedPart)

    def compute(*_: object) -> None:
        raise error

    monkeypatch.setattr(InProcess, "embed", compute)
    found = writer.attempt(part)

    assert isinstance(found, str) and found.startswith(fault) and "\n" not in found


def test_a_full_disk_is_explained() -> None:
    assert "make room" in explained(OSError(28, "No space left on device"), "x/1.npz")
    assert explained(OSError(13, "Permission denied"), "x").endswith("written: Permission denied")


def test_a_job_can_leave_its_tokens_to_the_tokenizer_of_the_model(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    (tmp_path / "in" / "x.txt").write_text("Don't!\n")
    job = replace(job, tokenizer="model")
    (part,) = job.corpus.parts(1)

    assert PartWriter(job).write(part).tokens > 1
