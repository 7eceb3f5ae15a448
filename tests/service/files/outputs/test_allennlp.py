"""HDF5 as `allennlp elmo` wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.outputs.allennlp import dataset_adder
from tests.support.embedding_runs import TEXT, done, refused
from tests.support.vectors import close, layers_of


def unit(vectors: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return scaled


@pytest.mark.parametrize(
    ("flags", "of"),
    [
        (["--all"], lambda layers: layers),
        (["--concat"], lambda layers: np.concatenate(layers, axis=1)),
        (["--top", "--normalize"], lambda layers: unit(layers[-1])),
        (["--layer", "0"], lambda layers: layers[0]),
    ],
    ids=["all", "concat", "normalize", "one"],
)
def test_hdf5_is_that_of_allennlp(
    text: Path, tmp_path: Path, elmo: ElmoNetwork, flags: list[str], of: Callable[[Any], Any]
) -> None:
    output = tmp_path / "out.hdf5"

    said = done(text, output, *flags)

    assert said.startswith(f"Wrote {output}: 5 sentences, 15 tokens in ")
    with h5py.File(output) as file:
        assert set(file) == {"0", "1", "2", "3", "4", "sentence_to_index"}
        for number, layers in enumerate(layers_of(elmo, [line.split() for line in TEXT])):
            dataset = file[str(number)]
            close(dataset[()], of(layers))
            assert dataset.chunks is None and not dataset.attrs
        index = file["sentence_to_index"]
        assert index.shape == (1,)
        assert h5py.check_string_dtype(index.dtype).length is None
        assert index[0].isascii()
        # a sentence that repeats keeps its last number
        assert json.loads(index[0]) == {TEXT[0]: "2", TEXT[1]: "1", TEXT[3]: "3", TEXT[4]: "4"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.txt", "out.hdf5"]


def test_options_leave_the_index_out_or_use_sentences_as_keys(
    text: Path, tmp_path: Path, elmo: ElmoNetwork
) -> None:
    numbers, keys = tmp_path / "numbers.hdf5", tmp_path / "keys.hdf5"
    unique = tmp_path / "unique.txt"
    unique.write_text("a b/c\nd\n", encoding="utf-8")

    done(text, numbers, "--top", "--forget-sentences")
    done(unique, keys, "--all", "--use-sentence-keys")

    with h5py.File(numbers) as file:
        assert set(file) == {"0", "1", "2", "3", "4"}
    with h5py.File(keys) as file:
        assert set(file) == {"a b", "d"}
        close(file["a b/c"][()], layers_of(elmo, [["a", "b/c"]])[0])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a", "b", "a"], "line 3, 'a', cannot be a key"),
        (["b/c/d", "b/c"], "line 2, 'b/c', cannot be a key"),
        (["a", "b", "a/b/c"], "line 3, 'a/b/c', cannot be a key"),
        (["a//./b", "a/b"], "line 2, 'a/b', cannot be a key"),
        (["/"], "line 1, '/', cannot be a key"),
        (["and", "and/or"], "line 2, 'and/or', cannot be a key"),
    ],
)
def test_impossible_keys_are_refused_before_anything_is_computed(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    (tmp_path / "in.txt").write_text("\n".join(lines))

    line = refused(tmp_path / "in.txt", tmp_path / "out.h5", "--top", "--use-sentence-keys")

    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("shape", [(3, 8), (0, 8), (3, 2, 8)])
def test_a_numbered_dataset_is_the_one_that_h5py_makes(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    arrays = [np.random.default_rng(n).random(shape).astype(dtype) for n in range(200)]
    arrays[7] = np.asfortranarray(arrays[7])

    with hdf5_writer(tmp_path / "ours") as (file, check):
        add = dataset_adder(file)
        for number, array in enumerate(arrays):
            add(number, array)
            check()
    with hdf5_writer(tmp_path / "theirs") as (file, _):
        for number, array in enumerate(arrays):
            file.create_dataset(str(number), data=array)

    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
