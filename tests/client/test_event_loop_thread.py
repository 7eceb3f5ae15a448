"""The thread behind a Client: it ends with the client, closed, dropped or forgotten."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from elmo_client import Client, Unreachable
from tests.support.scripted_server import ScriptedServer, after, refuse


@pytest.mark.parametrize("held", [True, False], ids=["in flight", "between two attempts"])
def test_closing_ends_calls_that_wait(scripted: ScriptedServer, held: bool) -> None:
    gate = threading.Event()
    scripted.script = [after(gate) if held else refuse(503, Retry_After="30")]
    client = Client(scripted.url)

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(client.embed, [["1"]])
        scripted.arrived.acquire()
        client.close()
        with pytest.raises(Unreachable, match="closed"):
            call.result()
    gate.set()
    with pytest.raises(Unreachable, match="the client is closed"):
        client.info()
    client.close()


def test_a_client_that_is_dropped_ends_its_thread(scripted: ScriptedServer) -> None:
    before = set(threading.enumerate())
    gc.freeze()  # garbage of earlier tests is not this one's
    client = Client(scripted.url)
    client.embed([["1"]])
    started = set(threading.enumerate()) - before
    gone = weakref.ref(client)

    del client
    gc.collect()

    assert gone() is None
    (thread,) = (each for each in started if each.name == "elmo-client")
    thread.join()


@pytest.mark.parametrize("statement", ["Client(url).info()", "c = Client(url); c.info()"])
def test_a_program_ends_without_closing_its_client(
    scripted: ScriptedServer, statement: str
) -> None:
    program = f"import sys; from elmo_client import Client; url = sys.argv[1]; {statement}"

    run = subprocess.run(
        [sys.executable, "-c", program, scripted.url], capture_output=True, text=True, check=False
    )

    assert (run.returncode, run.stderr) == (0, "")


def test_a_forked_process_is_told_to_create_its_own_client(scripted: ScriptedServer) -> None:
    code = (
        "import os, sys\n"
        "from elmo_client import Client, Unreachable\n"
        "client = Client(sys.argv[1])\n"
        "client.info()\n"
        "if not os.fork():\n"
        "    try:\n"
        "        client.info()\n"
        "        client.embed([['1']])\n"
        "    except Unreachable as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", code, scripted.url], capture_output=True, text=True, check=True
    )

    assert run.stdout == "the client belongs to the parent process; create one in each\n"


AFTER_THE_END = """
import atexit, sys, time
from concurrent.futures import ThreadPoolExecutor
from elmo_client import Client

client = Client(sys.argv[1].replace("127.0.0.1", "localhost"))
if sys.argv[2] == "warm":
    client.info()
pool = ThreadPoolExecutor(4)

def takes_work():
    try:
        return pool.submit(int)
    except RuntimeError:
        return None

def job(number):
    while takes_work():
        time.sleep(0.01)
    found = int(client.embed([[str(number)]])[0][0, 0, 0])
    sys.stdout.write(f"{found} ")  # one write: lines of threads may mix

for number in range(20):
    if sys.argv[2] == "atexit":
        atexit.register(job, number)
    else:
        pool.submit(job, number)
"""


@pytest.mark.parametrize("state", ["cold", "warm", "atexit"])
def test_threads_ask_after_the_end_of_the_main_thread(scripted: ScriptedServer, state: str) -> None:
    """Python's executors take no work then; `localhost` is a name that has to be resolved."""
    run = subprocess.run(
        [sys.executable, "-c", AFTER_THE_END, scripted.url, state],
        capture_output=True,
        text=True,
        check=True,
    )

    assert sorted(map(int, run.stdout.split())) == [*range(20)], run.stderr


def test_a_client_is_not_pickled(scripted: ScriptedServer) -> None:
    with Client(scripted.url) as client, pytest.raises(TypeError, match="each process"):
        pickle.dumps(client)
