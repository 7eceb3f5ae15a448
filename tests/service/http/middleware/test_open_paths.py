"""The paths that need no API key, and those that monitoring asks for."""

import json

import httpx
import pytest

from elmo_serve.http.middleware.request_checks import OPEN, PROBES
from tests.support.servers import Running


@pytest.mark.parametrize("path", [*sorted(OPEN), "/docs/swagger-ui.css", "/page/main.js"])
def test_probes_and_documentation_need_no_key(narrow: Running, path: str) -> None:
    assert httpx.get(narrow.url + path).status_code == 200


def test_probes_are_open_and_logged_for_debugging_alone(narrow: Running) -> None:
    assert PROBES < OPEN
    for path in (*PROBES, "/"):
        httpx.get(narrow.url + path)

    narrow.until(lambda: "/" in logged(narrow))
    assert not PROBES & logged(narrow)


def logged(server: Running) -> set[str]:
    """Return the routes of the lines of the access log."""
    lines = map(json.loads, server.log.splitlines())
    return {line["route"] for line in lines if line.get("logger") == "elmo_serve.access"}
