"""A folder of files to a folder of parts: whole or not there, each sentence once, after any end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet
import pytest

from elmo_model.errors import OptionError
from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.inputs import FileError
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.resume import MANIFEST
from elmo_serve.files.run import FolderRun, Interrupted
from elmo_serve.files.vectors import OnComputed, Source, Tokens, Vectors
from elmo_serve.models.in_process import InProcess
from tests.support.embedding_runs import close, done, layers_of, refused, sentences_of
from tests.support.full_disk import full_disk
from tests.support.servers import SMALL

SENTENCES = sentences_of(25)
FILES = {"a.txt": SENTENCES[:15], "b/c.txt": SENTENCES[15:]}
NAMES = ["a.txt/000000", "a.txt/000001", "b/c.txt/000000"]


@pytest.fixture
def job(tmp_path: Path) -> EmbedOptions:
    """A job of three parts: of 10, 5 and 10 sentences."""
    for name, sentences in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(" ".join(tokens) + "\n" for tokens in sentences))
    return EmbedOptions(
        "all",
        "npz",
        input=str(tmp_path / "in"),
        output=str(tmp_path / "out"),
        model=str(SMALL),
        device="cpu",
        part_sentences=10,
    )


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with EmbedOptions("all", "npz", model=str(SMALL), device="cpu").open() as found:
        yield found


def files_in(folder: str | Path) -> list[str]:
    """Return the paths of all files in a folder, the hidden ones too."""
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def check(folder: str | Path, elmo: ElmoNetwork) -> None:
    """Each sentence is in the folder once, with its vectors; nothing else is there."""
    expected = iter(layers_of(elmo, SENTENCES))
    assert files_in(folder) == [MANIFEST, *(f"{name}.npz" for name in NAMES)]
    for name in NAMES:
        with np.load(Path(folder) / f"{name}.npz") as arrays:
            for array in arrays.values():
                close(array, next(expected))
    assert next(expected, None) is None


# The command


def test_a_folder_is_embedded_part_by_part(job: EmbedOptions, elmo: ElmoNetwork) -> None:
    flags = ("--all", "--format", "npz", "--part-sentences", 10)

    printed = done(job.input, job.output, *flags)

    tokens = sum(map(len, SENTENCES))
    assert printed.startswith(f"Wrote {job.output}: 25 sentences, {tokens} tokens")
    check(job.output, elmo)
    (Path(job.output) / "a.txt" / "000001.npz").unlink()
    assert "25 sentences, 20 of them by an earlier run" in done(job.input, job.output, *flags)
    check(job.output, elmo)
    assert "25 sentences, 25 of them" in done(job.input, job.output, *flags)
    assert "was begun with layers 'all', and this is 'top'; --force starts over" in refused(
        job.input, job.output, "--top", *flags[1:]
    )
    assert "25 sentences, " in done(job.input, job.output, "--top", "--force", *flags[1:])


def test_parts_are_parquet_and_rows_have_the_numbers_of_their_file(
    job: EmbedOptions, tmp_path: Path
) -> None:
    done(tmp_path / "in" / "a.txt", job.output, "--top", "--part-sentences", 4)

    table = pyarrow.parquet.read_table(Path(job.output) / "a.txt").sort_by("index")
    assert table["index"].to_pylist() == list(range(15))
    assert table["tokens"].to_pylist() == SENTENCES[:15]


def test_the_names_of_the_files_tell_their_formats(tmp_path: Path) -> None:
    corpus = tmp_path / "in"
    corpus.mkdir()
    (corpus / "a.conllu").write_text("1\tNew York\n2\tsleeps\n\n")
    (corpus / "b.txt").write_text("New York never\n")

    done(corpus, tmp_path / "out", "--top")

    rows = pyarrow.parquet.read_table(tmp_path / "out")["tokens"].to_pylist()
    assert sorted(rows) == [["New", "York", "never"], ["New York", "sleeps"]]


# Parts


def test_every_layout_can_be_that_of_parts(job: EmbedOptions, source: Source) -> None:
    FolderRun(replace(job, output_format="allennlp", use_sentence_keys=True), source).run()

    with h5py.File(Path(job.output) / "a.txt" / "000001.hdf5") as file:
        assert set(file) == {" ".join(tokens) for tokens in SENTENCES[10:15]}


def test_a_part_that_fails_leaves_the_file_of_before(job: EmbedOptions, source: Source) -> None:
    (part, *_) = job.corpus.parts(10)
    writer = FolderRun(job, source)
    writer.write(part)
    before = writer.path(part).read_bytes()

    with full_disk(len(before) // 2), pytest.raises(FileError, match="too large; make room"):
        writer.write(part)
    (Path(job.input) / "a.txt").write_text("a\n")
    with pytest.raises(FileError, match=r"a\.txt changed while it was read; start again"):
        writer.write(part)

    assert files_in(job.output) == ["a.txt/000000.npz"]
    assert writer.path(part).read_bytes() == before


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("CUDA out of memory.\nTried"), "a.txt/000001.npz: CUDA out of memory. Tried"),
        (OSError(28, "No space left"), "a.txt/000001.npz cannot be written: No space left"),
        (FileError("the format"), "a.txt/000001.npz: the format"),
    ],
)
def test_a_part_that_fails_is_named_and_the_others_are_written(
    job: EmbedOptions,
    source: Source,
    elmo: ElmoNetwork,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    line: str,
) -> None:
    compute = InProcess.embed

    def embed(network: InProcess, sentences: Sequence[Sequence[str]], output: Any) -> Any:
        if SENTENCES[12] in sentences:
            raise error
        return compute(network, sentences, output)

    with monkeypatch.context() as patched:
        patched.setattr(InProcess, "embed", embed)
        with pytest.raises(FileError) as refusal:
            FolderRun(job, source).run()

    said = str(refusal.value).removeprefix(f"{job.output}/")
    assert said.startswith(line) and said.endswith(" (1 of 3 parts failed)") and "\n" not in said
    assert files_in(job.output) == [MANIFEST, "a.txt/000000.npz", "b/c.txt/000000.npz"]
    assert FolderRun(replace(job), source).run().resumed == 20
    check(job.output, elmo)


class Refusing(Source):
    """A source that is not asked, or is interrupted at its second part."""

    parts = 0

    def __init__(self, inner: Source, error: type[BaseException], after: int = 0) -> None:
        super().__init__(inner.info, inner.output)
        self._inner, self._error, self._after = inner, error, after

    def groups(
        self, sentences: Iterable[Tokens], on_computed: OnComputed
    ) -> Iterator[list[Vectors]]:
        self.parts += 1
        if self.parts > self._after:
            raise self._error
        return self._inner.groups(sentences, on_computed)


def test_a_folder_is_refused_before_anything_is_computed(job: EmbedOptions, source: Source) -> None:
    unasked = Refusing(source, AssertionError)
    with pytest.raises(OptionError, match="in place of --all, name --top"):
        FolderRun(replace(job, output_format="elmoformanylangs-text"), unasked).run()
    (Path(job.input) / "b" / "c.txt").write_text("a\n\nb\n\n")
    with pytest.raises(FileError, match=r"b/c\.txt: no tokens in line 2 and 1 more of 4;"):
        FolderRun(job, unasked).run()
    for name in FILES:
        (Path(job.input) / name).write_text("")
    with pytest.raises(FileError, match="has no sentences"):
        FolderRun(job, unasked).run()
    assert not Path(job.output).exists()


# The end of a process


def test_ctrl_c_says_how_many_parts_are_finished(
    job: EmbedOptions, source: Source, elmo: ElmoNetwork
) -> None:
    with pytest.raises(Interrupted, match="interrupted; 1 of 3 parts are finished: the same"):
        FolderRun(job, Refusing(source, KeyboardInterrupt, after=1)).run()
    assert FolderRun(job, source).run().resumed == 10
    check(job.output, elmo)
