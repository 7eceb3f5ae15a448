"""The remote ElmoEmbedder: AllenNLP's methods over HTTP, without elmo-serve."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_client import CannotSend, ElmoEmbedder, Unreachable
from elmo_model.network.elmo import ElmoNetwork
from tests.client.vectors import SENTENCES, assert_close, every_layer
from tests.support.servers import Running

LINES = "The cat sat .\n a/b \nThe cat sat .\n"


@pytest.fixture(scope="module")
def embedder(server: Running) -> Iterator[ElmoEmbedder]:
    with ElmoEmbedder(server.url) as embedder:
        yield embedder


def test_methods_and_shapes_are_those_of_allennlp(
    embedder: ElmoEmbedder, elmo: ElmoNetwork
) -> None:
    expected = every_layer(elmo, SENTENCES)

    assert_close([embedder.embed_sentence(SENTENCES[0])], expected[:1])
    assert_close(embedder.embed_batch(SENTENCES), expected)
    assert_close(list(embedder.embed_sentences(iter(SENTENCES), batch_size=3)), expected)
    assert embedder.embed_batch([]) == []


def test_a_string_is_refused_with_the_word_that_helps(embedder: ElmoEmbedder) -> None:
    text: Any = "Hello world"

    for call in (embedder.embed_sentence, embedder.embed_batch):
        with pytest.raises(CannotSend, match=r"'Hello world'.*text\.split\(\)"):
            call(text)
    with pytest.raises(CannotSend, match=r"sentence 0 .*'Hello world'.*text\.split\(\)"):
        embedder.embed_batch([text])


def test_a_list_in_place_of_a_text_is_refused_with_methods_of_the_class(
    embedder: ElmoEmbedder,
) -> None:
    texts: Any = ["The bank."]
    with pytest.raises(CannotSend, match="for several texts, use embed_texts; for tokens, embed_s"):
        embedder.embed_text(texts)
    with pytest.raises(CannotSend, match=r"^text 0 is .*; for tokens, use embed_batch"):
        embedder.embed_texts([texts])
    assert [each.text for each in embedder.embed_texts(iter(texts))] == texts


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_embed_file_writes_the_layout_of_allennlp(
    embedder: ElmoEmbedder, tmp_path: Path, elmo: ElmoNetwork, output_format: Any
) -> None:
    output = tmp_path / "out.hdf5"
    output.write_text("replaced")

    embedder.embed_file(io.StringIO(LINES), output, output_format)

    select = {"all": lambda v: v, "top": lambda v: v[-1], "average": lambda v: v.mean(0)}
    with h5py.File(output) as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}
        assert json.loads(file["sentence_to_index"][0]) == {"The cat sat .": "2", "a/b": "1"}
        for number, layers in enumerate(every_layer(elmo, [x.split() for x in LINES.splitlines()])):
            expected = select[output_format](layers)
            np.testing.assert_allclose(file[str(number)][()], expected, rtol=0, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["out.hdf5"]


def test_embed_file_has_the_flags_of_allennlp(embedder: ElmoEmbedder, tmp_path: Path) -> None:
    output = tmp_path / "out.hdf5"

    embedder.embed_file(["a b\n", "c\n"], output, use_sentence_keys=True)
    with h5py.File(output) as file:
        assert set(file) == {"a b", "c"}
    embedder.embed_file(["a b\n", "c\n"], output, forget_sentences=True)
    with h5py.File(output) as file:
        assert set(file) == {"0", "1"}


def test_embed_file_refuses_before_it_writes(embedder: ElmoEmbedder, tmp_path: Path) -> None:
    wrong: Any = "best"
    path: Any = tmp_path / "in.txt"
    for name in (path, str(path)):
        with pytest.raises(CannotSend, match=r"^input_file is .*; expected an open file"):
            embedder.embed_file(name, tmp_path / "out.hdf5")
    lines: Any = [b"a b\n"]
    with pytest.raises(CannotSend, match=r"^line 1 is b'a b\\n'; expected a string"):
        embedder.embed_file(lines, tmp_path / "out.hdf5")
    with pytest.raises(CannotSend, match="there are no tokens in these lines: 2, 4"):
        embedder.embed_file(["a\n", "\n", "b\n", " "], tmp_path / "out.hdf5")
    with pytest.raises(CannotSend, match="output_format is 'best'; expected one of all, top"):
        embedder.embed_file(["a\n"], tmp_path / "out.hdf5", wrong)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a b", "c d", "a b"], "line 3, 'a b', is a key already"),
        (["and/or", "and"], "line 2, 'and', cannot be a key"),
        (["and", "and/or"], "line 2, 'and/or', cannot be a key"),
        (["a", "./."], r"line 2, '\./\.', cannot be a key"),
        (["a", "b\0c"], r"line 2, 'b\\x00c', cannot be a key"),
    ],
)
def test_sentences_that_hdf5_cannot_hold_as_keys_are_refused_before_they_are_sent(
    embedder: ElmoEmbedder, tmp_path: Path, lines: list[str], said: str
) -> None:
    with pytest.raises(CannotSend, match=said):
        embedder.embed_file(lines, tmp_path / "out.hdf5", use_sentence_keys=True)

    assert list(tmp_path.iterdir()) == []


def test_a_path_is_refused_with_the_class_that_takes_it() -> None:
    cases: list[list[Any]] = [
        ["options.json"],
        ["options.json", "weights.hdf5"],
        ["options.json", "w.hdf5", 0],
    ]
    for files in cases:
        found = ", ".join(map(repr, files))
        with pytest.raises(CannotSend) as caught:
            ElmoEmbedder(*files)
        assert str(caught.value) == (
            f"{found}: expected the URL of a server, such as http://localhost:8000, whose models "
            "are called by name, such as model='original'; elmo_serve.ElmoEmbedder takes files"
        )


def test_files_by_name_are_refused_likewise() -> None:
    files: Any = {"options_file": "o.json", "weight_file": "w.hdf5", "cuda_device": 0}

    with pytest.raises(CannotSend) as caught:
        ElmoEmbedder(**files)

    assert str(caught.value) == (
        "options_file='o.json', weight_file='w.hdf5', cuda_device=0: expected the URL of a "
        "server, such as http://localhost:8000, whose models are called by name, such as "
        "model='original'; elmo_serve.ElmoEmbedder takes files"
    )


@pytest.mark.parametrize(
    ("files", "named", "found"),
    [
        ([], {"cuda_device": 0}, "cuda_device=0"),
        ([Path("w.hdf5"), 0], {}, "'w.hdf5', 0"),
        ([], {"options_file": "o.json"}, "options_file='o.json'"),
    ],
)
def test_a_server_has_its_own_files_and_device(
    files: list[Any], named: dict[str, Any], found: str
) -> None:
    with pytest.raises(CannotSend) as caught:
        ElmoEmbedder("http://localhost:1", *files, **named)

    assert str(caught.value) == (
        f"{found}: expected no file or device beside the URL of a server, which chooses its device "
        "and whose models are called by name, such as model='original'; "
        "elmo_serve.ElmoEmbedder takes files"
    )


def test_a_dead_address_fails_at_once_and_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

    with pytest.raises(Unreachable, match=rf"^{url}: .*attempts in [0-5]\.\d s"):
        ElmoEmbedder(url)


def test_a_folder_that_is_missing_is_named_before_anything_is_sent(
    embedder: ElmoEmbedder, tmp_path: Path
) -> None:
    output = tmp_path / "none" / "out.hdf5"

    with pytest.raises(CannotSend) as caught:
        embedder.embed_file(["a\n"], output)

    assert str(caught.value) == f"{output}: there is no folder {output.parent} to write to"
    with pytest.raises(CannotSend, match="is a folder; expected the name of a file"):
        embedder.embed_file(["a\n"], tmp_path)
