"""The identity of a run names every option that decides what its files hold."""

from dataclasses import fields, replace
from typing import Any, Final

import pytest

from elmo_serve.files.options import EmbedOptions
from tests.support.workers import INFO

RUN: Final = EmbedOptions("all", "allennlp", input="a.fasta", output="v.h5", model="m")

OTHERS: Final[dict[str, Any]] = {
    "layers": "top",
    "output_format": "npz",
    "normalize": True,
    "input_format": "plain",
    "column": 2,
    "tokenizer": "ptb",
    "keep_blank_lines": True,
    "carry_state": True,
    "forget_sentences": True,
    "use_sentence_keys": True,
    "part_sentences": 5,
    "pooling": "mean",
}
MAY_DIFFER: Final = {
    # The revision and the precision of the model stand for these.
    *("model", "server", "api_key", "device", "precision"),
    *("input", "output", "force"),  # the digest of the text stands for its path
}


def test_every_option_decides_or_may_differ() -> None:
    named = {field.name for field in fields(EmbedOptions)}
    assert named == OTHERS.keys() | {"batch_size"} | MAY_DIFFER


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_with_another_value_is_another_run(name: str) -> None:
    other = replace(RUN, **{name: OTHERS[name]})

    assert other.identity(INFO) != RUN.identity(INFO)


def test_a_model_and_a_batch_that_carries_state_are_part_of_a_run() -> None:
    carried = replace(RUN, carry_state=True)

    assert carried.identity(INFO) == replace(carried, batch_size=64).identity(INFO)
    assert carried.identity(INFO) != replace(carried, batch_size=3).identity(INFO)
    for info in (replace(INFO, revision="2"), replace(INFO, precision="int8")):
        assert RUN.identity(info) != RUN.identity(INFO)
