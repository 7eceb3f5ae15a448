"""The place of the cache folder, and the address of the models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elmo_serve.model_cache import CacheSettings, cache_settings, default_cache
from elmo_serve.settings_text import from_strings


@pytest.mark.parametrize("is_absolute", [True, False])
def test_the_default_follows_the_xdg_specification(tmp_path: Path, is_absolute: bool) -> None:
    code = "from elmo_serve.model_cache import default_cache; print(default_cache())"
    environment = {
        "HOME": "/home/x",
        "XDG_CACHE_HOME": str(tmp_path) if is_absolute else "relative",
        "PYTHONPATH": ":".join(sys.path),
    }

    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True
    )

    expected = tmp_path / "elmo-serve" if is_absolute else Path("/home/x/.cache/elmo-serve")
    assert Path(run.stdout.strip()) == expected
    assert default_cache().name == "elmo-serve"


def test_the_settings_of_a_server_are_taken_over(tmp_path: Path) -> None:
    settings = from_strings(
        {"cache": str(tmp_path), "mirror": "http://mirror/below", "offline": "true"}
    )

    assert cache_settings(settings) == CacheSettings(tmp_path, "http://mirror/below", True)
