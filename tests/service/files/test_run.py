"""Runs of `elmo embed`: what a file and a folder of parts hold, and what is refused."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet
import pytest

from elmo_model.errors import OptionError
from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.folder import MANIFEST
from elmo_serve.files.inputs import FileError
from elmo_serve.files.options import EmbedOptions
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.files.vectors import LengthSorted
from elmo_serve.models.in_process import open_network
from elmo_serve.selection import select
from tests.support.embedding_runs import done, refused
from tests.support.files import full_disk
from tests.support.made_up_source import INFO, MadeUp
from tests.support.servers import SMALL
from tests.support.vectors import close, layers_of, sentences_of

SENTENCES = sentences_of(25)
FILES = {"a.txt": SENTENCES[:15], "b/c.txt": SENTENCES[15:]}
NAMES = ["a.txt/000000", "a.txt/000001", "b/c.txt/000000"]


def lines_of(sentences: Sequence[Sequence[str]]) -> str:
    return "".join(" ".join(tokens) + "\n" for tokens in sentences)


@pytest.fixture
def job(tmp_path: Path) -> EmbedOptions:
    """A job of three parts: of 10, 5 and 10 sentences."""
    for name, sentences in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines_of(sentences))
    return EmbedOptions(
        "all", "npz", input=str(tmp_path / "in"), output=str(tmp_path / "out"), part_sentences=10
    )


def run(job: EmbedOptions, source: Any = None) -> EmbedRun:
    """Run to a folder, with made-up vectors unless a source is given."""
    made = EmbedRun(job.form, source or MadeUp(job.selected(INFO)))
    made.to_folder(job)
    return made


def files_in(folder: str | Path) -> list[str]:
    """Return the paths of all files in a folder, the hidden ones too."""
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


# Files


def test_the_parts_of_a_file_are_windows_that_are_joined(tmp_path: Path, elmo: ElmoNetwork) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.npz"
    source.write_text(lines_of(SENTENCES))
    network = replace(open_network(str(SMALL), device="cpu"), batch_tokens=4)  # small windows
    wanted = LengthSorted(network, select("average", 3))
    seen: list[int] = []

    def step(name: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        if name == "Writing" and not seen:
            seen.append(len(list((tmp_path / "out.npz.parts").glob("*.part"))))

    EmbedRun(OUTPUTS["npz"], wanted, step).to_file(Text(source, "in"), output, {})

    assert seen[0] > 3
    with np.load(output) as found:
        assert found.files == [str(number) for number in range(25)]
        for array, layers in zip(found.values(), layers_of(elmo, SENTENCES), strict=True):
            close(array, layers.mean(0))
    assert files_in(tmp_path) == ["in.txt", "out.npz"]


def test_after_a_full_disk_the_same_command_continues(tmp_path: Path) -> None:
    """HDF5's own library would end the process with a segmentation fault."""
    source, output = tmp_path / "in.txt", tmp_path / "out.hdf5"
    source.write_text(lines_of(sentences_of(100)))
    size = sum(map(len, sentences_of(100))) * 3 * 32 * 4

    with full_disk(size // 2):
        line = refused(source, output, "--all")

    assert line.startswith(f"elmo: {output} cannot be written: File too large; make room")
    assert not output.exists()
    done(source, output, "--all")
    assert output.stat().st_size > size
    assert files_in(tmp_path) == ["in.txt", "out.hdf5"]


def test_the_parts_of_another_run_are_refused_or_discarded(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    other = tmp_path / "other.txt"
    other.write_text("something else\n")
    options = EmbedOptions("top", input=str(text), output=str(output))

    def step(name: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        if name == "Writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EmbedRun(OUTPUTS["npz"], MadeUp(options.selected(INFO)), step).to_file(
            Text(text, "in"), output, {"layers": "top"}
        )

    def again(path: Path, layers: str, *, force: bool = False) -> EmbedRun:
        made = EmbedRun(OUTPUTS["npz"], MadeUp(select("top", 3)))
        made.to_file(Text(path, "in"), output, {"layers": layers}, force=force)
        return made

    with pytest.raises(FileError, match="'top', and this is 'all'"):
        again(text, "all")
    with pytest.raises(FileError, match="begun with another text; --force"):
        again(other, "top")
    assert again(other, "top", force=True).sentences == 1
    assert not (tmp_path / "out.npz.parts").exists()


@pytest.mark.parametrize("is_folder", [True, False])
@pytest.mark.parametrize("flags", [[], ["--force"]], ids=["", "force"])
def test_foreign_files_are_never_changed(
    text: Path, tmp_path: Path, is_folder: bool, flags: list[str]
) -> None:
    foreign = tmp_path / "out.npz.parts"
    if is_folder:
        foreign.mkdir()
        foreign /= "000000.part"
    foreign.write_text("precious")

    line = refused(text, tmp_path / "out.npz", "--top", *flags)

    assert line.startswith(f"elmo: {tmp_path / 'out.npz.parts'} is ")
    assert foreign.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"input.txt", "out.npz.parts"}


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_vectors_that_are_not_finite_are_refused_with_their_sentence(
    job: EmbedOptions, is_folder: bool
) -> None:
    class Spoilt(MadeUp):
        def groups(self, *arguments: Any) -> Any:
            for group in super().groups(*arguments):
                for array in group:
                    if len(array[0]) == len(SENTENCES[12]):
                        array[1, 0, 0] = np.inf
                yield group

    first = [len(each) for each in SENTENCES].index(len(SENTENCES[12])) + 1
    source = Spoilt(select("all", 3))
    said = f"a.txt: line {first}: the vectors hold NaN or infinity"
    with pytest.raises(FileError, match=said):
        if is_folder:
            run(job, source)
        else:
            text, output = job.corpus.text("a.txt"), Path(job.output)
            EmbedRun(OUTPUTS["npz"], source).to_file(text, output, {})


# Folders


def test_a_folder_is_embedded_part_by_part(job: EmbedOptions, elmo: ElmoNetwork) -> None:
    flags = ("--all", "--format", "npz", "--part-sentences", 10)

    printed = done(job.input, job.output, *flags)

    tokens = sum(map(len, SENTENCES))
    assert printed.startswith(f"Wrote {job.output}: 25 sentences, {tokens} tokens")
    expected = iter(layers_of(elmo, SENTENCES))
    assert files_in(job.output) == [MANIFEST, *(f"{name}.npz" for name in NAMES)]
    for name in NAMES:
        with np.load(Path(job.output) / f"{name}.npz") as arrays:
            for array in arrays.values():
                close(array, next(expected))
    (Path(job.output) / "a.txt" / "000001.npz").unlink()
    assert "25 sentences, 20 of them by an earlier run" in done(job.input, job.output, *flags)
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


@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_tokens_are_counted_after_the_tokenizer(tmp_path: Path, is_folder: bool) -> None:
    source = tmp_path / "in.txt"
    source.write_text("It can't rain.\nNo!\n")
    flags = ("--part-sentences", 1) if is_folder else ("--format", "npz")

    printed = done(source, tmp_path / "out", "--top", "--tokenizer", "ptb", *flags)

    assert "2 sentences, 7 tokens in" in printed


def test_a_compressed_file_is_read_once_for_its_vectors(job: EmbedOptions) -> None:
    """And not from its beginning for each part."""
    path = Path(job.input) / "a.txt"
    packed = path.with_name("a.txt.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    opened: list[str] = []
    is_watched = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if is_watched and event == "open" and str(arguments[0]) == str(packed):
            opened.append(event)

    sys.addaudithook(watch)
    run(replace(job, part_sentences=1))
    is_watched = False

    assert len(opened) == 3  # to count, for the digest, for the vectors


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("in.fasta", "\n>a b\nAC\nD\n\n>b\n>c\r\nEF\n>d\nG\nH", ["ACD", "", "EF", "GH"]),
        ("in.conllu", "# text\n1\tA\n2\tb\n\n\n1\tC\n\n# more\n1-2\tx\n1\tD\n\n1\tE\n", "AbCDE"),
        ("in.txt", "a b\nZürich 東京\nc", ["ab", "Zürich東京", "c"]),
    ],
)
def test_the_parts_together_are_the_file(
    tmp_path: Path, name: str, content: str, expected: Sequence[str], most: int
) -> None:
    """Sentences of several lines stay whole; the reader of FASTA sees the next header first."""
    source, output = tmp_path / f"{name}.gz", tmp_path / "out"
    source.write_bytes(gzip.compress(content.encode()))
    job = EmbedOptions("top", input=str(source), output=str(output), part_sentences=most)
    run(job)

    parts = sorted((output / source.name).iterdir())
    rows = [pyarrow.parquet.read_table(path)["tokens"].to_pylist() for path in parts]
    whole = ["".join(row) for part in rows for row in part]
    assert "".join(whole) == "".join(expected)
    assert len(parts) == -(-len(whole) // most)
    assert all(len(each) == most for each in rows[:-1])


def test_every_layout_can_be_that_of_parts(job: EmbedOptions) -> None:
    run(replace(job, output_format="allennlp", use_sentence_keys=True))

    with h5py.File(Path(job.output) / "a.txt" / "000001.hdf5") as file:
        assert set(file) == {" ".join(tokens) for tokens in SENTENCES[10:15]}


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("CUDA error.\nTried"), "a.txt/000001.npz: CUDA error. Tried"),
        (OSError(28, "No space left"), "a.txt/000001.npz cannot be written: No space left"),
        (FileError("the format"), "the format"),
    ],
)
def test_a_part_that_fails_is_named_and_the_others_are_written(
    job: EmbedOptions, error: Exception, line: str
) -> None:
    def before(number: int) -> None:
        if number == 12:
            raise error

    with pytest.raises(FileError) as refusal:
        run(job, MadeUp(job.selected(INFO), before))

    said = str(refusal.value).removeprefix(f"{job.output}/")
    assert said.startswith(line) and said.endswith(" (1 of 3 parts failed)") and "\n" not in said
    assert files_in(job.output) == [MANIFEST, "a.txt/000000.npz", "b/c.txt/000000.npz"]
    assert run(job).resumed == 20


