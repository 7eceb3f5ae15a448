"""The files of the page: what the wheel holds, and the headers they are sent with."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from elmo_serve.http.routes.page import FOLDER, INDEX

ROOT = Path(__file__).parents[4]
PAGE = sorted(path.name for path in FOLDER.iterdir() if path.name != INDEX)
HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("name", PAGE)
def test_every_file_is_sent_as_it_is_with_its_media_type(client: httpx.Client, name: str) -> None:
    response = client.get(f"/page/{name}")

    assert response.status_code == 200
    assert response.content == (FOLDER / name).read_bytes()
    assert (
        response.headers["content-type"].partition(";")[0]
        == {
            "js": "text/javascript",
            "css": "text/css",
            "svg": "image/svg+xml",
        }[name.rpartition(".")[2]]
    )
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
def test_a_client_that_has_a_file_gets_no_second_copy(client: httpx.Client, path: str) -> None:
    first = client.get(path, headers=HTML)
    etag = first.headers["etag"]

    for known in (etag, f'"other", {etag}'):
        again = client.get(path, headers={**HTML, "If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
    other = client.get(path, headers={**HTML, "If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)
    assert first.headers["cache-control"] == "no-cache"


def test_the_page_may_run_its_own_files_and_ask_its_own_server_alone(client: httpx.Client) -> None:
    policy = client.get("/", headers=HTML).headers["content-security-policy"]

    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    for kind in ("script", "style", "img", "connect"):
        assert rules.pop(f"{kind}-src") == "'self'"
    assert rules == {
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for package in ("model/elmo_model", "service/elmo_serve"):
        ignored = shutil.ignore_patterns("__pycache__", "*.safetensors")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)

    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tmp_path, check=True
    )

    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if "/page/static/" in name}
    assert held == {f"elmo_serve/http/page/static/{name}" for name in (INDEX, *PAGE)}
