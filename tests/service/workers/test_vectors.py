"""Sentences with different outputs share a batch, and each gets the vectors it asks for."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.network.scalar_mix import layer_norm
from elmo_model.network.state import Representations
from elmo_serve.selection import Output, Pooling
from elmo_serve.workers.vectors import segments, select, vectors_of
from tests.support.checkpoints import write_pair
from tests.support.reference import scalar_mix

SENTENCES = [["one", "two", "three"], [], ["four"]]
WEIGHTS = (0.5, -1.0, 2.0)


@dataclass
class EndedRun:
    """A run that has ended."""

    representations: Representations

    def advance(self, stop: Callable[[], bool]) -> bool:
        return True

    def drop(self, sentences: Iterable[int]) -> None:
        assert not list(sentences)


class FixedLayers:
    """A network whose layers of a sentence have the same bits in every batch.

    The kernels of a real one differ with the processor and the shape of the batch, and layer norm
    enlarges that.
    """

    def align(self, vectors: Tensor) -> Tensor:
        return vectors

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        bounded: bool = False,
        layers: Tensor | None = None,
    ) -> EndedRun:
        found = [self._layers(sentence) for sentence in sentences]
        if not bounded:
            found = [each[:, 1:-1] for each in found]
        lengths = tuple(each.shape[1] for each in found)
        return EndedRun(Representations(torch.cat(found, dim=1), lengths, bounded))

    def _layers(self, sentence: Sequence[str]) -> Tensor:
        seed = zlib.crc32(" ".join(sentence).encode())
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(3, len(sentence) + 2, 8, generator=generator)


NOT_ALIGNED = cast(Encoder, FixedLayers())


def test_sentences_with_and_without_layer_norm_keep_their_order() -> None:
    network = NOT_ALIGNED
    sentences = [["one"], ["two", "three"], [], ["four"] * 5, ["five"]]
    wanted = [
        Output(layers=(0, 1, 2), stacked=True),
        Output(weights=WEIGHTS, layer_norm=True),
        Output(weights=WEIGHTS, layer_norm=True),
        Output(layers=(2,)),
        Output(weights=WEIGHTS, pooling="max"),
    ]
    expected = select(network, network.encode(sentences, bounded=True).representations, wanted)
    found = vectors_of(network, sentences, wanted)

    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)  # a mix is a product, whose shape may differ


def test_all_layers_are_normalised_over_the_sentence_with_its_boundaries() -> None:
    network = NOT_ALIGNED
    wanted = [Output(layers=(0, 1, 2), stacked=True, layer_norm=True), Output(layers=(1,))] * 2
    bounded = network.encode([SENTENCES[0]], bounded=True).representations
    expected = layer_norm(bounded.layers)[:, 1:-1]
    found = vectors_of(network, [SENTENCES[0], *SENTENCES], wanted)

    assert torch.equal(found[0], expected)
    assert (found[1] - expected[1]).abs().max() > 0.01  # the plain layer differs


def test_mixes_of_an_aligned_model_are_aligned_and_single_layers_are_not(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((8, 8))
    write_pair(tmp_path)
    torch.save(torch.from_numpy(matrix), tmp_path / "align.pth")
    encoder = Encoder.of(load(tmp_path))
    wanted = [Output(weights=WEIGHTS), Output(layers=(1,)), Output(layers=(2,))]

    with torch.inference_mode():
        found = encoder.encode_whole([["a", "b"]] * 3)
        mixed, first, second = (vectors.numpy() for vectors in select(encoder, found, wanted))
        layers = found.sentences()[0].numpy()

    expected = scalar_mix(layers, WEIGHTS, 1.0) @ matrix.T
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(first, layers[1])
    np.testing.assert_array_equal(second, layers[2])


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_sentences_pooled_at_once_are_those_pooled_alone(pooling: Pooling) -> None:
    lengths = [4, 0, 1, 9]
    rows = -torch.rand(sum(lengths), 3, 5, generator=torch.Generator().manual_seed(1))
    found = segments(rows, lengths, pooling)
    for own, part in zip(found, torch.split(rows, lengths), strict=True):
        if len(part):
            torch.testing.assert_close(own, part.mean(0) if pooling == "mean" else part.amax(0))
        else:
            assert not own.any()
