"""The process of a fit: its priority, its name, its messages, and its end with the server."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from elmo_serve.jobs.child import ScratchFile, spawner
from elmo_serve.jobs.plan import Fits, Scored, Trained
from elmo_serve.workers.process import ChildProcess
from elmo_serve.workers.slot import Started
from tests.support.fit_tasks import fit_task


def shown_by_ps(pid: int) -> list[str]:
    """Return the name and the niceness of a process as an operator sees them."""
    command = ["ps", "-o", "comm=,ni=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


async def test_the_process_reports_every_step_and_ends_with_the_server(tmp_path: Path) -> None:
    messages: asyncio.Queue[Any] = asyncio.Queue()
    with ScratchFile(tmp_path) as file:
        task = fit_task(file, tmp_path / "job")
        # At the priority of a server's fits it would wait for the other tests for minutes.
        child = spawner(("warning", "text"), niceness=1)(file)
        child.start(messages.put_nowait, lambda reason: None)
        assert await messages.get() == Started()
        assert isinstance(child, ChildProcess) and child.pid is not None
        assert shown_by_ps(child.pid) == ["elmo-fit", "1"]

        child.send(task, task.vectors)
        found = [await messages.get()]
        while not isinstance(found[-1], Trained):
            found.append(await messages.get())
        assert [m.done for m in found if isinstance(m, Fits)] == [1, 2, 3, 4, 5, 6]
        assert next(m.name for m in found if isinstance(m, Scored)) == "learned"
        assert (tmp_path / "job" / "head.safetensors").is_file()

        await child.stop()  # the channel is closed: returns when the process has ended
    assert messages.empty()


async def test_a_fit_has_the_lowest_priority(tmp_path: Path) -> None:
    with ScratchFile(tmp_path) as file:
        child = spawner(("warning", "text"))(file)
        assert isinstance(child, ChildProcess)
        child.start(lambda message: None, lambda reason: None)
        while child.pid is None:  # noqa: ASYNC110  # it is spawned in a thread
            await asyncio.sleep(0.001)

        _, niceness = shown_by_ps(child.pid)

        child.kill()
        await child.stop()
    assert niceness == "19"
