"""API keys: which requests need one, where it does not appear, and a file of them that changes."""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from elmo_serve.errors import Unauthorized
from elmo_serve.http.api_keys import OPEN, KeyRing
from elmo_serve.http.checks import PROBES
from elmo_serve.metrics import Metrics
from elmo_serve.settings import Settings
from tests.support.engines import turns
from tests.support.http_messages import http_scope
from tests.support.in_process import InProcess, in_process

KEY = "open-sesame"
NO_KEY = [None, "", "Bearer", f"Bearer {KEY}x", KEY, f"Basic {KEY}", f"Bearer {KEY},other"]


@pytest.fixture
async def serving() -> AsyncIterator[InProcess]:
    async with in_process(api_keys=f"other,{KEY}") as serving:
        yield serving


async def status(serving: InProcess, path: str = "/tasks", **headers: str) -> int:
    sent = [
        (name.replace("_", "-").encode(), value.encode("latin-1"))
        for name, value in headers.items()
    ]
    return (await serving.client.get(path, headers=sent)).status_code


async def test_without_a_key_the_response_is_401(serving: InProcess) -> None:
    for path in ("/info", "/tasks/ner", "/docsx", "/no"):
        for value in NO_KEY:
            headers = {} if value is None else {"Authorization": value}
            answer = await serving.client.get(path, headers=headers)

            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["instance"] == answer.headers["x-request-id"]
            assert KEY not in answer.text
            assert ("another" in answer.json()["detail"]) == (value is not None)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"Authorization": f"Bearer {KEY}"}, 200),
        ({"Authorization": f"BEARER  {KEY}"}, 200),
        ({"Authorization": "bearer other"}, 200),
        ({"X_API_Key": KEY}, 200),
        ({"X_API_Key": "x", "Authorization": f"Bearer {KEY}"}, 200),
        ({"X_API_Key": KEY, "Authorization": "Basic x"}, 200),
        ({"X_API_Key": "x"}, 401),
        ({"X_API_Key": f"Bearer {KEY}"}, 401),
        ({"X_API_Key": "\xff"}, 401),
    ],
)
async def test_a_key_is_taken_as_a_bearer_or_beside_a_foreign_authorization(
    serving: InProcess, sent: dict[str, str], expected: int
) -> None:
    assert await status(serving, **sent) == expected


def test_a_wrong_key_takes_the_same_steps_among_few_keys_and_many() -> None:
    """The comparison with each of 20,000 keys held the event loop for 5 ms."""

    def steps(count: int) -> int:
        keys = KeyRing(Settings(api_keys=",".join(map(str, range(count)))), Metrics().failures)
        scope, found = http_scope("/tasks", x_api_key="x"), 0

        def note(*_: object) -> None:
            nonlocal found
            found += 1

        with contextlib.suppress(Unauthorized):
            sys.setprofile(note)
            try:
                keys.check(scope)
            finally:
                sys.setprofile(None)
        return found

    assert steps(1) > 0 and steps(1) == steps(1_000)


async def test_probes_and_the_files_of_the_pages_need_no_key(serving: InProcess) -> None:
    assert PROBES < OPEN
    for path in (*OPEN, "/docs/swagger-ui.css", "/page/main.js"):
        assert await status(serving, path) == 200


async def test_keys_are_not_logged(serving: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "elmo_serve")
    assert await status(serving, Authorization=f"Bearer {KEY}") == 200
    assert await status(serving, Authorization=f"Bearer wrong-{KEY}") == 401
    log = str([vars(record) for record in caplog.records])

    assert "/tasks" in log
    assert KEY not in log


class MountedSecret:
    """A file that is a link into a folder, as Kubernetes mounts a Secret: an update swaps it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys"
        self._folder = folder
        self._number = 0

    def update(self, text: str) -> None:
        self._number += 1
        version = self._folder / str(self._number)
        version.mkdir()
        (version / "keys").write_text(text)
        link = self._folder / "new"
        link.symlink_to(version)
        link.rename(self._folder / "data")
        if not self.path.is_symlink():
            self.path.symlink_to(Path("data") / "keys")


@pytest.fixture
def secret(tmp_path: Path) -> MountedSecret:
    made = MountedSecret(tmp_path)
    made.update("# a comment\nold-key\n")
    return made


async def test_a_changed_file_of_keys_counts_within_a_second(secret: MountedSecret) -> None:
    async with in_process(api_keys=KEY, api_keys_file=str(secret.path)) as serving:
        assert await status(serving, X_API_Key="old-key") == 200
        secret.update("alice: new-key\n")
        while await status(serving, X_API_Key="new-key") == 401:
            await turns(1)

        assert await status(serving, X_API_Key=KEY) == 200
        assert await status(serving, X_API_Key="old-key") == 401


@pytest.mark.parametrize(
    "spoil",
    [
        lambda secret: secret.path.unlink(),
        lambda secret: secret.update(""),
        lambda secret: secret.update("good\ns3cret text\n"),
    ],
)
async def test_a_file_of_keys_that_is_missing_or_wrong_leaves_the_former_ones(
    secret: MountedSecret,
    spoil: Callable[[MountedSecret], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with in_process(api_keys_file=str(secret.path)) as serving:
        keys, failures = serving.server.keys, serving.server.metrics.failures.labels("api_keys")
        keys.close()  # the test looks by itself
        spoil(secret)
        keys.look()
        keys.look()

        assert await status(serving, X_API_Key="old-key") == 200
        assert await status(serving, X_API_Key="good") == 401
        assert len([r for r in caplog.records if "ELMO_API_KEYS_FILE" in r.getMessage()]) == 1
        assert "s3cret" not in caplog.text
        assert failures._value.get() == 1  # prometheus_client has no public reader

        secret.update("mended\n")
        keys.look()
        assert await status(serving, X_API_Key="mended") == 200
        assert failures._value.get() == 1
