"""constraints.txt pins everything that the two commands and the image install."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLIENT = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())
LINES = [
    line
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line[:1] not in ("", "#")
]
PINS = {canonicalize_name(name): version for name, version in (x.split("==") for x in LINES)}

REQUIREMENTS = [
    *(text for text in PROJECT["project"]["dependencies"] if text != "elmo-client"),  # of this tree
    *CLIENT["project"]["dependencies"],
    *PROJECT["dependency-groups"]["clients"],
    *(text for text in PROJECT["dependency-groups"]["dev"] if isinstance(text, str)),
]


def closure(requirements: Iterable[str]) -> set[str]:
    """Return the names of what these requirements bring along, themselves included.

    What torch's CUDA build brings is left out: it pins its libraries itself.
    """
    seen: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or name.startswith(("nvidia-", "cuda-", "triton")):
            continue
        seen.add(name)
        for each in map(Requirement, requires(name) or ()):
            extras = ("", *requirement.extras)
            if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(each)
    return seen


def test_each_line_is_one_exact_version_in_alphabetical_order() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line) for line in LINES)
    assert list(PINS) == sorted(PINS)
    assert len(PINS) == len(LINES)


def test_everything_installed_is_pinned() -> None:
    assert closure(REQUIREMENTS) - PINS.keys() == set()


def test_what_builds_the_package_is_pinned() -> None:
    wanted = {canonicalize_name(Requirement(r).name) for r in PROJECT["build-system"]["requires"]}
    assert {"pip", "editables", *wanted} - PINS.keys() == set()


def test_pins_agree_with_what_the_project_asks_for() -> None:
    for text in REQUIREMENTS:
        requirement = Requirement(text)
        assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)]), text
