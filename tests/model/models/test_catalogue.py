"""Model names: published addresses, the rule of NLPL."""

from pathlib import Path

import pytest

from elmo_model.models import opening, published
from elmo_model.models.catalogue import (
    BUILT_IN,
    CATALOGUE,
    canonical,
    missing,
    path_fault,
    published_model,
    published_models,
    tokenization,
)
from elmo_model.models.published import File
from elmo_model.text.tokenizers import TOKENIZERS


def urls(name: str) -> list[tuple[str, ...]]:
    model = published_model(name)
    assert model is not None
    return [file.urls() for file in model.files]


def test_the_catalogue_has_the_published_addresses() -> None:
    assert {"small", "medium", "original", "5.5b", "pubmed", "portuguese"} <= CATALOGUE.keys()
    original = CATALOGUE["original"].files[1]
    assert original.urls()[0] == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway/"
        "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
    )
    assert original.min_bytes < 374_434_792 < original.max_bytes  # its size in logs of its users
    for model in published_models():
        endings = [file.name.rpartition(".")[2] for file in model.files]
        assert endings[:2] == ["json", "hdf5"] or endings in (["zip"], ["gz"])
        assert len({*endings}) == len(endings)


def test_a_mirror_has_every_model_at_a_place_of_its_own() -> None:
    paths = [
        file.urls("http://mirror/elmo/")
        for model in published_models()
        for file in model.files
        if not file.path.endswith("options262.json")  # shared by the multilingual models
    ]

    assert all(len(each) == 1 for each in paths)
    assert len(set(paths)) == len(paths)
    assert ("http://mirror/elmo/vectors.nlpl.eu/repository/20/209.zip",) in paths


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("english", "english", ("ptb", "en")),
        ("english", "English", ("ptb", "en")),
        ("english", "/runs/english", ("moses", "en")),
        ("model", "/data/english/model.safetensors", ("moses", "en")),
        ("v1.0", "/data/portuguese/v1.0", ("moses", "en")),
        ("elmo_pt_weights", "/cache/portuguese/elmo_pt_weights.hdf5", ("moses", "pt")),
        ("elmo_pt", "/cache/portuguese", ("moses", "pt")),
        ("209", "/cache/nlpl-209/209.zip", ("moses", "en")),
        ("164", "/cache/efml-nl/164.zip", ("moses", "nl")),
        ("seqvec", "/cache/seqvec/seqvec.zip", ("characters", "")),
        ("mine", "/cache/mine", ("moses", "en")),
        ("179", "/cache/efml-zh/179.zip", ("whitespace", "zh")),
        ("options", "/cache/japanese", ("whitespace", "ja")),
    ],
)
def test_a_model_is_known_by_its_name_or_its_folder(
    name: str, path: str, expected: tuple[str, str]
) -> None:
    assert tokenization(path, name) == expected


def test_every_built_in_model_is_listed() -> None:
    assert list(BUILT_IN) == list(opening.BUILT_IN)


def test_names_are_found_in_any_case() -> None:
    assert canonical("5.5B") == "5.5b"
    assert canonical("English") == "english"
    assert canonical("./english") == "./english"
    assert published_model("ORIGINAL") is CATALOGUE["original"]
    assert published_model("english") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("/models/english", "`elmo models` lists"), ("5.5B", "`elmo download 5.5b` fetches it")],
)
def test_a_missing_path_is_explained(name: str, expected: str) -> None:
    assert missing(name).startswith(f"{name}: does not exist, expected a checkpoint")
    assert expected in missing(name)


def test_a_path_exists_or_has_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    too_long = str(tmp_path / ("x" * 300))

    (tmp_path / "empty").mkdir()
    assert path_fault(str(tmp_path)) is None
    assert path_fault(f"{tmp_path}/empty") == (
        f"{tmp_path}/empty: is an empty folder, expected a checkpoint"
    )
    for name in ("nowhere", "file/inner", "a\0b"):
        assert path_fault(str(tmp_path / name)) == missing(str(tmp_path / name))
    assert path_fault(too_long) == f"{too_long}: cannot be read: File name too long"


def test_every_tokenizer_of_the_catalogue_exists() -> None:
    assert {tokenization(name)[0] for name in (*CATALOGUE, *BUILT_IN)} <= set(TOKENIZERS)


def test_own_addresses_replace_the_bucket_and_a_mirror_replaces_them() -> None:
    file = File("b.org/m.tar.gz", 1, 2, ("http://b.org/m.tar.gz", "http://c.org/m"))

    assert file.urls() == ("http://b.org/m.tar.gz", "http://c.org/m")
    assert file.urls("http://here") == ("http://here/b.org/m.tar.gz",)
    assert file.is_archive


@pytest.mark.parametrize(
    ("name", "known_as", "url", "language"),
    [
        ("nlpl:209", "nlpl:209", "20/209.zip", "en"),
        ("NLPL:20/209", "nlpl:209", "20/209.zip", "en"),
        ("nlpl:217", "nlpl:217", "20/217.zip", "no"),
        ("nlpl:12345", "nlpl:12345", "20/12345.zip", "en"),
        ("nlpl:11/144", "efml:en", "11/144.zip", "en"),
        ("nlpl:11/900", "nlpl:11/900", "11/900.zip", "en"),
        ("efml:nl", "efml:nl", "11/164.zip", "nl"),
        ("EFML:ZH", "efml:zh", "11/179.zip", "zh"),
        ("efml-nl", "efml:nl", "11/164.zip", "nl"),
        ("nlpl-11-900", "nlpl:11/900", "11/900.zip", "en"),
    ],
)
def test_a_name_gives_the_address(name: str, known_as: str, url: str, language: str) -> None:
    model = published_model(name)

    assert model is not None
    assert (model.name, model.language, model.licence) == (known_as, language, "CC BY 4.0")
    assert model.files[0].urls() == (f"http://vectors.nlpl.eu/repository/{url}",)
    assert canonical(name) == known_as


@pytest.mark.parametrize("name", ["nlpl", "nlpl:", "nlpl:x", "nlpl:12/3", "nlpl:0", "efml:xx"])
def test_other_names_are_no_models(name: str) -> None:
    assert published_model(name) is None
    assert canonical(name) == name


def test_the_languages_have_the_numbers_of_the_repository() -> None:
    assert len(published.LANGUAGES) == len(set(published.LANGUAGES)) == 44
    numbers = {model.name: model.files[0].name for model in published.nlpl_models()}
    assert (numbers["efml:ar"], numbers["efml:grc"], numbers["efml:vi"]) == (
        "136.zip",
        "153.zip",
        "178.zip",
    )
    assert len(numbers) == 44 + len(published.NLPL_TEXTS)


def test_names_of_folders_are_plain() -> None:
    folders = [model.folder for model in published.nlpl_models()]

    assert len(set(folders)) == len(folders)
    assert all("/" not in each and ":" not in each for each in folders)
    for model in published.nlpl_models():
        assert published_model(model.folder) == model
