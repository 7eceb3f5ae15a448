"""What the installed distributions need."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


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
