"""Model names: published addresses, look-ups in any case, suggestions for misspellings."""

import pytest

from elmo_model import pretrained
from elmo_model.catalogue import (
    BUILT_IN,
    CATALOGUE,
    PUBLISHED,
    canonical,
    missing,
    published_model,
    tokenization,
)
from elmo_model.tokenizers import TOKENIZERS


def test_the_catalogue_has_the_published_addresses() -> None:
    assert {"small", "medium", "original", "5.5b", "pubmed", "portuguese"} <= CATALOGUE.keys()
    original = CATALOGUE["original"].files[1]
    assert f"{PUBLISHED}/{original.path}" == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway/"
        "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
    )
    assert original.least < 374_434_792 < original.most  # its size in logs of its users
    for model in CATALOGUE.values():
        endings = [file.name.rpartition(".")[2] for file in model.files]
        assert endings[:2] == ["json", "hdf5"] and len({*endings}) == len(endings)


def test_every_built_in_model_is_listed() -> None:
    assert list(BUILT_IN) == list(pretrained.BUILT_IN)


def test_names_are_found_in_any_case() -> None:
    assert canonical("5.5B") == "5.5b"
    assert canonical("English") == "english"
    assert canonical("./english") == "./english"
    assert published_model("ORIGINAL") is CATALOGUE["original"]
    assert published_model("english") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orignal", "does not exist; did you mean original? expected"),
        ("Random_small", "does not exist; did you mean random-small? expected"),
        ("qqqq", "does not exist, expected the path of a checkpoint, or one of english, "),
        ("/models/english", "does not exist, expected a checkpoint"),
        ("english", "opened by elmo_model.pretrained.open_model"),
        ("5.5B", "fetched by `elmo download 5.5b`"),
    ],
)
def test_a_missing_path_is_explained(name: str, expected: str) -> None:
    assert missing(name).startswith(f"{name}: does not exist")
    assert expected in missing(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("english", ("ptb", "en")),
        ("original", ("moses", "en")),
        ("Portuguese", ("moses", "pt")),
        ("multilingual-fr", ("moses", "fr")),
        ("a checkpoint of one's own", ("moses", "en")),
    ],
)
def test_a_model_says_how_its_text_was_split(name: str, expected: tuple[str, str]) -> None:
    assert tokenization(name) == expected


def test_every_tokenizer_of_the_catalogue_exists() -> None:
    assert {tokenization(name)[0] for name in (*CATALOGUE, *BUILT_IN)} <= set(TOKENIZERS)
