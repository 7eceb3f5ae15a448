"""`elmo embed`: what comes in, what comes out, and what a run survives."""

from __future__ import annotations

import fcntl
import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet
import pytest
import safetensors
import torch
from click.testing import CliRunner, Result

from elmo_model.checkpoints import load
from elmo_model.elmo import Elmo
from elmo_serve.cli import main
from elmo_serve.commands.embed import OUTPUT_FORMATS, STREAMS
from elmo_serve.files.outputs import OUTPUTS
from tests.support import golden
from tests.support.scripted_server import after, scripted_server
from tests.support.servers import SMALL, Running

COMMAND = Path(sys.executable).with_name("elmo")
TEXT = ["The cat sat .", "naïve  東京\tx/y", "The cat sat .", "and / or", "a"]
WORDS = [f"word{number}" for number in range(500)]
SERVER = ("--server", "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return load(SMALL)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{line}\n" for line in TEXT), encoding="utf-8")
    return path


def embed(*arguments: object, model: Path = SMALL) -> Result:
    clean = {name: None for name in os.environ if name.startswith("ELMO_")}
    return CliRunner().invoke(
        main, ["embed", *map(str, arguments)], env={**clean, "ELMO_MODEL": str(model)}
    )


def done(*arguments: object) -> str:
    result = embed(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object, code: int = 1) -> str:
    result = embed(*arguments)
    assert result.exit_code == code, result.output
    (line,) = result.stderr.splitlines()
    return line


