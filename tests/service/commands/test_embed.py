"""`elmo embed`: options, pipes and refusals. `tests/service/files` tests formats and runs."""

from __future__ import annotations

import io
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet
import pytest

from elmo_model.checkpoints import load
from elmo_serve.files.inputs import begins_as_fasta
from elmo_serve.files.outputs import is_stream
from tests.support.embedding_runs import COMMAND, begin, done, embed, refused
from tests.support.scripted_server import scripted_server
from tests.support.servers import SMALL, Running
from tests.support.vectors import close, layers_of


def test_blank_lines_may_be_kept(tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.hdf5"
    source.write_text("one\n\n two \n\t\n")

    done(source, output, "--all", "--keep-blank-lines")

    with h5py.File(output) as file:
        shapes = [file[str(number)].shape for number in range(4)]
    assert shapes == [(3, 1, 32), (3, 0, 32), (3, 1, 32), (3, 0, 32)]


def test_text_that_is_not_tokenised_is_told_with_the_option_that_splits_it(tmp_path: Path) -> None:
    (source := tmp_path / "in").mkdir()
    (source / "a.txt").write_text("On the bank.\n" * 2 + "Mr. Bond ran .\n")
    note = "a.txt: lines end in tokens such as 'bank.'; if they are not tokenised, --tokenizer"

    given = [(source / "a.txt", tmp_path / "x.npz"), (source, tmp_path / "parts")]
    for number, each in enumerate(given):
        assert note in embed(*each, "--top").stderr
        again = each[0], tmp_path / f"again{number}"
        split = "--format", "npz", "--tokenizer", "whitespace"
        assert "lines end" not in embed(*again, "--top", *split).stderr


def test_a_text_without_sentences_has_a_file_without_vectors(tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.npz"
    source.write_text("")
    assert done(source, output, "--top").startswith(f"Wrote {output}: 0 sentences, 0 tokens in ")
    source.write_text("one\n")
    assert ": 1 sentence, 1 token in" in done(source, output, "--top", "--force")


# Pipes


def through_pipes(text: Path, *flags: object) -> tuple[bytes, str]:
    """Run `elmo embed` from one pipe into another; return the vectors and standard error."""
    (source, into), (outof, target) = os.pipe(), os.pipe()
    with os.fdopen(into, "wb") as writer:
        writer.write(text.read_bytes())  # less than a pipe holds
    with ThreadPoolExecutor() as threads, os.fdopen(outof, "rb") as reader:
        vectors = threads.submit(reader.read)
        try:
            result = embed(f"/dev/fd/{source}", f"/dev/fd/{target}", *flags)
        finally:
            os.close(source)
            os.close(target)
        assert result.exit_code == 0, result.output
        return vectors.result(), result.stderr


def assert_the_same(form: str, found: bytes, expected: Path) -> None:
    if form == "npz":  # in a pipe the sizes stand behind the members
        with np.load(io.BytesIO(found)) as one, np.load(expected) as other:
            assert one.files == other.files
            assert all(np.array_equal(one[key], other[key]) for key in other.files)
    else:
        assert found == expected.read_bytes()


@pytest.mark.parametrize("form", ["npz", "elmoformanylangs-text", "parquet"])
def test_text_and_vectors_may_go_through_pipes(text: Path, tmp_path: Path, form: str) -> None:
    expected = tmp_path / "expected"
    done(text, expected, "--top", "--format", form)

    vectors, said = through_pipes(text, "--top", "--format", form)

    assert said.startswith("Wrote /dev/fd/") and ": 5 sentences, 15 tokens" in said
    assert_the_same(form, vectors, expected)
    assert {path.name for path in tmp_path.iterdir()} == {"input.txt", "expected"}


@pytest.mark.parametrize("names", [("-", "-"), ("/dev/stdin", "/dev/stdout")])
def test_standard_input_and_output_have_names(
    text: Path, tmp_path: Path, names: tuple[str, str]
) -> None:
    """The process itself needs no network: a server computes."""
    text.write_text("1 one\n22\n")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    with scripted_server() as server:
        done(text, tmp_path / "expected.npz", "--all", "--server", server.url)
        run = subprocess.run(
            [COMMAND, "embed", *names, "--all", "--format", "npz", "--server", server.url],
            input=text.read_bytes(),
            capture_output=True,
            env=environment,
            check=False,
        )

    assert run.returncode == 0, run.stderr
    assert run.stderr.decode().startswith(f"Wrote {names[1]}: 2 sentences, 3 tokens")
    assert_the_same("npz", run.stdout, tmp_path / "expected.npz")


def test_a_stream_is_told_by_its_kind_and_not_by_its_folder(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        assert is_stream(f"/dev/fd/{file.fileno()}")
        assert not is_stream(file.name)
    assert is_stream("-") and is_stream("/dev/null") and is_stream("/dev/stdout")
    assert not is_stream("/dev/shm/vectors.hdf5") and not is_stream("out.npz")


def test_a_closed_pipe_ends_the_command_with_one_line(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("1 sentence of six words .\n" * 200)
    with scripted_server() as server:
        flags = ("--concat", "--format", "elmoformanylangs-text", "--server", server.url)
        process = begin(source, "-", *flags)  # writes more than a pipe holds
        assert process.stdout is not None and process.stderr is not None

        process.stdout.read(100)
        process.stdout.close()
        complaint = process.stderr.read()
        process.stderr.close()

    assert process.wait() == 1
    assert complaint.endswith("elmo: standard output was closed\n")


def test_a_sentence_that_the_server_refuses_is_named_before_anything_is_computed(
    tmp_path: Path,
) -> None:
    """As a record of FASTA is: by its number from 1, and by its id."""
    (tmp_path / "a.txt").write_text("short\n" + "w " * 11)
    (tmp_path / "a.fasta").write_text(">P1\nSEQ\n>P2 kinase\n" + "A" * 11)
    said = "holds 11 tokens and the server allows 10 (ELMO_MAX_SENTENCE_TOKENS)"
    with scripted_server() as server:
        flags = (tmp_path / "v.npz", "--server", server.url, "--model", "scripted")
        text = refused(tmp_path / "a.txt", *flags, "--top")
        record = refused(tmp_path / "a.fasta", *flags, "--top")

    assert text == f"elmo: {tmp_path / 'a.txt'}: line 2, 'w w w w w w w w w w w', {said}"
    assert record == f"elmo: {tmp_path / 'a.fasta'}: record 2, 'P2', {said}"
    assert not server.requests


# Text


def test_text_is_split_as_the_model_wants_it(tmp_path: Path, server: Running) -> None:
    elmo = load(SMALL)
    source, output = tmp_path / "in.txt", tmp_path / "out.parquet"
    source.write_text("It can't rain.\nZürich, 東京!\n", encoding="utf-8")
    cases: list[tuple[list[str], list[str]]] = [
        (["--tokenizer", "model"], ["It", "can", "'t", "rain", "."]),
        (["--tokenizer", "ptb"], ["It", "ca", "n't", "rain", "."]),
        (["--tokenizer", "model", *("--server", server.url)], ["It", "can", "'t", "rain", "."]),
    ]
    for flags, tokens in cases:
        done(source, output, "--top", "--force", *flags)
        table = pyarrow.parquet.read_table(output)
        assert table["tokens"].to_pylist()[0] == tokens
        found = table["vectors"][0].values.to_numpy().reshape(len(tokens), -1)
        close(found, layers_of(elmo, [tokens])[0][-1])


def test_nothing_is_taken_from_standard_input_to_tell_its_format(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text.write_text(">P1\nMKV\n")
    with text.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert begins_as_fasta("-")
        assert stdin.read().startswith(">P1")


def test_text_that_begins_as_fasta_does_may_be_plain(text: Path, tmp_path: Path) -> None:
    text.write_text(">P1\nMKV\n")

    done(text, tmp_path / "plain.h5", "--top", "--input-format", "plain")
