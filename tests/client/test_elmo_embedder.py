"""The remote ElmoEmbedder, where it differs from that of elmo-serve: see its tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elmo_client import CannotSend, ElmoEmbedder, InvalidRequest, Unreachable
from elmo_client.transport import retry
from tests.support.servers import Running

LINES = "The cat sat .\n a/b \nThe cat sat .\n"


@pytest.fixture(scope="module")
def embedder(server: Running) -> Iterator[ElmoEmbedder]:
    with ElmoEmbedder(server.url) as embedder:
        yield embedder


def test_a_list_in_place_of_a_text_is_refused(embedder: ElmoEmbedder) -> None:
    texts: Any = ["The bank."]
    with pytest.raises(CannotSend, match="text 0"):
        embedder.embed_text(texts)
    with pytest.raises(CannotSend, match="text 0"):
        embedder.embed_texts([texts])
    assert [each.text for each in embedder.embed_texts(iter(texts))] == texts


def test_embed_file_refuses_before_it_writes(embedder: ElmoEmbedder, tmp_path: Path) -> None:
    wrong: Any = "best"
    path: Any = tmp_path / "in.txt"
    for name in (path, str(path)):
        with pytest.raises(CannotSend, match=r"^input_file is .*; expected an open file"):
            embedder.embed_file(name, tmp_path / "out.hdf5")
    with pytest.raises(CannotSend, match="there are no tokens in these lines: 2, 4"):
        embedder.embed_file(["a\n", "\n", "b\n", " "], tmp_path / "out.hdf5")
    with pytest.raises(InvalidRequest, match="best"):
        embedder.embed_file(["a\n"], tmp_path / "out.hdf5", wrong)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "lines",
    [["c d", "a b", "a b"], ["and/or", "and"], ["and", "and/or"], ["a", "./."], ["a", "b\0c"]],
)
def test_sentences_that_hdf5_cannot_hold_as_keys_are_refused_before_they_are_sent(
    embedder: ElmoEmbedder, tmp_path: Path, lines: list[str]
) -> None:
    with pytest.raises(CannotSend, match=f"line {len(lines)}"):
        embedder.embed_file(lines, tmp_path / "out.hdf5", use_sentence_keys=True)

    assert list(tmp_path.iterdir()) == []


def test_a_path_is_no_server() -> None:
    with pytest.raises(CannotSend, match=r"'options\.json'"):
        ElmoEmbedder("options.json")


def test_a_dead_address_fails_at_once_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_CONTACT_SECONDS", 0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

    with pytest.raises(Unreachable, match=rf"^{url}: .*attempts in "):
        ElmoEmbedder(url)