def layers_of(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    return [each.numpy() for each in elmo.embed(sentences)]


def close(found: Any, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


# HDF5 as AllenNLP wrote it


@pytest.mark.parametrize(
    ("flags", "of"),
    [
        (["--all"], lambda layers: layers),
        (["--top"], lambda layers: layers[-1]),
        (["--average"], lambda layers: layers.mean(0)),
        (["--layer", "0"], lambda layers: layers[0]),
    ],
    ids=["all", "top", "average", "one"],
)
def test_hdf5_is_that_of_allennlp(
    text: Path, tmp_path: Path, elmo: Elmo, flags: list[str], of: Callable[[Any], Any]
) -> None:
    output = tmp_path / "out.hdf5"

    said = done(text, output, *flags)

    assert said.startswith(f"Wrote {output}: 5 sentences, 15 tokens in ")
    with h5py.File(output) as file:
        assert set(file) == {"0", "1", "2", "3", "4", "sentence_to_index"}
        for number, layers in enumerate(layers_of(elmo, [line.split() for line in TEXT])):
            dataset = file[str(number)]
            close(dataset[()], of(layers))
            assert dataset.chunks is None and not dataset.attrs
        index = file["sentence_to_index"]
        assert index.shape == (1,)
        assert h5py.check_string_dtype(index.dtype).length is None
        assert index[0].isascii()
        # a sentence that repeats keeps its last number
        assert json.loads(index[0]) == {TEXT[0]: "2", TEXT[1]: "1", TEXT[3]: "3", TEXT[4]: "4"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.txt", "out.hdf5"]


def test_sentences_are_forgotten_or_keys_when_asked(text: Path, tmp_path: Path, elmo: Elmo) -> None:
    numbers, keys = tmp_path / "numbers.hdf5", tmp_path / "keys.hdf5"
    unique = tmp_path / "unique.txt"
    unique.write_text("a b/c\nd\n", encoding="utf-8")

    done(text, numbers, "--top", "--forget-sentences")
    done(unique, keys, "--all", "--use-sentence-keys")

    with h5py.File(numbers) as file:
        assert set(file) == {"0", "1", "2", "3", "4"}
    with h5py.File(keys) as file:
        assert set(file) == {"a b", "d"}
        close(file["a b/c"][()], layers_of(elmo, [["a", "b/c"]])[0])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a", "b", "a"], "sentence 3, 'a', is a key already"),
        (["a/b", "a"], "sentence 2, 'a', cannot be a key: a slash makes a group"),
        (["a", "a/b"], "sentence 2, 'a/b', cannot be a key: a slash"),
        (["a//./b", "a/b"], "sentence 2, 'a/b', is a key already"),
        (["/"], "sentence 1, '/', cannot be a key"),
        (["a\0b"], "cannot be a key"),
    ],
)
def test_keys_that_cannot_be_are_refused_before_anything_is_computed(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(lines))

    line = refused(tmp_path / "in.txt", tmp_path / "out.h5", "--top", "--use-sentence-keys")

    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_blank_lines_are_listed_or_kept(tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.hdf5"
    source.write_text("one\n\n two \n\t\n")

    line = refused(source, output, "--all")
    done(source, output, "--all", "--keep-blank-lines")

    assert "no tokens in lines 2, 4 of 4; --keep-blank-lines" in line
    with h5py.File(output) as file:
        shapes = [file[str(number)].shape for number in range(4)]
    assert shapes == [(3, 1, 32), (3, 0, 32), (3, 1, 32), (3, 0, 32)]


# Other formats


def test_files_of_elmoformanylangs(tmp_path: Path, elmo: Elmo) -> None:
    source = tmp_path / "in.txt"
    source.write_text("two words\tand/or\t.\nx\nx\n", encoding="utf-8")
    flags = ("--average", "--input-format", "tab", "--format")

    done(source, tmp_path / "out.hdf5", *flags, "elmoformanylangs")
    done(source, tmp_path / "out.txt", *flags, "elmoformanylangs-text")

    means = [each.mean(0) for each in layers_of(elmo, [["two words", "and/or", "."], ["x"]])]
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"two words\tand$backslash$or\t$period$", "x"}
        close(file["two words\tand$backslash$or\t$period$"][()], means[0])
    blocks = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n\n")
    assert blocks.pop() == ""
    rows = [line.split("\t") for line in blocks[0].split("\n")]
    assert [row[0] for row in rows] == ["two words", "and/or", "."]
    assert all(len(number.split(".")[1]) == 8 for number in rows[0][1:])
    np.testing.assert_allclose(np.array([row[1:] for row in rows], float), means[0], atol=1e-5)
    assert len(blocks) == 3


def test_npz_has_the_keys_of_the_service(text: Path, tmp_path: Path, elmo: Elmo) -> None:
    done(text, tmp_path / "out.npz", "--all")

    expected = layers_of(elmo, [line.split() for line in TEXT])
    with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
        assert file.files == ["0", "1", "2", "3", "4"]
        for number, layers in enumerate(expected):
            close(file[str(number)], layers)


def test_parquet_has_a_row_a_sentence(text: Path, tmp_path: Path, elmo: Elmo) -> None:
    done(text, tmp_path / "out.parquet", "--all")

    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table["index"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["tokens"].to_pylist() == [line.split() for line in TEXT]
    facts = table.schema.metadata
    shape = json.loads(facts[b"shape"])
    assert (shape, json.loads(facts[b"layers"])) == ([3, -1, 32], [0, 1, 2])
    assert facts[b"revision"].decode() == elmo.origin.revision
    for row, layers in enumerate(layers_of(elmo, [line.split() for line in TEXT])):
        close(np.array(table["vectors"][row].as_py(), np.float32).reshape(shape), layers)


def test_parquet_without_pyarrow_says_what_to_install(text: Path, tmp_path: Path) -> None:
    # None in sys.modules is how Python itself says that a module is not to be had.
    hidden = "import sys; sys.modules['pyarrow'] = None; from elmo_serve.cli import main; main()"
    arguments = ["embed", str(text), str(tmp_path / "o.parquet"), "--top", "--model", str(SMALL)]

    run = subprocess.run(
        [sys.executable, "-c", hidden, *arguments], capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert run.stderr == (
        "elmo: Parquet needs pyarrow, which is not installed: elmo-serve[parquet] has it\n"
    )


def test_conllu_gives_words_and_nothing_else(tmp_path: Path, elmo: Elmo) -> None:
    source = tmp_path / "in.conllu"
    source.write_text(
        "# sent_id = 1\n1-2\tdon't\t_\n1\tdo\tdo\n2\tn't\tnot\n2.1\tghost\t_\n\n\n"
        "# newpar\n1\tTokyo Tower\t_\n2\t#\t_\n",
        encoding="utf-8",
    )

    done(source, tmp_path / "out.h5", "--all", "--input-format", "conllu")

    expected = layers_of(elmo, [["do", "n't"], ["Tokyo Tower", "#"]])
    with h5py.File(tmp_path / "out.h5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"do n't": "0", "Tokyo Tower #": "1"}
        for number, layers in enumerate(expected):
            close(file[str(number)][()], layers)
    source.write_text("1 no tab\n")
    line = refused(source, tmp_path / "b.h5", "--all", "--input-format", "conllu")
    assert "line 1 is '1 no tab'" in line


def test_the_formats_on_offer_are_those_there_are() -> None:
    assert set(OUTPUT_FORMATS) == set(OUTPUTS)
    assert set(STREAMS) == {name for name, form in OUTPUTS.items() if form.is_stream}


# Where vectors come from


def test_a_server_computes_the_same(
    text: Path, tmp_path: Path, server: Running, elmo: Elmo
) -> None:
    for flags in (["--all"], ["--layer", "1"], ["--average"]):
        here, there = tmp_path / "here.npz", tmp_path / "there.npz"
        done(text, here, *flags, "--force")
        said = embed(text, there, *flags, "--force", "--server", server.url, model=Path("nowhere"))
        assert said.exit_code == 0, said.output
        with np.load(here) as mine, np.load(there) as theirs:
            for name in mine.files:
                close(theirs[name], mine[name])


@pytest.mark.parametrize("precision", ["", "_f64"])
@pytest.mark.parametrize("rows", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_carried_state_gives_the_vectors_of_old(
    tmp_path: Path, rows: tuple[int, ...], precision: str
) -> None:
    # Row r of a batch goes on where row r of the batch before ended, whatever stands in other rows:
    # a batch of one is bilm-tf's, one of several AllenNLP's.
    expected = golden.arrays(f"stateful{precision}")
    members = [[members[row] for row in rows] for _, members, _ in golden.batches()]
    every = golden.sentences()
    source, output = tmp_path / "in.txt", tmp_path / "out.hdf5"
    lines = [" ".join(every[member]) for batch in members for member in batch]
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    flags = ("--all", "--keep-blank-lines", "--carry-state", "--batch-size", len(rows))
    done(source, output, *flags)

    with h5py.File(output) as file:
        for number, (batch, member) in enumerate(
            (batch, member) for batch, found in enumerate(members) for member in found
        ):
            answer = expected[f"b{batch}_s{member}_full"][:, 1:-1]
            np.testing.assert_allclose(file[str(number)][()], answer, rtol=0, atol=5e-5)


def test_a_server_spares_this_process_the_network(
    text: Path, tmp_path: Path, server: Running
) -> None:
    code = (
        "import sys; from elmo_serve.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print({'torch', 'fastapi', 'pydantic'} & sys.modules.keys())"
    )
    arguments = ["embed", str(text), str(tmp_path / "out.hdf5"), "--all", "--server", server.url]

    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )

    assert run.stdout.splitlines()[1:] == ["set()"]


# What a run survives


def sentences_of(count: int) -> list[list[str]]:
    generator = np.random.default_rng(7)
    return [
        [WORDS[i] for i in generator.integers(0, len(WORDS), generator.integers(1, 15))]
        for _ in range(count)
    ]


def begin(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    environment |= {"ELMO_MODEL": str(SMALL), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [COMMAND, "embed", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def kept(journal: Path) -> int:
    try:
        with safetensors.safe_open(journal, framework="numpy") as file:
            return int(json.loads(file.metadata()["journal"])["sentences"])
    except FileNotFoundError:
        return 0


def carried(elmo: Elmo, sentences: Sequence[Sequence[str]], size: int) -> list[np.ndarray]:
    state, found = None, []
    with torch.inference_mode():
        for start in range(0, len(sentences), size):
            representations, state = elmo(sentences[start : start + size], state)
            found += [layers[:, 1:-1].mean(0).numpy() for layers in representations.sentences()]
    return found


HELD = """
import sys
from pathlib import Path
from elmo_serve.files.in_process import InProcess
from elmo_serve.files.outputs import OUTPUTS
from elmo_serve.files.run import Job
from elmo_serve.files.selection import selection
from elmo_serve.files.sources.local import LengthSorted, Stateful
from elmo_serve.files.text import Text

source, output, model, size = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
network = InProcess.open(model, device="cpu")
wanted = selection("average", network.info.layers)
inner = Stateful(network, wanted, size) if size else LengthSorted(network, wanted)

class Held:
    info, state, restore = inner.info, inner.state, inner.restore

    def groups(self, sentences, on_computed):
        groups = inner.groups(sentences, on_computed)
        for _ in range(2):
            yield next(groups)
        print("held", flush=True)
        sys.stdin.read()

identity = {"layers": "average", "input format": "plain", "blank lines": False,
            "batch size": size or None, "format": "npz"}
job = Job(Text(source, "text"), OUTPUTS["npz"], Held(), wanted, keep_seconds=0)
job.to_file(output, identity)
"""


@pytest.mark.parametrize(
    ("flags", "count"),
    [([], 12_000), (["--carry-state", "--batch-size", "7"], 40)],
    ids=["length sorted", "stateful"],
)
def test_a_killed_run_continues_where_it_was(
    tmp_path: Path, elmo: Elmo, flags: list[str], count: int
) -> None:
    sentences = sentences_of(count)
    source, output = tmp_path / "in.txt", tmp_path / "out.npz"
    source.write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    size = flags[-1] if flags else "0"
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, str(source), str(output), str(SMALL), size],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.communicate()
    before = kept(tmp_path / "out.npz.journal")
    assert 0 < before < count
    assert not output.exists()
    with (tmp_path / "out.npz.part").open("ab") as file:
        file.write(b"half a vector")

    printed = done(source, output, "--average", *flags)

    assert f"{count:,} sentences, {before:,} of them by an earlier run" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npz"]
    expected = carried(elmo, sentences, 7) if flags else None
    with np.load(output) as found:
        assert found.files == [str(number) for number in range(count)]
        for number in (*range(0, count, 97), before - 1, before, count - 1):
            alone = layers_of(elmo, [sentences[number]])[0].mean(0)
            close(found[str(number)], alone if expected is None else expected[number])


@pytest.mark.parametrize("name", ["out.hdf5", "out.npz", "out.parquet"])
@pytest.mark.parametrize("room", [0.5, 1.01], ids=["for half", "for the part alone"])
def test_a_full_disk_is_said_and_breaks_nothing(tmp_path: Path, name: str, room: float) -> None:
    sentences = sentences_of(400)
    source, output = tmp_path / "in.txt", tmp_path / name
    source.write_text("".join(" ".join(each) + "\n" for each in sentences), encoding="utf-8")
    part = sum(map(len, sentences)) * 3 * 32 * 4
    limit = int(part * room)

    process = begin(source, output, "--all", preexec_fn=limited(limit))
    said, complaint = process.communicate()

    assert process.returncode == 1, (process.returncode, said, complaint)
    (line,) = complaint.splitlines()
    assert line.startswith(f"elmo: {output} cannot be written: File too large; make room")
    assert not output.exists() and not output.with_name(name + ".new").exists()
    again = done(source, output, "--all")
    if room > 1:
        assert "400 of them by an earlier run" in again
    assert output.stat().st_size > part


def test_two_runs_do_not_write_one_file(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    with (tmp_path / "out.npz.part").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert "is being written by another process" in refused(text, output, "--top")


def limited(size: int) -> Callable[[], None]:
    """Return a function that limits the size of the files of a process, as a full disk does."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def left_behind(text: Path, output: Path) -> tuple[Path, Path]:
    """Leave a part and a journal, as a run does whose disk has no room for the output."""
    process = begin(text, output, "--top", preexec_fn=limited(15 * 32 * 4 + 100))
    process.communicate()
    assert process.returncode == 1
    part, journal = (output.with_name(f"{output.name}.{end}") for end in ("part", "journal"))
    assert part.stat().st_size == 15 * 32 * 4
    return part, journal


def test_what_another_run_left_is_not_mixed_in(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    part, journal = left_behind(text, output)
    other = tmp_path / "other.txt"
    other.write_text("something else\n")

    assert "was begun with layers 'top', and this is 'all'" in refused(text, output, "--all")
    assert "was begun with text" in refused(other, output, "--top")
    assert "1 sentences, 2 tokens" in done(other, output, "--top", "--force")
    assert not part.exists() and not journal.exists()


def test_force_replaces_an_output_and_still_goes_on_where_it_was(
    text: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.npz"
    left_behind(text, output)
    output.write_text("old")

    assert "5 sentences, 5 of them by an earlier run" in done(text, output, "--top", "--force")
    assert "5 sentences, 15 tokens" in done(text, output, "--top", "--force")


def test_a_part_that_was_changed_is_not_continued(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    part, journal = left_behind(text, output)
    data = bytearray(part.read_bytes())
    data[5] ^= 1
    part.write_bytes(data)

    assert "does not hold what out.npz.journal says" in refused(text, output, "--top")
    assert "5 sentences, 15 tokens" in done(text, output, "--top", "--force")
    assert not part.exists() and not journal.exists()


@pytest.mark.parametrize("name", ["out.npz.part", "out.npz.new", "out.npz.journal"])
@pytest.mark.parametrize("flags", [[], ["--force"]], ids=["", "force"])
def test_files_of_somebody_else_are_never_touched(
    text: Path, tmp_path: Path, name: str, flags: list[str]
) -> None:
    foreign = tmp_path / name
    foreign.write_text("precious")

    line = refused(text, tmp_path / "out.npz", "--top", *flags)

    assert line.startswith(f"elmo: {foreign} exists and ")
    assert foreign.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"input.txt", name}


def test_an_empty_part_may_have_been_left_by_a_run_that_was_killed_at_once(
    text: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.npz.part").touch()

    assert "5 sentences" in done(text, tmp_path / "out.npz", "--top")


def test_ctrl_c_says_what_is_kept(text: Path, tmp_path: Path) -> None:
    gate = threading.Event()
    with scripted_server() as scripted:
        scripted.script = [after(gate)] * 9
        process = begin(text, tmp_path / "out.npz", "--top", "--server", scripted.url)
        scripted.arrived.acquire()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()
        gate.set()

    assert process.returncode == 130
    assert complaint == (
        f"elmo: interrupted; {tmp_path}/out.npz.part keeps 0 of 5 sentences: the same command "
        "continues from there\n"
    )


# Pipes


def piped(text: Path, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    return subprocess.run(
        [COMMAND, "embed", *map(str, arguments)],
        input=text.read_bytes(),
        capture_output=True,
        env={**environment, "ELMO_MODEL": str(SMALL)},
        check=False,
    )


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_the_text_may_come_from_a_pipe(text: Path, tmp_path: Path, name: str) -> None:
    expected = tmp_path / "expected.npz"
    done(text, expected, "--top")

    run = piped(text, name, tmp_path / "out.npz", "--top")

    assert run.returncode == 0, run.stderr
    assert (tmp_path / "out.npz").read_bytes() == expected.read_bytes()
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
@pytest.mark.parametrize("form", ["npz", "elmoformanylangs-text", "parquet"])
def test_vectors_may_go_to_a_pipe(text: Path, tmp_path: Path, name: str, form: str) -> None:
    expected = tmp_path / "expected"
    done(text, expected, "--top", "--format", form)

    run = piped(text, "-", name, "--top", "--format", form)

    assert run.returncode == 0, run.stderr
    assert run.stderr.decode().startswith(f"Wrote {name}: 5 sentences, 15 tokens")
    if form == "npz":  # in a pipe the sizes stand behind the members
        with np.load(io.BytesIO(run.stdout)) as found, np.load(expected) as other:
            assert found.files == other.files
            assert all(np.array_equal(found[key], other[key]) for key in other.files)
    else:
        assert run.stdout == expected.read_bytes()


def test_a_pipe_takes_no_hdf5_and_needs_a_format(text: Path) -> None:
    assert "allennlp cannot be written to -: HDF5 is no stream" in refused(
        text, "-", "--top", "--format", "allennlp", code=2
    )
    assert "- has no ending: name its --format" in refused(text, "-", "--top", code=2)


def test_a_reader_that_leaves_ends_the_command_in_one_line(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a sentence of six words .\n" * 20_000)
    process = begin(source, "-", "--top", "--format", "elmoformanylangs-text")
    assert process.stdout is not None and process.stderr is not None

    process.stdout.read(100)
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()

    assert process.wait() == 1
    assert complaint == "elmo: the reader of standard output is gone\n"


ONES = """
import sys
from pathlib import Path
import numpy as np
from elmo_serve.files.outputs import OUTPUTS, allennlp
from elmo_serve.files.run import Job
from elmo_serve.files.selection import selection
from elmo_serve.files.sources.source import Stateless
from elmo_serve.files.text import Text
from elmo_serve.workers.messages import ModelInfo

source, output, form, width = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])

class Ones(Stateless):
    info = ModelInfo("ones", "1", "none", 3, width, 0, "float32")

    def groups(self, sentences, computed):
        for tokens in sentences:
            yield [np.ones((3, len(tokens), width), np.float32)]

form = {**OUTPUTS, "numbers alone": allennlp.NUMBERS_ALONE}[form]
Job(Text(source, "text"), form, Ones(), selection("all", 3)).to_file(output, {})
# ru_maxrss of a child is at least the memory of its parent when it was started.
(line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
print(line.split()[1])
"""


@pytest.mark.parametrize(
    ("form", "counts", "line", "width", "most"),
    [
        # 20,000 and 120,000 tokens of 3 KB; and so many sentences that what is kept of each shows.
        ("numbers alone", (1_000, 6_000), "word " * 20, 256, 30),
        ("npz", (5_000, 65_000), "a sentence of few words", 1, 60),
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
        run = subprocess.run(
            [sys.executable, "-c", ONES, str(source), str(output), form, str(width)],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(run.stdout) / 1024)
        output.unlink()

    assert peaks[1] - peaks[0] < most, f"{peaks} MiB"


# What is refused


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "one of --all, --top, --average and --layer is needed"),
        (["--all", "--top"], "and only one"),
        (["--all", "--layer", "0"], "and only one"),
        (["--top", "--batch-size", "3"], "--batch-size goes with --carry-state"),
        (["--top", "--carry-state", "--server", "http://127.0.0.1:9"], "a server keeps no state"),
        (["--top", "--model", "x", *SERVER], "--model has no effect with --server"),
        (["--top", "--device", "cpu", *SERVER], "--device has no effect with --server"),
        (["--top", "--precision", "float32", *SERVER], "--precision has no effect with --server"),
        (["--top", "--api-key", "x"], "--api-key goes with --server"),
        (["--top", "--format", "npz", "--forget-sentences"], "belong to allennlp, not npz"),
    ],
)
def test_what_does_not_go_together_is_refused(
    text: Path, tmp_path: Path, flags: list[str], message: str
) -> None:
    assert message in refused(text, tmp_path / "out.hdf5", *flags, code=2)


def test_what_cannot_be_is_refused_in_one_line(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.hdf5"
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Zürich\n".encode("latin-1"))
    taken = tmp_path / "taken.npz"
    taken.write_text("mine")

    assert "name its --format" in refused(text, tmp_path / "out.xyz", "--top", code=2)
    assert "there is no layer 3; there are 0 to 2" in refused(text, output, "--layer", "3")
    assert "latin.txt is not UTF-8" in refused(latin, output, "--top")
    assert f"{taken} exists; --force replaces it" in refused(text, taken, "--top")
    assert taken.read_text() == "mine"
    assert "nowhere: does not exist" in refused(text, output, "--top", "--model", "nowhere")
    assert "cuda:99" in refused(text, output, "--top", "--device", "cuda:99")
    assert "not the URL" in refused(text, output, "--top", "--server", "localhost")
    assert "out.hdf5" in refused(text, tmp_path / "missing" / "out.hdf5", "--top")
    text_flags = ("--all", "--format", "elmoformanylangs-text")
    assert "do not use --all" in refused(text, tmp_path / "out.txt", *text_flags)
    assert "http://127.0.0.1:9: " in refused(text, output, "--top", *SERVER)
    assert not output.exists()
