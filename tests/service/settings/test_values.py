"""The list of models: names, paths, and names that the user gives."""

import pytest

from elmo_serve.settings import Settings, SettingsError
from elmo_serve.settings.text import from_strings
from elmo_serve.settings.values import ModelSource, parse, source_of


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("english", "english"),
        ("5.5B", "5.5b"),
        ("/models/mine.safetensors", "mine"),
        ("/models/202.zip", "202"),
        ("/models/srl.tar.gz", "srl"),
        ("/models/my elmo/", "my-elmo"),
        ("/models/mine/options.json", "mine"),
        ("/models/mine/weights.hdf5", "mine"),
        ("/models/seqvec/weights_file", "seqvec"),
        ("/models/elmo_options.json", "elmo_options"),
        ("zhs.model", "zhs.model"),
        ("folder", "folder"),
    ],
)
def test_a_model_has_its_own_name_or_that_of_its_file(source: str, name: str) -> None:
    assert source_of(source) == ModelSource(name, source)


def test_a_list_gives_names_and_keeps_its_order() -> None:
    assert parse("english, original,pt=/data/a=b") == (
        ModelSource("english", "english"),
        ModelSource("original", "original"),
        ModelSource("pt", "/data/a=b"),
    )
    assert parse("./a=b/model.zip") == (ModelSource("model", "./a=b/model.zip"),)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("english,,original", "an entry is empty"),
        ("english,English=/data/x", "two models are called English"),
        ("/a/model.zip,/b/model.zip", "two models are called model; NAME=PATH"),
    ],
)
def test_a_list_that_is_ambiguous_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        from_strings({"models": text})


def test_one_model_is_a_list_of_one() -> None:
    assert from_strings({"model": "small"}).sources == from_strings({"models": "small"}).sources
    assert Settings().sources == (ModelSource("english", "english"),)


def test_model_and_models_exclude_each_other() -> None:
    with pytest.raises(SettingsError) as caught:
        from_strings({"model": "english", "models": "small"}, {"model": "--model"})

    assert str(caught.value) == "--model and ELMO_MODELS are both set: set one of them"


def test_a_precision_is_common_or_for_one_model() -> None:
    settings = from_strings({"models": "english,pt=x", "precision": "bfloat16, PT=int8"})

    assert [settings.precision_of(spec.name) for spec in settings.sources] == ["bfloat16", "int8"]
    only_named = from_strings({"models": "english,pt=x", "precision": "pt=int8"})
    assert only_named.precision_of("english") == "float32"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("float32,int8", "float32 and int8 are both without a name"),
        ("float32,de=int8", "no model is called de"),
        ("pt=int4", "there is no 'int4'; allowed: one of float32"),
    ],
)
def test_a_precision_that_is_for_no_model_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=f"ELMO_PRECISION='{text}' is not allowed: {reason}"):
        from_strings({"models": "english,pt=x", "precision": text})
