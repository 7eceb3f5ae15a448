"""The rule of the NLPL repository: a number, a set and a number, or a language."""

import pytest

from elmo_model.models import nlpl
from elmo_model.models.catalogue import canonical, published_model


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
    assert len(nlpl.LANGUAGES) == len(set(nlpl.LANGUAGES)) == 44
    numbers = {model.name: model.files[0].name for model in nlpl.known()}
    assert (numbers["efml:ar"], numbers["efml:grc"], numbers["efml:vi"]) == (
        "136.zip",
        "153.zip",
        "178.zip",
    )
    assert len(numbers) == 44 + len(nlpl.TEXTS)


def test_names_of_folders_are_plain() -> None:
    folders = [model.folder for model in nlpl.known()]

    assert len(set(folders)) == len(folders)
    assert all("/" not in each and ":" not in each for each in folders)
    for model in nlpl.known():
        assert published_model(model.folder) == model
