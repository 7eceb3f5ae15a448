"""Command lines that are refused: the arguments, the exit code, and a word of the one line.

Commands run in a folder with a few files. The last line on standard error is what counts: click
prints the usage before it. No command ends in a traceback for a file that is missing, a folder or
damaged.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_client import retry
from elmo_serve.cli import main
from tests.support.command_line import elmo
from tests.support.servers import SMALL

FILES = {
    "a.txt": "The cat sat .\na\n",
    "copy.txt": "The cat sat .\na\n",
    "folder.safetensors/a.txt": "mine",
    "blank.txt": "a\n\nb c\n",
    "a.conllu": "1\ta\n",
    "a.conll": "EU B-ORG\n",
    "a.fasta": ">x|P1\nAC\n",
    "newlines": "\n\n",
    "dot.txt": "a\nDOTMULTI\n",
    "in/a.txt": "a\n",
    "fasta/a.fasta": ">x|P1\nAC\n",
    "twice.fasta": ">sp|P1|X\nAC\n>P1\nD\n",
    "begins.txt": ">P1\nMKV\n",
    "taken": "mine",
    "taken.npz": "mine",
    "train.tsv": "label\ttext\nx\ta\ny\tb\n",
    "empty.txt": "\n \n",
    "words.txt": "the\n</S>\n",
    "taken.safetensors": "mine",
}
SERVER = "--server http://127.0.0.1:9"

# `elmo embed`: the rest of the command line, with --model if it has none
EMBED = [
    ("a.txt v.h5", 2, "only one"),
    ("a.txt v.h5 --all --top", 2, "only one"),
    ("a.txt v.h5 --all --layer 0", 2, "only one"),
    ("a.txt v.h5 --layer -1", 2, "--layer"),
    ("a.txt v.h5 --layer 3", 1, "0 to 2"),
    ("a.txt v.csv --top", 2, "--format"),
    ("a.txt - --top", 2, "--format"),
    ("a.txt - --top --format allennlp", 2, "no file"),
    ("a.txt missing/v.h5 --top", 1, "missing"),
    ("a.txt in --top --format npz", 1, "folder"),
    ("a.txt v.h5 --top --model nowhere", 1, "nowhere"),
    ("a.txt v.h5 --top --device cuda:99", 2, "cuda:99"),
    ("a.txt v.h5 --top --server localhost", 2, "http://"),
    (f"a.txt v.h5 --top {SERVER}", 1, "127.0.0.1:9"),
    (f"a.txt v.h5 --top {SERVER} --device cpu", 2, "--device"),
    (f"a.txt v.h5 --top {SERVER} --precision int8", 2, "--precision"),
    (f"a.txt v.h5 --top {SERVER} --carry-state", 2, "state"),
    ("a.txt v.h5 --top --batch-size 3", 2, "--carry-state"),
    ("a.txt v.h5 --top --format elmoformanylangs --forget-sentences", 2, "allennlp"),
    ("a.txt v.h5 --all --format elmoformanylangs-text", 2, "--all"),
    ("a.txt v.h5 --top --pooling mean", 2, "seqvec"),
    ("a.txt v.txt --top --pooling mean --format elmoformanylangs-text", 2, "npz"),
    ("a.txt v.npz --top --pooling mean --carry-state", 2, "--carry-state"),
    ("a.txt v.npz --top --pooling median", 2, "--pooling"),
    # input
    ("missing v.h5 --top", 2, "missing"),
    ("blank.txt v.h5 --top", 1, "--keep-blank-lines"),
    ("begins.txt v.h5 --top", 2, "--input-format"),
    ("begins.gz v.h5 --top", 2, "--input-format"),
    ("a.txt taken.npz --top", 1, "--force"),
    ("taken.npz taken.npz --top --force --input-format plain", 2, "INPUT"),
    ("link taken.npz --top --force --input-format plain", 2, "INPUT"),
    ("dot.txt v.npz --top --tokenizer moses", 1, "line 2"),
    ("a.conllu v.h5 --top --tokenizer ptb", 2, "plain"),
    ("a.txt v.h5 --top --column 1", 2, "conll"),
    ("a.conll v.h5 --top --column 5", 1, "column"),
    ("a.txt v.h5 --top --input-format conllu", 1, "line 1"),
    # parts
    ("in out --top --carry-state", 2, "--carry-state"),
    ("in v.npz --top", 2, "folder"),
    ("in - --top", 2, "folder"),
    ("in taken --top", 2, "folder"),
    *((f"in {inside} --top", 2, "INPUT") for inside in ("in", "in/v", "in/deeper/../v")),
    ("- out --top --part-sentences 5", 2, "standard input"),
    # FASTA
    ("a.fasta v.csv --top", 2, ".h5"),
    ("a.fasta v.npz", 2, "only one"),
    ("a.fasta v.h5 --tokenizer characters", 2, "fasta"),
    ("fasta out", 2, "only one"),
    ("twice.fasta v.h5", 1, "record 2, 'P1'"),
]

# the rest of command lines that begin as the key does
BEGUN: dict[str, list[tuple[str, int, str]]] = {
    "fit bad --kind sentence --train train.tsv --model SMALL": [
        ("", 2, "--out"),
        ("--out tasks --label kind", 2, "--label"),
        ("--out tasks --validation 0.5", 1, "validation 0.5"),
        ("--out tasks --validation 0.9", 1, "validation 0.9"),
        ("--out tasks --validation 1.5", 2, "--validation"),
        ("--out tasks --seeds 0", 2, "--seeds"),
        ("--out tasks --threads 0", 2, "--threads"),
        ("--out tasks --tokenizer nonsense", 2, "nonsense"),
        (f"--out tasks {SERVER} --layer-norm", 2, "--layer-norm"),
        (f"--out tasks {SERVER} --device cpu", 2, "--device"),
    ],
    "index --model SMALL": [
        ("", 2, "TEXT"),
        ("a.txt", 2, "FOLDER"),
        ("a.txt x --tokenised --tokenizer ptb", 2, "--tokenised"),
        ("a.txt x --model nonesuch", 1, "nonesuch"),
        ("a.txt .", 1, "exists"),
        ("a.txt a.txt", 1, "exists"),
        ("empty.txt x", 1, "no token"),
        ("torn.xz x", 1, "torn.xz"),
    ],
    "train run --text a.txt --rows 4 --samples 8": [
        ("--shape big", 2, "original"),
        ("--shape tiny --device tpu", 2, "cuda"),
        ("--shape tiny --steps 0", 2, "--steps"),
        ("--shape tiny --set dropout=1.5", 2, "dropout"),
        ("--shape tiny --set average=1", 2, "average"),
        ("--shape tiny --epochs nan", 2, "--epochs"),
        ("--shape tiny --weights english", 2, "shape"),
        ("--shape tiny --steps 3 --set tokens=5", 2, "tokens"),
        ("--shape tiny --steps 3 --epochs 2", 2, "--epochs"),
        ("--shape tiny --set tokens=9 --epochs 2", 2, "--epochs"),
        ("--shape tiny --set averag=0", 2, "average"),
        ("--shape tiny --set average", 2, "KEY=VALUE"),
        ("--shape tiny --set rows=4", 2, "KEY=VALUE"),  # which has an option of its own
        ("--shape tiny --set fresh=yes", 2, "boolean"),
        ("--shape tiny --set optimiser=adam", 2, "adagrad"),
        ("--shape tiny b.txt", 2, "extra"),
        ("--shape tiny --heldout no.txt", 2, "no.txt"),
        *(
            (f"--shape tiny --steps 3 --samples 2 --heldout {text}", 1, text)
            for text in ("link.txt", "copy.txt")  # of the text that is trained on
        ),
        ("--weights Engish --steps 3", 1, "Engish"),
        ("--shape tiny --set vocabulary=no.txt", 1, "no.txt"),
        ("--shape tiny --set vocabulary=words.txt", 1, "<S>"),
        ("--shape tiny --set vocabulary=words.txt --vocabulary-size 9", 2, "--vocabulary-size"),
    ],
}

# other commands; SMALL is the path of the golden model; variables stand before the command
OTHERS = [
    ("convert SMALL pair --name x", 2, "--name"),
    ("convert SMALL pair --dtype float16", 2, "float32"),
    ("convert SMALL s.safetensors --softmax int8", 2, "--softmax"),
    ("convert SMALL s.safetensors --softmax-words 9", 2, "--softmax-words"),
    ("convert SMALL pair --softmax int8", 2, "--softmax"),
    ("convert SMALL s.safetensors --softmax none --softmax-words 9", 2, "--softmax-words"),
    ("convert SMALL taken", 2, "taken"),
    ("convert SMALL taken.safetensors", 2, "--force"),
    ("convert SMALL in", 2, "a.txt"),
    *(
        (f"convert SMALL {target} --force", 2, target)
        for target in ("in", "folder.safetensors", "taken", "missing/a.safetensors")
    ),
    ("convert original a.safetensors", 1, "ELMO_OFFLINE"),
    ("convert damaged s.safetensors", 1, "damaged"),
    ("download", 2, "NAME"),
    ("download orignal", 2, "orignal"),
    ("download English", 2, "English"),
    ("download 5.5B", 1, "5.5b/"),
    ("download small --mirror=x", 2, "--mirror"),
    *(
        (f"fit {name} --kind sentence --train train.tsv --model SMALL --out tasks", 2, "A-Z")
        for name in ("../x", "''", "'a b'", ".hidden")
    ),
    ("index a.conllu out --model SMALL", 2, "conllu"),
    *(
        (f"ELMO_MODEL={model} embed {source} out.h5 --top", 2, "seqvec")
        for model in ("english", "original")  # ELMO_MODEL is what `elmo serve` serves
        for source in ("a.fasta", "fasta")
    ),
    ("info damaged", 1, "damaged"),
    ("info qqqq", 1, "elmo models"),
    ("info original", 1, "ELMO_OFFLINE"),
    ("ELMO_OFFLINE=perhaps info original", 2, "ELMO_OFFLINE"),
    ("look a-b a-c --model SMALL --device cuda:99", 2, "cuda:99"),
    ("look 'a b' 'a c' --model SMALL --word loans", 1, "loans"),
    ("ELMO_OFFLINE=perhaps models", 2, "ELMO_OFFLINE"),
    ("perplexity english a.conllu", 2, "conllu"),
    ("perplexity SMALL a.txt", 1, "softmax"),
    ("score a.conllu", 2, "conllu"),
    ("score a.txt --softmax-words 2", 2, "--softmax-words"),
    ("score a.txt --softmax-words x", 2, "--softmax-words"),
    ("score a.txt --model SMALL", 1, "softmax"),
    ("score a.txt --model english --device gpu", 2, "gpu"),
    ("score dot.txt --tokenizer moses", 1, "line 2"),
    (f"score a.txt {SERVER} --device cpu", 2, "--device"),
    ("serve english", 2, "english"),
    ("serve --port 8000 small", 2, "small"),
    ("serve --precision fp16", 2, "bfloat16"),
    ("serve --precision float32,english=fp16", 2, "bfloat16"),
    ("ELMO_DEVICES=cpu,CUDA:63 serve", 2, "CUDA:63"),
    ("ELMO_PORT=1 serve --port=x", 2, "--port"),
    ("serve --model SMALL --index .", 2, "--index"),
    ("serve --host=no-such-host.invalid --model SMALL", 2, "ELMO_HOST"),
    ("serve --model nowhere", 1, "nowhere"),
    ("serve --model empty", 1, "empty"),
    ("serve --model " + "x" * 300, 1, "long"),
    *(
        (f"serve {offline} --model=original", 1, "ELMO_OFFLINE")
        for offline in ("--offline", "--offline true", "--offline=true")
    ),
    ("tasks SMALL out", 1, "mixes"),
    ("ELMO_TASKS=in tasks SMALL", 2, "FOLDER"),
    ("tasks original out", 1, "ELMO_OFFLINE"),
    ("tokenize a.conllu", 2, "conllu"),
    ("tokenize a.txt --model seqevc", 1, "seqevc"),
    ("tokenize dot.txt --tokenizer moses", 1, "line 2"),
    ("tokenize latin.txt --tokenizer moses", 1, "UTF-8"),
    ("train run --text a.conllu", 2, "conllu"),
]

# command lines that read GIVEN, or write below it; THIS is a text that is there
READS = """
    convert GIVEN pair
    convert SMALL GIVEN/deeper.safetensors
    download small --cache GIVEN --mirror http://localhost:1
    embed GIVEN v.npz --top --model SMALL
    embed THIS v.npz --top --model GIVEN
    embed THIS GIVEN/deeper.npz --top --model SMALL
    fit t --kind token --label upos --seeds 1 --train GIVEN --out tasks --model SMALL
    fit t --kind token --label upos --seeds 1 --train THIS --out tasks --model GIVEN
    index GIVEN index --model SMALL
    index THIS index --model GIVEN
    index THIS GIVEN/deeper --model SMALL
    info GIVEN
    look 'a b' 'a c' --model GIVEN
    models --cache GIVEN
    perplexity GIVEN GIVEN
    score GIVEN --model SMALL
    serve --model GIVEN/deeper
    serve --tasks GIVEN/deeper --model nowhere
    tasks GIVEN tasks
    tasks SMALL GIVEN
    tokenize GIVEN
    train run --text GIVEN --shape tiny --steps 1
    train run --text THIS --weights GIVEN --steps 1
    train GIVEN/deeper --text THIS --shape tiny --steps 1
