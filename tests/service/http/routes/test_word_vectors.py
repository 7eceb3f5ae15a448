"""`word_vectors` in POST /embed: the file's rows behind the vectors of a task model's input."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from tests.support.command_line import elmo
from tests.support.servers import SMALL, Running, running
from tests.support.word_vectors import write_static

SENTENCES = [["The", "cat", "sat", "."], [], ["dog", "CAT"]]
WORDS = {"cat": [0.1, 0.25, -3.0], "sat": [1e-7, 5.0, 6.0], "the": [7.0, 8.0, 9.0]}
STATIC = np.array([WORDS["the"], WORDS["cat"], WORDS["sat"], [0, 0, 0]], np.float32)
"""The vectors of the first sentence: lower case for `The`, zeros for the full stop."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("server")
    with running(folder, model=SMALL, word_vectors=write_static(folder, **WORDS)) as started:
        yield started


def embed(server: Running, **options: object) -> tuple[list[np.ndarray], float]:
    """Return the float32 vectors of SENTENCES, and the share of unknown tokens in the header."""
    accept = {"Accept": "application/vnd.safetensors"}
    with server.client() as client:
        response = client.post("/embed", json={"sentences": SENTENCES, **options}, headers=accept)
    assert response.status_code == 200, response.text
    tensors = safetensors.numpy.load(response.content)
    share = float(response.headers.get("x-unknown-share", -1))
    return [tensors[str(index)] for index in range(len(SENTENCES))], share


SELECTIONS = [
    {"layers": "top"},
    {"layers": "average"},
    {"layers": "sum"},
    {"mix": {"weights": [1, 2, 3]}},
    {"mix": {"weights": [1, 2, 3], "layer_norm": True}},
]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_rows_of_the_file_stand_behind_the_vectors_bit_for_bit(
    server: Running, selection: dict[str, object]
) -> None:
    plain, none = embed(server, **selection)

    both, share = embed(server, word_vectors="append", **selection)

    width = plain[0].shape[1]
    for one, two in zip(plain, both, strict=True):
        assert two.shape == (len(one), width + 3)
        np.testing.assert_array_equal(two[:, :width].view(np.uint32), one.view(np.uint32))
    np.testing.assert_array_equal(both[0][:, width:].view(np.uint32), STATIC.view(np.uint32))
    assert none == -1 and share == pytest.approx(2 / 6, abs=1e-6)  # the full stop and the dog


def test_they_are_appended_before_pooling_and_normalize(server: Running) -> None:
    whole, _ = embed(server, layers="top", word_vectors="append")
    pooled, _ = embed(server, layers="top", word_vectors="append", pooling="mean")
    unit, _ = embed(server, layers="top", word_vectors="append", normalize=True)

    np.testing.assert_allclose(pooled[0], whole[0].mean(0), rtol=1e-5, atol=1e-6)
    assert not pooled[1].any() and pooled[1].shape == pooled[0].shape
    lengths = np.linalg.norm(whole[0], axis=1, keepdims=True)
    np.testing.assert_allclose(unit[0], whole[0] / lengths, rtol=1e-5, atol=1e-6)


def test_json_has_the_wider_dimension_and_the_share(server: Running) -> None:
    with server.client() as client:
        body = {"sentences": SENTENCES, "layers": "top", "word_vectors": "append"}
        found = client.post("/embed", json=body).json()
        plain = client.post("/embed", json={"sentences": SENTENCES, "layers": "top"}).json()
        info = client.get("/info").json()

    assert found["dimension"] == plain["dimension"] + 3 == info["dimension"] + 3
    assert found["unknown_share"] == pytest.approx(1 / 3, abs=1e-6)
    assert "unknown_share" not in plain
    assert info["word_vectors"]["file"] == "static.safetensors"
    assert (info["word_vectors"]["words"], info["word_vectors"]["dimension"]) == (3, 3)


@pytest.mark.parametrize(
    "selection", [{}, {"layers": [2]}, {"layers": "all"}, {"layers": "concat"}]
)
def test_selections_of_several_layers_are_refused(
    server: Running, selection: dict[str, object]
) -> None:
    with server.client() as client:
        body = {"sentences": SENTENCES, "word_vectors": "append", **selection}
        response = client.post("/embed", json=body)

    assert response.status_code == 422
    assert response.json()["errors"] == [
        {
            "pointer": "/word_vectors",
            "detail": "word vectors go with one vector a token: "
            "top, average, sum, one layer, a task or a mix",
        }
    ]


@pytest.mark.parametrize(("flags", "layer"), [(("--top",), 2), (("--layer", "1"), 1)])
def test_elmo_embed_writes_the_same_in_process_and_from_the_server(
    server: Running, tmp_path: Path, flags: tuple[str, ...], layer: int
) -> None:
    (tmp_path / "text.txt").write_text("The cat sat .\ndog CAT\n")
    static = server.log_file.parent / "static.safetensors"
    words = ("--word-vectors", static, "--model", SMALL)

    here = elmo("embed", tmp_path / "text.txt", tmp_path / "1.npz", *flags, *words)
    there = elmo(
        *("embed", tmp_path / "text.txt", tmp_path / "2.npz", *flags, "--server", server.url),
        *("--word-vectors", "append"),
    )

    assert (here.exit_code, there.exit_code) == (0, 0), here.output + there.output
    with np.load(tmp_path / "1.npz") as first, np.load(tmp_path / "2.npz") as second:
        one, two = dict(first), dict(second)
    static_rows, _ = embed(server, layers="top", word_vectors="append")
    plain, _ = embed(server, layers=layer)
    expected = [
        np.concatenate([vectors, rows[:, -3:]], axis=1)
        for vectors, rows in zip(plain, static_rows, strict=True)
    ]
    for key, row in (("0", 0), ("1", 2)):
        np.testing.assert_allclose(one[key], expected[row], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(one[key][:, -3:], expected[row][:, -3:])
        np.testing.assert_allclose(two[key], expected[row], rtol=1e-5, atol=1e-5)
    refused = elmo("embed", tmp_path / "text.txt", tmp_path / "3.npz", "--all", *words)
    assert refused.exit_code == 1 and "go with one vector a token" in refused.output
