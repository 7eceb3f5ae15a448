"""The encoder: the vectors of the network it was built from, whatever its precision and caches."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference import linear
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.linear import has_eight_bits, packs
from elmo_model.inference.precision import PRECISIONS
from elmo_model.network.elmo import ElmoNetwork
from tests.support import golden
from tests.support.checkpoints import write_pair

SENTENCES = [[word for word in sentence if word] for sentence in golden.sentences()]
SHORT = [["a", "b", "a"], [], ["b"], [], ["a"] * 9, ["c", "a", "b", "b", "a"]]
NEEDS_8_BITS = pytest.mark.skipif(not has_eight_bits(), reason="no VNNI")
EVERY_PRECISION = [
    pytest.param(name, marks=NEEDS_8_BITS if name == "int8" else ()) for name in PRECISIONS
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("elmo") / "model", cell=24, projection=12, layers=3)


@pytest.fixture
def elmo(folder: Path) -> ElmoNetwork:
    return load(folder)


@pytest.mark.parametrize("precision", EVERY_PRECISION)
def test_vectors_are_those_of_the_network(elmo: ElmoNetwork, precision: str) -> None:
    expected = torch.cat(elmo.embed(SENTENCES), dim=1)
    found = torch.cat(Encoder.of(elmo, precision).embed(SENTENCES), dim=1)
    least = {"float32": 0.999999, "bfloat16": 0.99, "float16": 0.9999, "int8": 0.99}[precision]
    assert found.dtype == torch.float32
    assert (torch.cosine_similarity(found, expected, dim=2).mean(dim=1) > least).all()
    if precision == "float32":
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    else:
        assert not torch.equal(found, expected)


def test_weights_that_are_kept_in_float16_give_the_vectors_of_the_network(
    elmo: ElmoNetwork,
) -> None:
    """As any float32 product: only the order of adding differs from that of the network."""
    with torch.no_grad():
        for values in elmo.bilm.parameters():
            values.copy_(values.half())
    expected = torch.cat(elmo.embed(SENTENCES), dim=1)
    encoder = Encoder.of(elmo)

    assert encoder.precision == "float32"
    assert ("float16" in encoder.kernel) == packs(torch.float16)
    found = torch.cat(encoder.embed(SENTENCES), dim=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_the_network_is_not_changed(elmo: ElmoNetwork) -> None:
    before = {name: value.clone() for name, value in elmo.state_dict().items()}
    expected = elmo.embed(SHORT)
    elmo.train()
    Encoder.of(elmo, "bfloat16").embed(SHORT)
    assert elmo.training and all(parameter.requires_grad for parameter in elmo.parameters())
    for name, value in elmo.state_dict().items():
        assert torch.equal(value, before[name])
    elmo.eval()
    for found, layers in zip(elmo.embed(SHORT), expected, strict=True):
        assert torch.equal(found, layers)


def test_the_encoder_stays_as_it_is_when_its_network_changes_type(elmo: ElmoNetwork) -> None:
    encoder = Encoder.of(elmo)
    expected = encoder.embed(SHORT)
    elmo.double()
    del elmo
    encoder.word_cache.clear()
    for found, layers in zip(encoder.embed(SHORT), expected, strict=True):
        torch.testing.assert_close(found, layers, rtol=0, atol=5e-6)


def test_the_token_embedder_is_not_in_memory_twice(elmo: ElmoNetwork) -> None:
    encoder = Encoder.of(elmo)
    vectors = encoder.words.compute(["word"])
    with torch.no_grad():
        elmo.get_parameter("token_embedder.char_cnn.characters").mul_(2.0)
    assert not torch.allclose(encoder.words.compute(["word"]), vectors, atol=1e-4)


@pytest.mark.parametrize("call", ["embed", "encode", "encode_whole", "encode_from"])
def test_a_text_is_refused_in_place_of_tokens(elmo: ElmoNetwork, call: str) -> None:
    encode = getattr(Encoder.of(elmo), call)
    with pytest.raises(ValueError, match=r"^sentence 0 is the string 'F'; expected a list of its"):
        encode("First sentence .")
    with pytest.raises(
        ValueError, match=r"^sentence 1 is the string 'First sentence \.'; expected"
    ):
        encode([["a"], "First sentence ."])


@pytest.mark.parametrize("precision", EVERY_PRECISION)
def test_boundaries_change_no_bit(elmo: ElmoNetwork, precision: str) -> None:
    encoder = Encoder.of(elmo, precision)
    whole, inside = encoder.encode_whole(SHORT, bounded=True), encoder.encode_whole(SHORT)
    assert whole.bounded and not inside.bounded
    assert inside.layers.shape[1] == sum(map(len, SHORT))
    assert whole.lengths == tuple(len(sentence) + 2 for sentence in SHORT)
    for one, other in zip(inside.sentences(), whole.sentences(), strict=True):
        assert torch.equal(one, other[:, whole.inside])


def test_the_state_is_carried_as_by_the_network(elmo: ElmoNetwork) -> None:
    encoder = Encoder.of(elmo)
    first, second = [["a"] * n for n in (9, 3, 0, 12, 5)], [["b"], ["c", "d"]]
    with torch.inference_mode():
        _, expected = elmo(first)
        whole, expected_after = elmo(second, expected)
    _, state = encoder.encode_from(first)
    found, after = encoder.encode_from(second, state)
    torch.testing.assert_close(state.h, expected.h, rtol=0, atol=1e-5)
    torch.testing.assert_close(state.c, expected.c, rtol=0, atol=1e-5)
    assert after.rows == 5  # rows beyond the second batch keep their state
    torch.testing.assert_close(found.layers, whole.layers, rtol=0, atol=1e-5)
    torch.testing.assert_close(after.c, expected_after.c, rtol=0, atol=1e-5)


def test_empty_sentences_empty_tokens_and_no_sentences(elmo: ElmoNetwork) -> None:
    encoder = Encoder.of(elmo)
    shapes = [tuple(vectors.shape) for vectors in encoder.embed([["a", "b"], [], [""]])]
    assert shapes == [(4, 2, 24), (4, 0, 24), (4, 1, 24)]
    assert encoder.embed([]) == []
    assert encoder.encode_from([])[1].rows == 0
    assert encoder.config == elmo.config and encoder.origin == elmo.origin


def test_words_are_counted_once_a_batch(elmo: ElmoNetwork) -> None:
    encoder = Encoder.of(elmo)
    encoder.embed([["a", "rose", "is", "a", "rose"], ["a", "rose"]])
    assert (encoder.word_cache.hits, encoder.word_cache.misses) == (0, 3)
    encoder.embed([["a", "tulip"]])
    assert (encoder.word_cache.hits, encoder.word_cache.misses) == (1, 4)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "as on a GPU"])
def test_a_callers_autocast_changes_no_bit_inside_and_afterwards(
    elmo: ElmoNetwork, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packed:
        monkeypatch.setattr(linear, "packs", lambda _: False)
    expected = Encoder.of(elmo).embed(SHORT)
    encoder = Encoder.of(elmo)
    with torch.autocast("cpu", torch.bfloat16):
        runs = [encoder.embed(SHORT), Encoder.of(elmo).embed(SHORT)]
    for vectors in (*runs, encoder.embed([*SHORT, ["new"]])[:-1]):
        for one, other in zip(vectors, expected, strict=True):
            assert torch.equal(one, other)


def test_mixes_are_aligned_as_by_the_network(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((8, 8))
    write_pair(tmp_path)
    torch.save(torch.from_numpy(matrix), tmp_path / "align.pth")
    elmo = load(tmp_path)
    vectors = torch.randn(5, 8)
    encoder = Encoder.of(elmo)
    with torch.inference_mode():
        assert torch.equal(encoder.align(vectors[:1]), encoder.align(vectors)[:1])
    torch.testing.assert_close(encoder.align(vectors), vectors @ torch.tensor(matrix).float().T)


def test_an_unknown_precision_is_refused_with_the_known_ones(elmo: ElmoNetwork) -> None:
    with pytest.raises(ValueError, match="'int4', expected one of float32, bfloat16, float16, int"):
        Encoder.of(elmo, "int4")


@pytest.mark.parametrize("cell", [24, 2048])
def test_threads_share_an_encoder(tmp_path: Path, cell: int) -> None:
    """With a small cell one core runs both directions, with a large one each has its own."""
    elmo = load(write_pair(tmp_path, cell=cell, projection=12, layers=2))
    encoder, expected = Encoder.of(elmo, threads=2), elmo.embed(SHORT)
    together = threading.Barrier(4)

    def embed(_: int) -> bool:
        together.wait()
        return all(
            torch.allclose(found, layers, rtol=0, atol=2e-5)
            for _ in range(4)
            for found, layers in zip(encoder.embed(SHORT), expected, strict=True)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(embed, range(4)))
