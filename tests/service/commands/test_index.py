"""`elmo index`: a text becomes an index whose vectors are those of the network."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from elmo_model.models.opening import open_model
from elmo_model.uses.files import open_index
from tests.support.command_line import elmo
from tests.support.servers import SMALL

LINES = [
    " ".join(f"w{(row * 7 + place) % 23}" for place in range(1 + row % 9)) for row in range(90)
]
TOKENS = sum(len(line.split()) for line in LINES)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("\n".join([*LINES[:40], "", " ", *LINES[40:]]) + "\n\n")


def index(*arguments: object) -> str:
    result = elmo("index", *arguments, "--model", SMALL)
    assert result.exit_code == 0, result.output
    return result.output


def test_an_index_holds_the_vectors_of_every_token() -> None:
    output = index("text.txt", "index", "--tokenised")

    assert f"{TOKENS:,} tokens, 90 sentences, 23 distinct words" in output
    found = open_index(Path("index"))
    assert found.lines is not None
    assert found.lines.tolist() == [*range(1, 41), *range(43, 93)]
    network = open_model(str(SMALL))
    layers = np.concatenate(
        [each.numpy() for each in network.embed(list(map(str.split, LINES)))], 1
    )
    exact = layers - found.centre[:, np.newaxis]
    np.testing.assert_allclose(found.vectors[0][found.tokens], exact[0], atol=5e-3)
    for stored, expected in zip(found.vectors[1:], exact[1:], strict=True):
        np.testing.assert_allclose(stored, expected, atol=5e-3)


def test_text_is_split_as_the_training_text_of_the_model() -> None:
    Path("text.txt.xz").write_bytes(lzma.compress(b"It can't rain.\n"))
    for name, words in (("ptb", ("It", "ca", "n't", "rain", ".")), ("", ("It", "can", "'t"))):
        index("text.txt.xz", f"index{name}", *(("--tokenizer", name) if name else ()))

        assert open_index(Path(f"index{name}")).use(0).sentence[: len(words)] == words
