"""Vectors computed in this process: windows that keep the order, state that is carried."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import h5py
import numpy as np
import pytest
import torch

from elmo_serve.files.inputs import FileError
from elmo_serve.files.vectors import LengthSorted, Tokens, Vectors
from elmo_serve.models.in_process import InProcess
from elmo_serve.selection import Output
from elmo_serve.workers.messages import ModelInfo
from tests.support import golden
from tests.support.embedding_runs import done


class Lengths:
    """A network whose vectors are the number that the first token spells."""

    info = ModelInfo("lengths", "1", "none", 1, 2, 0, "float32")
    batch_tokens = 6

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def embed(self, sentences: Sequence[Tokens], output: Output) -> list[Vectors]:
        self.batches.append([len(each) for each in sentences])
        return [np.full((len(each), 2), float(each[0]), np.float32) for each in sentences]


def test_windows_keep_the_order_of_the_file() -> None:
    network = Lengths()
    sentences = [[str(number)] * (1 + number % 4) for number in range(200)]
    counted: list[int] = []

    source = LengthSorted(cast("InProcess", network), Output(layers=(0,)))
    groups = list(source.groups(sentences, counted.append))

    arrays = [array for group in groups for array in group]
    assert [(array[0, 0], len(array)) for array in arrays] == [
        (number, len(tokens)) for number, tokens in enumerate(sentences)
    ]
    assert len(groups) > 1
    assert sum(counted) == sum(map(len, sentences))
    assert all(sum(n + 2 for n in batch) <= 6 or len(batch) == 1 for batch in network.batches)


@pytest.mark.parametrize("precision", ["", "_f64"])
@pytest.mark.parametrize("rows", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_carried_state_gives_the_vectors_of_the_original_programs(
    tmp_path: Path, rows: tuple[int, ...], precision: str
) -> None:
    # Row r of a batch goes on where row r of the batch before ended, whatever stands in other rows:
    # a batch of one is bilm-tf's, one of several AllenNLP's.
    expected = golden.arrays(f"stateful{precision}")
    members = [[members[row] for row in rows] for _, members, _ in golden.batches()]
    every = golden.sentences()
    source, output = tmp_path / "in.txt", tmp_path / "out.hdf5"
    lines = [" ".join(every[member]) for batch in members for member in batch]
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    flags = ("--all", "--keep-blank-lines", "--carry-state", "--batch-size", len(rows))
    done(source, output, *flags)

    with h5py.File(output) as file:
        for number, (batch, member) in enumerate(
            (batch, member) for batch, found in enumerate(members) for member in found
        ):
            answer = expected[f"b{batch}_s{member}_full"][:, 1:-1]
            np.testing.assert_allclose(file[str(number)][()], answer, rtol=0, atol=5e-5)


class Wide(Lengths):
    """The original's width, and the batch of a CPU."""

    info = ModelInfo("lengths", "1", "none", 3, 1024, 0, "float32")
    batch_tokens = 3_328

    def embed(self, sentences: Sequence[Tokens], output: Output) -> list[Vectors]:
        self.batches.append([len(each) for each in sentences])
        return [np.zeros(0)] * len(sentences)


@pytest.mark.parametrize(
    ("tokens", "rows"), [(24, 100), (100, 100), (365, 90), (3_000, 14), (20_000, 2), (60_000, 1)]
)
def test_a_batch_of_long_sentences_has_as_many_rows_as_memory_allows(
    tokens: int, rows: int
) -> None:
    """At most 512 MiB of layers, but for one sentence: few rows have all weights read for each."""
    network = Wide()
    pooled = Output(layers=(0,), pooling="mean")

    list(
        LengthSorted(cast("InProcess", network), pooled).groups(
            [["x"] * tokens] * 400, lambda _: None
        )
    )

    largest = max(map(len, network.batches))
    assert largest >= rows
    assert largest == 1 or largest * tokens * 3 * 1024 * 4 <= 512 * 1024**2
    assert sum(map(len, network.batches)) == 400


class Short(Lengths):
    """A device without memory for more than `most` sentences."""

    batch_tokens = 1_000

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def embed(self, sentences: Sequence[Tokens], output: Output) -> list[Vectors]:
        if len(sentences) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().embed(sentences, output)


def test_a_batch_without_memory_is_halved_once_and_then_one_line() -> None:
    sentences = [[str(number)] for number in range(8)]

    source = LengthSorted(cast("InProcess", Short(4)), Output(layers=(0,)))
    assert [array[0, 0] for array in source.embed(sentences)] == list(range(8))

    short = LengthSorted(cast("InProcess", Short(3)), Output(layers=(0,)))
    with pytest.raises(FileError, match="not enough memory"):
        short.embed(sentences)
