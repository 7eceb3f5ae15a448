"""ElmoEmbedder: the methods and shapes of AllenNLP 0.9, in process and over HTTP."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import elmo_client
from elmo_client import CannotSend
from elmo_model.checkpoints import CheckpointError
from elmo_model.models.catalogue import CATALOGUE
from elmo_serve import ElmoEmbedder
from elmo_serve.files.inputs import FileError
from elmo_serve.models.checks import DownloadError
from tests.support import golden
from tests.support.servers import SMALL, Running
from tests.support.vectors import all_close, close

SENTENCES = [["The", "cat", "sat", "."], [], ["a"], ["The", "cat", "sat", "."]]


@pytest.fixture(scope="module")
def embedder() -> ElmoEmbedder:
    return ElmoEmbedder(SMALL / "options.json", SMALL / "weights.hdf5")


@pytest.fixture(scope="module", params=["in process", "over HTTP"])
def any_embedder(request: pytest.FixtureRequest, server: Running) -> Iterator[Any]:
    """This one, or the client's, which has the same methods but for files, texts and tensors."""
    if request.param == "in process":
        yield ElmoEmbedder(SMALL / "options.json", SMALL / "weights.hdf5")
        return
    with elmo_client.ElmoEmbedder(server.url) as embedder:
        yield embedder


def test_methods_and_shapes_are_those_of_allennlp(any_embedder: Any) -> None:
    one = any_embedder.embed_sentence(SENTENCES[0])
    several = any_embedder.embed_batch(SENTENCES)
    many = any_embedder.embed_sentences(iter(SENTENCES), batch_size=3)

    assert one.shape == (3, 4, 32) and one.dtype == np.float32
    assert [each.shape for each in several] == [(3, 4, 32), (3, 0, 32), (3, 1, 32), (3, 4, 32)]
    assert iter(many) is many
    all_close(list(many), several)
    close(several[0], one)
    assert any_embedder.embed_batch([]) == []
    iterator: Any = iter(SENTENCES)
    assert [each.shape for each in any_embedder.embed_batch(iterator)] == [
        each.shape for each in several
    ]


def test_a_batch_has_one_sentence_or_more(embedder: ElmoEmbedder) -> None:
    with pytest.raises(CannotSend):
        list(embedder.embed_sentences(SENTENCES, 0))


@pytest.mark.parametrize(
    ("lines", "error", "word"),
    [
        ([b"a b\n"], CannotSend, "line 1"),
        (["one two\nthree\n"], CannotSend, "line 1"),
        (["a\n", "\n"], FileError, "line 2"),
        ("in.txt", CannotSend, "input_file"),
    ],
)
def test_embed_file_refuses_before_it_writes(
    embedder: ElmoEmbedder, tmp_path: Path, lines: Any, error: type[Exception], word: str
) -> None:
    with pytest.raises(error, match=word):
        embedder.embed_file(lines, tmp_path / "out.hdf5")

    assert list(tmp_path.iterdir()) == []


def test_vectors_are_allennlps_from_zero_state(any_embedder: Any) -> None:
    expected = golden.arrays("stateless_f64")
    _, members, sentences = next(golden.batches())

    for member, vectors in zip(members, any_embedder.embed_batch(sentences), strict=True):
        answer = expected[f"b0_s{member}_full"][:, 1:-1]
        np.testing.assert_allclose(vectors, answer, rtol=0, atol=5e-5)


def test_a_batch_is_padded_as_by_allennlp(embedder: ElmoEmbedder) -> None:
    vectors, mask = embedder.batch_to_embeddings(SENTENCES)

    assert vectors.shape == (4, 3, 4, 32) and mask.dtype == torch.int64
    assert mask.tolist() == [[1] * 4, [0] * 4, [1, 0, 0, 0], [1] * 4]
    for padded, array in zip(vectors.numpy(), embedder.embed_batch(SENTENCES), strict=True):
        length = array.shape[1]
        close(padded[:, :length], array)
        assert not padded[:, length:].any()
    with pytest.raises(CannotSend):
        embedder.batch_to_embeddings([])


def test_state_is_carried_when_it_is_asked_for() -> None:
    expected = golden.arrays("stateful_f64")
    embedder = ElmoEmbedder(SMALL / "options.json", SMALL / "weights.hdf5", stateful=True)

    for batch, members, sentences in golden.batches():
        for member, vectors in zip(members, embedder.embed_batch(sentences), strict=True):
            answer = expected[f"b{batch}_s{member}_full"][:, 1:-1]
            np.testing.assert_allclose(vectors, answer, rtol=0, atol=5e-5)


def test_one_empty_sentence_leaves_the_state_as_it_is() -> None:
    """AllenNLP did not run its network for it."""
    with_empty, without = (
        ElmoEmbedder(SMALL / "options.json", SMALL / "weights.hdf5", stateful=True)
        for _ in range(2)
    )

    empty = [with_empty.embed_sentence([]) for _ in range(2)]
    found = [with_empty.embed_sentence(["a", "b"]), with_empty.embed_sentence([])]
    found.append(with_empty.embed_sentence(["a", "b"]))
    first, third = (without.embed_sentence(["a", "b"]) for _ in range(2))

    assert {each.shape for each in (*empty, found[1])} == {(3, 0, first.shape[2])}
    np.testing.assert_array_equal(found[0], first)
    np.testing.assert_array_equal(found[2], third)


