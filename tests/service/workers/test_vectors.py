"""The law of a selection: the vectors of every output, also of sentences that share a batch."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.network.scalar_mix import layer_norm
from elmo_model.network.state import Representations
from elmo_serve.mix import Mix
from elmo_serve.selection import NAMED, Output, Pooling, mixture, select
from elmo_serve.workers import vectors
from elmo_serve.workers.vectors import segments, vectors_of
from tests.support.checkpoints import write_pair
from tests.support.reference import scalar_mix
from tests.support.vectors import difference, selected

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


MIX = {"weights": WEIGHTS, "gamma": 1.5}
SELECTIONS: list[dict[str, Any]] = [
    *({"layers": name} for name in NAMED),
    *({"layers": layers} for layers in (0, 2, [1], [2, 0], [1, 1])),
    *({"mix": {**MIX, "layer_norm": layer_norm}} for layer_norm in (False, True)),
]
POOLINGS: tuple[Pooling, ...] = ("none", "mean", "max")
OPTIONS = [
    {**selection, "pooling": pooling, "normalize": normalize}
    for selection in SELECTIONS
    for pooling in POOLINGS
    for normalize in (False, True)
]


def output_of(options: dict[str, Any]) -> Output:
    """Return the output that the fields of a request mean for three layers."""
    if "mix" in options:
        output = mixture(Mix(**options["mix"]), 3)
        return replace(output, pooling=options["pooling"], normalize=options["normalize"])
    return select(options["layers"], 3, pooling=options["pooling"], normalize=options["normalize"])


def test_every_output_is_made_of_the_layers_of_its_sentence() -> None:
    """All in one batch: those with layer norm are computed apart, with their boundaries."""
    asked = [(sentence, options) for options in OPTIONS for sentence in SENTENCES]
    sentences = [sentence for sentence, _ in asked]

    found = vectors_of(NOT_ALIGNED, sentences, [output_of(options) for _, options in asked])

    layers = NOT_ALIGNED.encode(SENTENCES, bounded=True).representations.sentences()
    of = {" ".join(sentence): own.numpy() for sentence, own in zip(SENTENCES, layers, strict=True)}
    for (sentence, options), own in zip(asked, found, strict=True):
        expected = selected(of[" ".join(sentence)], options)
        assert difference(own.numpy(), expected) <= 1, (sentence, options)
        assert output_of(options).shape(len(sentence), 8) == expected.shape


def test_all_layers_are_normalised_over_the_sentence_with_its_boundaries() -> None:
    network = NOT_ALIGNED
    wanted = [Output(layers=(0, 1, 2), stacked=True, layer_norm=True), Output(layers=(1,))] * 2
    bounded = network.encode([SENTENCES[0]], bounded=True).representations
    expected = layer_norm(bounded.layers)[:, 1:-1]
    found = vectors_of(network, [SENTENCES[0], *SENTENCES], wanted)

    assert torch.equal(found[0], expected)


def test_mixes_of_an_aligned_model_are_aligned_and_single_layers_are_not(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((8, 8))
    write_pair(tmp_path)
    torch.save(torch.from_numpy(matrix), tmp_path / "align.pth")
    encoder = Encoder.of(load(tmp_path))
    wanted = [Output(weights=WEIGHTS), Output(layers=(1,)), Output(layers=(2,))]

    with torch.inference_mode():
        found = encoder.encode_whole([["a", "b"]] * 3)
        mixed, first, second = (own.numpy() for own in vectors.select(encoder, found, wanted))
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
