"""On a CPU the vectors of a sentence are the same bits, in any company and with any caches.

The models amplify a difference in the last bit, by recurrent weights that are too large, so that a
product that adds in another order shows.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.linear import has_eight_bits
from elmo_model.inference.precision import PRECISIONS
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from tests.support.checkpoints import write_pair

Sentences = list[list[str]]
Encoders = Callable[[str, str], list[Encoder]]
"""Map a shape and a precision to encoders with full, tiny and no caches."""

# cell, projection, filters: widths that fill no vector register; the width of the projection at
# which oneDNN has another float32 kernel for one row; one core for each direction
SHAPES = {
    "odd": (20, 12, ((1, 4), (2, 4), (3, 9))),
    "wide": (640, 40, ((1, 32), (3, 96), (5, 128))),
    "large": (2048, 16, ((1, 8), (2, 24))),
}
# words and bytes: full, tiny and no caches
CACHES = ((65_536, 1 << 26), (7, 100_000), (0, 0))
NEEDS_8_BITS = pytest.mark.skipif(not has_eight_bits(), reason="no exact 8-bit product here")
EVERY_PRECISION = [
    pytest.param(name, marks=NEEDS_8_BITS if name == "int8" else ()) for name in PRECISIONS
]
WORDS = [f"{'x' * (number % 19)}{number}" for number in range(60)]
COMPANIES = st.lists(
    st.one_of(
        st.lists(st.sampled_from(WORDS), max_size=5),
        st.integers(0, 24).map(lambda length: [WORDS[place % 7] for place in range(length)]),
    ),
    min_size=1,
    max_size=20,
)


def chaotic(folder: Path, shape: str) -> ElmoNetwork:
    """Return a model whose recurrent weights are four times too large."""
    cell, projection, filters = SHAPES[shape]
    elmo = load(write_pair(folder, cell=cell, projection=projection, filters=filters))
    with torch.no_grad():
        for name, values in elmo.named_parameters():
            if name.endswith("recurrent.weight"):
                values.mul_(4.0)
    return elmo


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Encoders:
    @cache
    def build(shape: str, precision: str) -> list[Encoder]:
        elmo = chaotic(tmp_path_factory.mktemp(shape), shape)
        return [
            Encoder.of(
                elmo, precision, token_cache_size=words, gate_cache_bytes=size, threads=threads
            )
            for (words, size), threads in zip(CACHES, (2, 2, 1), strict=True)
        ]

    return build


def assert_same(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", EVERY_PRECISION)
def test_company_and_caches_change_no_bit(encoders: Encoders, shape: str, precision: str) -> None:
    full, tiny, none = encoders(shape, precision)

    @settings(max_examples=3 if shape == "odd" else 1, derandomize=True)
    @given(COMPANIES)
    def holds(sentences: Sentences) -> None:
        alone = [none.embed([sentence])[0] for sentence in sentences]
        for encoder in (full, tiny):
            assert_same(encoder.embed(sentences), alone)
        assert_same(none.embed(sentences[::-1]), alone[::-1])

    holds()


def test_the_model_that_comes_with_the_program_gives_the_same_bits() -> None:
    """Its second layer amplifies a last bit to what a user sees."""
    encoder = Encoder.of(open_model("english"), token_cache_size=20, gate_cache_bytes=500_000)
    sentences = [[WORDS[(row * place) % 50] for place in range(3 * row)] for row in range(12)]
    together = encoder.embed(sentences)
    assert_same(together, [encoder.embed([sentence])[0] for sentence in sentences])


@pytest.mark.parametrize("threads", [1, 2, 3, 6])
def test_words_in_company_have_the_same_bits_with_any_number_of_threads(threads: int) -> None:
    """With three threads 256 rows are no row count of equal bits: 250 words are more than a chunk.

    Few processors show it in a word, so the rows of each product are looked at as well.
    """
    encoder = Encoder.of(open_model("english"), token_cache_size=0, threads=threads)
    rows: set[int] = set()
    cnn = encoder.words._embedder.char_cnn
    assert cnn is not None
    cnn.register_forward_pre_hook(lambda _, inputs: rows.add(len(inputs[0])))
    words = [f"word{number:03}" for number in range(250)]

    assert_same(
        list(encoder.words.compute(words)), [encoder.words.compute([word])[0] for word in words]
    )
    assert rows
    assert rows <= {*encoder.words._counts.counts}