def test_embed_file_writes_what_the_command_writes(embedder: ElmoEmbedder, tmp_path: Path) -> None:
    lines = io.StringIO("The cat sat .\n a/b \nThe cat sat .\n")
    output = tmp_path / "out.hdf5"
    output.write_text("replaced, as it always was")

    embedder.embed_file(lines, output, "average", batch_size=2)

    whole = embedder.embed_batch([["The", "cat", "sat", "."], ["a/b"]])
    with h5py.File(output) as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}
        assert json.loads(file["sentence_to_index"][0]) == {"The cat sat .": "2", "a/b": "1"}
        for number, vectors in ((0, whole[0]), (1, whole[1]), (2, whole[0])):
            close(file[str(number)][()], vectors.mean(0))
    assert [path.name for path in tmp_path.iterdir()] == ["out.hdf5"]


def test_embed_file_knows_the_flags(embedder: ElmoEmbedder, tmp_path: Path) -> None:
    output = tmp_path / "out.hdf5"

    embedder.embed_file(["a b\n", "c\n"], output, use_sentence_keys=True)
    with h5py.File(output) as file:
        assert set(file) == {"a b", "c"}
    embedder.embed_file(["a b\n", "c\n"], output, forget_sentences=True)
    with h5py.File(output) as file:
        assert set(file) == {"0", "1"}


def test_the_two_files_may_lie_anywhere(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    options, weights = tmp_path / "a" / "one.json", tmp_path / "b" / "two.h5"
    options.write_bytes((SMALL / "options.json").read_bytes())
    weights.write_bytes((SMALL / "weights.hdf5").read_bytes())

    assert ElmoEmbedder(options, weights).embed_sentence(["a"]).shape == (3, 1, 32)


def test_the_url_of_a_server_is_refused_with_the_class_for_it() -> None:
    with pytest.raises(CannotSend, match=r"elmo_client\.ElmoEmbedder"):
        ElmoEmbedder("http://127.0.0.1:8000")


def test_the_missing_file_is_named(tmp_path: Path) -> None:
    options, weights = tmp_path / "one.json", tmp_path / "two.h5"
    with pytest.raises(CheckpointError, match=rf"^{options}: cannot be read"):
        ElmoEmbedder(options, weights)
    options.write_bytes((SMALL / "options.json").read_bytes())
    with pytest.raises(CheckpointError, match=rf"^{weights}: cannot be read"):
        ElmoEmbedder(options, weights)


def test_a_string_is_refused_with_the_word_that_helps(any_embedder: Any) -> None:
    text: Any = "Hello world"

    for call in (any_embedder.embed_sentence, any_embedder.embed_batch):
        with pytest.raises(CannotSend, match=r"text\.split\(\)"):
            call(text)


def test_the_package_loads_it_at_its_first_use() -> None:
    code = (
        "import sys, elmo_serve\n"
        "print({'torch', 'httpx', 'numpy', 'elmo_client'} & set(sys.modules))\n"
        "from elmo_serve import ElmoEmbedder\n"
        "print(ElmoEmbedder.__module__)\n"
        "print(hasattr(elmo_serve, 'Embedder'))\n"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "set()\nelmo_serve.elmo_embedder\nFalse\n"


def test_without_arguments_it_is_the_original_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    monkeypatch.setenv("ELMO_OFFLINE", "true")

    with pytest.raises(DownloadError, match=str(tmp_path / "original")):
        ElmoEmbedder()
    assert capsys.readouterr() == ("", "")  # a library prints nothing


def test_text_is_split_as_the_model_wants_it(embedder: ElmoEmbedder) -> None:
    found = embedder.embed_text("It can't rain.")
    assert found.tokens == ("It", "can", "'t", "rain", ".")
    assert [found.text[start:end] for start, end in found.offsets] == list(found.tokens)
    close(found.vectors, embedder.embed_sentence(found.tokens))
    two = embedder.embed_texts(["can't", ""], "ptb")
    assert [each.tokens for each in two] == [("ca", "n't"), ()]
    assert two[1].vectors.shape == (3, 0, 32)


def test_a_text_that_cannot_be_split_is_refused(embedder: ElmoEmbedder) -> None:
    tokens: Any = ["a"]
    with pytest.raises(CannotSend, match="text 0"):
        embedder.embed_text(tokens)
    with pytest.raises(CannotSend, match="the tokenizer changed"):
        embedder.embed_text("DOTMULTI", "moses")


def test_old_addresses_are_the_published_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    options, weights = CATALOGUE["original"].files
    place = str(tmp_path / "original" / options.name)

    with pytest.raises(DownloadError, match=re.escape(place)):
        ElmoEmbedder(options.urls()[1], weights.urls()[0])
    with pytest.raises(CheckpointError, match="elmo download"):
        ElmoEmbedder(options.urls()[0], CATALOGUE["small"].files[1].urls()[0])
