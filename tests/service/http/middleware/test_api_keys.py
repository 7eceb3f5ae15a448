"""API keys: which requests need one, and where it does not appear."""

from pathlib import Path

import httpx
import pytest

from tests.conftest import KEY
from tests.support.in_process import in_process
from tests.support.servers import Running


@pytest.mark.parametrize("path", ["/info", "/tasks", "/tasks/ner", "/docsx", "/no"])
@pytest.mark.parametrize(
    "value",
    [None, "", "Bearer", f"Bearer {KEY}x", KEY, f"Basic {KEY}", f"Bearer {KEY},other"],
)
def test_without_a_key_the_response_is_401(narrow: Running, path: str, value: str | None) -> None:
    headers = {} if value is None else {"Authorization": value}

    answer = httpx.get(narrow.url + path, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["instance"] == answer.headers["x-request-id"]
    assert KEY not in answer.text
    assert ("another" in answer.json()["detail"]) == (value is not None)


@pytest.mark.parametrize(
    "value", [f"Bearer {KEY}", f"bearer {KEY}", f"BEARER  {KEY}", "Bearer other"]
)
def test_each_key_is_accepted(narrow: Running, value: str) -> None:
    answer = httpx.get(narrow.url + "/info", headers={"Authorization": value})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"X-API-Key": KEY}, 200),
        ({"X-API-Key": "x", "Authorization": f"Bearer {KEY}"}, 200),
        ({"X-API-Key": KEY, "Authorization": "Basic x"}, 200),
        ({"X-API-Key": "x"}, 401),
        ({"X-API-Key": f"Bearer {KEY}"}, 401),
        ({"X-API-Key": "\xff"}, 401),
    ],
)
def test_a_key_is_taken_from_a_header_of_its_own(
    narrow: Running, sent: dict[str, str], status: int
) -> None:
    """Gateways and dashboards that own `Authorization` have no other place for it."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]

    assert httpx.get(narrow.url + "/info", headers=headers).status_code == status


async def test_keys_of_a_file_are_accepted_and_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text("# two of them\nfrom-a-file\nanother-one\n")
    keys = ("from-a-file", "another-one", "# two of them", "two", "from-a-fil", "x")
    caplog.set_level("DEBUG", "elmo_serve")
    async with in_process(api_keys_file=str(file)) as serving:
        answers = [
            await serving.client.get("/tasks", headers={"Authorization": f"Bearer {key}"})
            for key in keys
        ]
    log = str([vars(record) for record in caplog.records])

    assert [answer.status_code for answer in answers] == [200, 200, 401, 401, 401, 401]
    assert "/tasks" in log
    assert "from-a-file" not in log
    assert "another-one" not in log


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_probes_and_metrics_need_no_key(narrow: Running, path: str) -> None:
    assert httpx.get(narrow.url + path).status_code == 200


def test_a_key_is_asked_for_before_the_body_is_read(narrow: Running) -> None:
    answer = httpx.post(narrow.url + "/embed", content=b"x" * 100_000)

    assert answer.status_code == 401


def test_keys_are_not_logged(narrow: Running, narrow_client: httpx.Client) -> None:
    narrow_client.get("/info")
    httpx.get(narrow.url + "/info", headers={"Authorization": f"Bearer wrong-{KEY}"})

    assert KEY not in narrow.log
