"""Servers that many tests share: started once, never changed but for the tasks of their folder."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import ssl
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import hypothesis
import pytest

from tests.support import fork_server
from tests.support.browser import Page, browser
from tests.support.scripted_server import ScriptedServer, scripted_server
from tests.support.servers import SMALL, Running, running

if TYPE_CHECKING:
    from elmo_model.network.elmo import ElmoNetwork

KEY = "open-sesame"


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the environment that every server and command of the tests inherits.

    No ignored signal is passed on: `nohup` ignores SIGHUP, and a shell's `&` SIGINT. Children
    inherit what is ignored, and get the default of what has a handler.

    OpenMP's threads sleep while they wait. By default they spin, each on a core that another server
    of the tests could use: a start took half as long again. The small networks of the tests are
    slower with two threads than with one; a worker sets its own number.

    A client of HTTP reads the certificates of the machine, which takes 30 ms of processor time: the
    clients of a process share them.

    On a busy machine drawing examples takes longer than Hypothesis allows by default, and a
    response may take longer than the 5 s after which httpx gives it up.
    """
    usual = inspect.signature(httpx.get).parameters["timeout"].default  # of all its functions
    usual.connect = usual.read = usual.write = usual.pool = 300.0
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("busy", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("busy")
    setattr(ssl, "create_default_context", cache(ssl.create_default_context))  # noqa: B010
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    if config.getoption("dist", "no") != "no":
        fork_server.address()  # one for all test processes


def pytest_collection_finish() -> None:
    """Leave modules and tests out of every later garbage collection, which took half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The golden model with a folder of tasks, and every limit as it comes.

    Its cache is that of all test processes, so that one of them embeds the text of the program.
    """
    folder = tmp_path_factory.mktemp("server")
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with running(
        folder,
        model=SMALL,
        tasks=folder / "tasks",
        cache=cache,
        log_level="debug",
        max_sentence_tokens=1_000,
    ) as server:
        yield server


@pytest.fixture(scope="session")
def elmo() -> ElmoNetwork:
    """The network that the servers run, in this process."""
    from elmo_model.checkpoints import load  # noqa: PLC0415 - most tests need no network

    return load(SMALL)


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    """A server whose vectors spell the first token, which must be a number."""
    with scripted_server() as found:
        yield found


@pytest.fixture(scope="session")
def searched(server: Running) -> Running:
    """The same server, once it can answer POST /neighbours."""
    server.until_embedded()
    return server


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Run small tensor operations in one thread: on a busy machine two wait for each other."""
    import torch  # noqa: PLC0415 - most tests need no network

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests; each of them opens a page."""
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="session")
def client(server: Running) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same model behind small limits and an API key; its default task folder cannot be made."""
    with running(
        tmp_path_factory.mktemp("narrow"),
        model=SMALL,
        host="0.0.0.0",
        max_body_bytes=1_000,
        max_request_sentences=3,
        max_sentence_tokens=4,
        max_batch_tokens=6,
        max_queue_tokens=16,
        max_answer_bytes=4_000,
        request_timeout_seconds=300,
        drain_timeout_seconds=7.5,
        max_connections=20,
        workers_per_device=2,
        api_keys=f"other,{KEY}",
        log_format="json",
        data_home=Path("/dev/null"),
    ) as server:
        yield server


@pytest.fixture(scope="session")
def narrow_client(narrow: Running) -> Iterator[httpx.Client]:
    with narrow.client(headers={"Authorization": f"Bearer {KEY}"}) as client:
        yield client


@pytest.fixture(scope="session")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that takes seconds for a request of thousands: every sentence is a batch."""
    folder = tmp_path_factory.mktemp("slow")
    with running(
        folder, model=SMALL, max_sentence_tokens=1, max_batch_tokens=3, tasks=folder / "tasks"
    ) as server:
        yield server


@pytest.fixture
def tasks(server: Running) -> Path:
    """The folder of the shared server's tasks, emptied."""
    folder = server.log_file.parent / "tasks"
    for file in folder.iterdir():
        file.unlink()
    server.until(lambda: not httpx.get(server.url + "/tasks").json()["tasks"])
    return folder
