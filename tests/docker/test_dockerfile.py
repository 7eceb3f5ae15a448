"""The Dockerfile passes hadolint and agrees with the package."""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tomllib
from pathlib import Path

from elmo_serve.settings import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()


def test_hadolint_accepts_it() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run(
        [hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_carries_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert re.findall(r"^ARG VERSION=(.+)$", TEXT, re.MULTILINE) == [project["version"]]


def test_the_image_sets_only_settings_that_exist() -> None:
    variables = {name.lower() for name in re.findall(r"ELMO_(\w+)=", TEXT)}
    assert variables <= Settings.model_fields.keys()


def test_the_server_runs_as_an_unprivileged_user() -> None:
    assert re.findall(r"^(?:ENTRYPOINT|CMD) (.+)$", TEXT, re.MULTILINE) == ['["elmo"]', '["serve"]']
    ((user, group),) = re.findall(r"^USER (\d+):(\d+)$", TEXT, re.MULTILINE)
    assert int(user) >= 10_000
    assert group == "0"  # OpenShift: any user, group 0


def test_no_code_asks_for_the_name_of_the_user() -> None:
    """An arbitrary user id has no entry in /etc/passwd."""
    sources = [*(ROOT / "service").rglob("*.py"), *(ROOT / "model").rglob("*.py")]
    asking = re.compile(r"getpwuid|getpass|getlogin|expanduser")
    assert [str(s) for s in sources if asking.search(s.read_text())] == []


def test_a_release_names_its_base_by_digest() -> None:
    assert re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert "BASE=python@sha256:" in (ROOT / "Makefile").read_text()


def test_secrets_and_weights_reach_neither_git_nor_the_image() -> None:
    private = [".env", "keys.txt", "models/weights.hdf5"]
    command = ["git", "-C", str(ROOT), "check-ignore", "--no-index", *private]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    taken = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}

    assert done.stdout.split() == private
    assert taken == {
        *("constraints.txt", "pyproject.toml", "README.md", "LICENSE"),
        *("model", "service", "client", "docker/healthcheck.py"),
    }


def test_the_modes_of_a_checkout_do_not_reach_the_image() -> None:
    """With umask 077 a checkout is readable for its owner alone, who is not the image's user."""
    last_stage = TEXT[TEXT.rindex("\nFROM ") :]
    copies = re.findall(r"^COPY (.+)$", last_stage, re.MULTILINE)
    assert copies and all("--from=build" in copy or "--chmod=" in copy for copy in copies)
