"""The identity of a run names every option that decides what its files hold."""

from dataclasses import fields, replace
from typing import Any, Final

import pytest

from elmo_model.word_vectors import WordVectorsInfo
from elmo_serve.files.inputs import Rules
from elmo_serve.files.options import EmbedOptions
from tests.support.gated_worker import INFO

MODEL: Final = replace(INFO, word_vectors=WordVectorsInfo("v.safetensors", "abc", 5, 3))
RUN: Final = EmbedOptions("all", "allennlp", model="m")

OTHERS: Final[dict[str, Any]] = {
    "layers": "top",
    "output_format": "npz",
    "word_vectors": "v.txt",
    "normalize": True,
    "column": 2,
    "tokenizer": "ptb",
    "keep_blank": True,
    "batch_size": 3,
    "forget_sentences": True,
    "use_sentence_keys": True,
    "rules": Rules(upper=True),
    "protein": True,
}
MAY_DIFFER: Final = {
    # The revision and the precision of the model stand beside the identity.
    *("model", "server", "api_key", "device", "precision"),
    "input_format",  # an argument of `identity`, found by the name of the file as well
}


def test_every_option_decides_or_may_differ() -> None:
    assert {field.name for field in fields(EmbedOptions)} == OTHERS.keys() | MAY_DIFFER


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_with_another_value_is_another_run(name: str) -> None:
    other = replace(RUN, **{name: OTHERS[name]})

    assert other.identity(MODEL, "plain") != RUN.identity(MODEL, "plain")
