"""The settings of the model cache, from those of a server or from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_serve.models.checks import DownloadError
from elmo_serve.models.download import (
    CacheSettings,
    cache_folder,
    cache_of_environment,
    cache_settings,
    locate,
    with_cache,
)
from elmo_serve.settings import Settings
from elmo_serve.settings.text import from_strings


@pytest.mark.parametrize(
    ("configured", "expected"),
    [("/x/cache", "/x/cache/elmo-serve"), ("relative", "/home/x/.cache/elmo-serve")],
)
def test_the_default_follows_the_xdg_specification(
    monkeypatch: pytest.MonkeyPatch, configured: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.setenv("XDG_CACHE_HOME", configured)

    assert cache_folder(Settings()) == Path(expected)
    assert with_cache(Settings()).cache == Path(expected)
    assert with_cache(Settings(cache=Path("/own"))).cache == Path("/own")


def test_the_settings_of_a_server_are_taken_over(tmp_path: Path) -> None:
    settings = from_strings(
        {"cache": str(tmp_path), "mirror": "http://mirror/below", "offline": "true"}
    )

    assert cache_settings(settings) == CacheSettings(tmp_path, "http://mirror/below", True)


def test_the_environment_has_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_CACHE", "/shared")
    monkeypatch.setenv("ELMO_MIRROR", "http://mirror")
    monkeypatch.setenv("ELMO_OFFLINE", "1")

    assert cache_of_environment() == CacheSettings(Path("/shared"), "http://mirror", True)


def test_a_user_without_a_home_is_asked_for_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)

    assert with_cache(Settings()).cache is None
    with pytest.raises(DownloadError, match="ELMO_CACHE"):
        cache_settings(Settings())


@pytest.mark.parametrize(
    ("model", "found"),
    [("English", "english"), ("/models/original", "/models/original"), ("./small", "./small")],
)
def test_names_and_paths_need_no_cache(model: str, found: str) -> None:
    def no_home() -> CacheSettings:
        raise DownloadError("the user has no home folder")

    assert locate(model, no_home) == found
