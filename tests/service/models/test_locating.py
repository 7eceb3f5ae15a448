"""The files of a model on a machine: built-in names, paths, and published names."""

from pathlib import Path

import pytest

from elmo_serve.models.cache import CacheSettings, DownloadError
from elmo_serve.models.fetching import locate


def no_home() -> CacheSettings:
    raise DownloadError("the user has no home folder")


@pytest.mark.parametrize(
    ("model", "found"),
    [("English", "english"), ("/models/original", "/models/original"), ("./small", "./small")],
)
def test_names_and_paths_need_no_cache(model: str, found: str) -> None:
    assert locate(model, no_home) == found


@pytest.mark.parametrize("name", ["original", "Original", "5.5B"])
def test_a_published_model_in_any_case_is_looked_for_in_the_cache(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(DownloadError, match=f"{tmp_path}/{name.lower()}/.*ELMO_OFFLINE is set"):
        locate(name, lambda: CacheSettings(tmp_path, offline=True))
