"""sentence_to_index: what a dictionary of all sentences would be as JSON, and what it keeps."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from elmo_serve.files.outputs.sentence_index import SentenceIndex


def made(texts: list[str], folder: Path) -> bytes:
    with closing(SentenceIndex(folder)) as index:
        for text in texts:
            index.add(text)
        return index.json()


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["a"],
        ["a", "a", "a"],
        ["", "naïve 東京 \U0001f408", 'a "quoted" \\ one', "", "\u2028\x85\x00"],
        [f"{number}" for number in np.random.default_rng(1).integers(0, 500, 2_000)],
    ],
    ids=["none", "one", "equal", "odd", "many"],
)
def test_it_is_the_json_of_a_dictionary(tmp_path: Path, texts: list[str]) -> None:
    expected = json.dumps({text: str(number) for number, text in enumerate(texts)})

    assert made(texts, tmp_path).decode() == expected
    assert list(tmp_path.iterdir()) == []


def test_it_keeps_a_few_bytes_of_each_sentence(tmp_path: Path) -> None:
    count = 20_000
    with closing(SentenceIndex(tmp_path)) as index:
        tracemalloc.start()
        for number in range(count):
            index.add(
                f"{number} is a sentence of a hundred characters, so that to keep it would show"
            )
        kept, _ = tracemalloc.get_traced_memory()
        size = len(index.json())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert kept / count < 24
    assert (peak - 1.3 * size) / count < 90  # the JSON once, and what it takes to sort the digests