"""
GIVEN: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "folder": Path.mkdir,
    "damaged": lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n\xff\xfe\x00 damaged \x80\n"),
}


def embed(line: str) -> str:
    """Return the command line of a row, with the golden model where it has none."""
    has_model = "--model" in line or "--server" in line
    return f"embed {line}" if has_model else f"embed {line} --model SMALL"


ROWS = [
    *((embed(line), code, word) for line, code, word in EMBED),
    *((f"{start} {line}", *end) for start, rows in BEGUN.items() for line, *end in rows),
    *OTHERS,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("refusals")
    for name, content in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    (root / "latin.txt").write_bytes(b"\xff\n")
    (root / "begins.gz").write_bytes(gzip.compress(b">P1\nMKV\n"))
    (root / "link").symlink_to("taken.npz")
    (root / "link.txt").symlink_to("a.txt")
    (root / "torn.xz").write_bytes(lzma.compress(b"a b c\n" * 1_000)[:-20])
    (root / "empty").mkdir()
    shutil.copytree(SMALL, root / "damaged")
    (root / "damaged" / "weights.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n\0")
    return root


def contents(folder: Path) -> dict[Path, int]:
    """Return all files and folders, and when each file was written last."""
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in folder.rglob("*")}


@pytest.mark.parametrize(("line", "code", "word"), ROWS)
def test_a_command_is_refused_in_one_line(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    code: int,
    word: str,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(retry, "FIRST_CONTACT_SECONDS", 0.1)
    before = contents(folder)

    given = [str(SMALL) if each == "SMALL" else each for each in shlex.split(line)]
    variables = {"ELMO_OFFLINE": "1", "ELMO_CACHE": str(tmp_path)}
    while given[0].startswith("ELMO_"):
        name, _, value = given.pop(0).partition("=")
        variables[name] = value
    result = elmo(*given, **variables)

    assert (result.exit_code, isinstance(result.exception, SystemExit)) == (code, True), result
    assert word in result.stderr.splitlines()[-1]
    assert contents(folder) == before, "nothing was written"


def test_every_command_reads_a_wrong_file() -> None:
    listed = {name for name, command in main.commands.items() if not command.hidden}

    assert {line.split()[0] for line in READS.strip().splitlines()} == listed


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("line", [line.strip() for line in READS.strip().splitlines()])
def test_a_wrong_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, kind: str
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    GIVEN[kind](tmp_path / "given")
    places = {"GIVEN": tmp_path / "given", "SMALL": SMALL, "THIS": __file__}

    words = [
        re.sub("GIVEN|SMALL|THIS", lambda name: str(places[name[0]]), each)
        for each in shlex.split(line)
    ]
    found = elmo(*words, ELMO_OFFLINE="1")

    # `elmo` catches what it expects; all else is in `exception`, and a traceback for a user.
    assert isinstance(found.exception, SystemExit | None), found
    if found.exit_code:
        last = found.stderr.strip().splitlines()[-1]
        assert last.startswith(("elmo: ", "Error: ")) and "Traceback" not in found.output