def test_a_sentence_that_cannot_be_split_is_named_and_the_others_are_written(
    job: EmbedOptions,
) -> None:
    """Moses keeps its own mark of this name between the dots of an ellipsis."""
    path = Path(job.input) / "a.txt"
    path.write_text(path.read_text().replace("\n", " DOTMULTI\n", 1))

    with pytest.raises(FileError, match="1 of 3 parts"):
        run(replace(job, tokenizer="moses"))

    assert files_in(job.output) == [MANIFEST, "a.txt/000001.npz", "b/c.txt/000000.npz"]


def test_a_folder_is_refused_before_anything_is_computed(job: EmbedOptions) -> None:
    def before(_: int) -> None:
        raise AssertionError

    unasked = MadeUp(job.selected(INFO), before)
    with pytest.raises(OptionError, match="in place of --all, name --top"):
        run(replace(job, output_format="elmoformanylangs-text"), unasked)
    (Path(job.input) / "b" / "c.txt").write_text("a\n\nb\n\n")
    with pytest.raises(FileError, match=r"b/c\.txt: .*line 2 and 1 more of 4"):
        run(job, unasked)
    for name in FILES:
        (Path(job.input) / name).write_text("")
    with pytest.raises(FileError, match="has no sentences"):
        run(job, unasked)
    assert not Path(job.output).exists()


