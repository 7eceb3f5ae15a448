"""The files of a model on a machine: built-in names, paths, and published names."""

from pathlib import Path

import pytest

from elmo_serve.distributed.located import located
from elmo_serve.model_cache import CacheSettings, DownloadError


def no_home() -> CacheSettings:
    raise DownloadError("the user has no home folder")


@pytest.mark.parametrize(
    ("model", "found"), [("English", "english"), ("/models/pt", "/models/pt"), ("./x", "./x")]
)
def test_names_and_paths_need_no_cache(model: str, found: str) -> None:
    assert located(model, no_home) == found


def test_a_published_model_is_looked_for_in_the_cache(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="expected it there as ELMO_OFFLINE is set"):
        located("original", lambda: CacheSettings(tmp_path, offline=True))
