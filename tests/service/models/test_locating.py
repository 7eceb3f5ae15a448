"""The files of a model on a machine: built-in names, paths, and published names."""

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
