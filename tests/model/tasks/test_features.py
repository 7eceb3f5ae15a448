"""The vectors at the places of examples."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.network.scalar_mix import layer_norm, mix, normalise
from elmo_model.tasks.examples import Examples
from elmo_model.tasks.features import Features, encode_by, features_of
from tests.support import golden
from tests.support.made_up import WIDTH, encode, layers_of


@pytest.mark.parametrize("normed", [False, True])
def test_features_are_those_of_the_service(normed: bool) -> None:
    """Layer norm counts the boundary tokens, and an empty sentence has zeros."""
    examples = Examples.of_sentences([(["a1", "b2"], "x"), ([], "y"), (["c3"] * 9, "x")])
    weights, gamma = (0.3, -1.0, 0.5), 1.7
    encoder = Encoder.of(load(golden.SMALL))

    with features_of(encode_by(encoder, layer_norm=normed), examples, memory_bytes=0) as found:
        rows = mix(found.rows(np.arange(3)), normalise(weights), gamma)
        assert isinstance(found.vectors, np.memmap)
    for sentence, row in zip(examples.sentences, rows, strict=True):
        (layers,) = encoder.encode_whole([sentence], bounded=True).sentences()
        layers = layer_norm(layers) if normed else layers
        mixed = mix(layers, normalise(weights), gamma)[1:-1]
        expected = mixed.mean(dim=0) if len(sentence) else torch.zeros(mixed.shape[1])
        torch.testing.assert_close(row, expected, rtol=0, atol=1e-5)


def test_every_token_has_its_vectors_in_any_order_of_sentences() -> None:
    examples = Examples.of_tokens([(["a1", "b2"], ["x", "y"]), ([], []), (["c3"], ["x"])])

    with features_of(encode, examples) as found:
        expected = torch.cat([layers_of(each) for each in examples.sentences], dim=1)
        assert torch.equal(found.rows(slice(None)), expected)
        part = found.take([2, 0])
        assert part.examples.labels == (("x",), ("x", "y")) and list(part.numbers) == [2, 0]
        assert torch.equal(part.rows(slice(None)), expected[:, [2, 0, 1]])
        assert (len(part), part.layers, part.dimension) == (3, 3, WIDTH)


def test_progress_counts_tokens_up_to_their_number() -> None:
    examples = Examples.of_sentences([(["a"] * 700, str(n)) for n in range(7)])
    told: list[tuple[int, int]] = []

    with features_of(encode, examples, on_tokens=lambda *found: told.append(found)):
        pass

    assert told == [(2_100, 4_900), (4_200, 4_900), (4_900, 4_900)]


def test_the_temporary_file_is_deleted_and_little_stays_in_memory() -> None:
    examples = Examples.of_sentences([(["a1"], "x"), (["b2"], "y")])

    with features_of(encode, examples, memory_bytes=0) as found:
        assert isinstance(found.vectors, np.memmap)
        path = Path(str(found.vectors.filename))
        assert path.exists()
    assert not path.exists()
    with features_of(encode, examples) as found:
        assert not isinstance(found.vectors, np.memmap)


def test_a_mixture_is_the_weighted_sum_of_the_layers() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 3, 2)).astype(np.float32)
    features = Features(Examples.of_sentences([(["a"], "x")] * 3), vectors)

    mixed = features.mixed((0.5, 2.0, -1.0))

    expected = 0.5 * vectors[:, 0] + 2 * vectors[:, 1] - vectors[:, 2]
    found = mixed.take([2, 0]).rows(slice(None))
    np.testing.assert_allclose(found[0], expected[[2, 0]], rtol=0, atol=1e-5)
    assert (len(mixed), mixed.layers, mixed.dimension) == (3, 1, 2)
    np.testing.assert_array_equal(features.mixed((0, 0, 1)).rows(slice(0, 1))[0], vectors[:1, 2])


def test_a_mixture_takes_no_memory_of_the_size_of_its_vectors() -> None:
    """Neither of vectors in a file nor of those in shared memory."""
    examples = Examples.of_sentences([(["a"], "x")] * 50_000)
    features = Features(examples, np.zeros((50_000, 3, 8), np.float32)).mixed((0.5, 0.25, 0.25))

    tracemalloc.start()
    try:
        features.rows(np.arange(512))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < features.vectors.nbytes / 20
