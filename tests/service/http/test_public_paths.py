"""The paths that need no API key, and those that monitoring asks for."""

import httpx
import pytest

from elmo_serve.http.public_paths import OPEN, PROBES
from tests.support.servers import Running


@pytest.mark.parametrize("path", sorted(OPEN))
def test_probes_and_documentation_need_no_key(narrow: Running, path: str) -> None:
    assert httpx.get(narrow.url + path).status_code == 200


def test_probes_are_open_and_logged_for_debugging_alone(narrow: Running) -> None:
    assert PROBES < OPEN
    for path in PROBES:
        httpx.get(narrow.url + path)

    assert not any(f'"route":"{path}"' in narrow.log.replace(" ", "") for path in PROBES)
