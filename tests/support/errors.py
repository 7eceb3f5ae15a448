"""The errors of the HTTP API, found by walking their tree."""

from __future__ import annotations

from elmo_serve.errors import ServiceError


def tree(cls: type[ServiceError] = ServiceError) -> list[type[ServiceError]]:
    """Return a class and everything below it, in the order of their definition."""
    return [cls, *(each for child in cls.__subclasses__() for each in tree(child))]


ERRORS = sorted((cls for cls in tree() if not cls.__subclasses__()), key=lambda cls: cls.status)
"""The leaves, in the order of their status. Clients see no other class."""