# Memory

MEMORY = """
import sys
from pathlib import Path
from elmo_serve.files.outputs import OUTPUTS, allennlp
from elmo_serve.files.run import EmbedRun
from elmo_serve.files.text import Text
from elmo_serve.selection import select
from tests.support import made_up_source
from dataclasses import replace

source, output, form, width = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
made_up_source.INFO = replace(made_up_source.INFO, dimension=width)
form = {**OUTPUTS, "numbers alone": allennlp.NUMBERS_ALONE}[form]
made_up = made_up_source.MadeUp(select("all", 3), rows=500)
EmbedRun(form, made_up).to_file(Text(source, "text"), output, {})
# ru_maxrss of a child is at least the memory of its parent when it was started.
(line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
print(line.split()[1])
"""


@pytest.mark.parametrize(
    ("form", "counts", "line", "width", "most"),
    [
        # 92 and 184 MB, several groups; and so many sentences that what is kept of each shows.
        ("numbers alone", (1_500, 3_000), "word " * 20, 256, 64),
        ("npz", (2_000, 22_000), "a sentence of few words", 1, 20),
    ],
)
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, form: str, counts: tuple[int, ...], line: str, width: int, most: int
) -> None:
    # From a source that costs nothing, so that the file can be large.
    peaks = []
    for count in counts:
        source, output = tmp_path / f"{count}.txt", tmp_path / f"{count}.out"
        source.write_text(f"{line}\n" * count)
        arguments = [sys.executable, "-c", MEMORY, *map(str, (source, output, form, width))]
        found = subprocess.run(arguments, capture_output=True, text=True, check=True)
        peaks.append(int(found.stdout) / 1024)
        output.unlink()

    assert peaks[1] - peaks[0] < most, f"{peaks} MiB"
