"""The process of a fit: its priority, its name, its messages, and its end with the server."""

import asyncio
import os
from pathlib import Path
from typing import Any

from elmo_serve.jobs.fit_messages import Fits, Scored, Trained
from elmo_serve.jobs.fit_process import PROCESS_NAME, work
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.workers.child_process import ChildProcess
from elmo_serve.workers.task_messages import Started
from tests.support.fit_tasks import fit_task


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


async def test_the_process_reports_every_step_and_ends_with_the_server(tmp_path: Path) -> None:
    messages: asyncio.Queue[Any] = asyncio.Queue()
    with ScratchFiles(tmp_path) as files:
        task = fit_task(files, tmp_path / "job")
        child = ChildProcess("test", work, ("warning", "text"), files, niceness=19)
        child.start(messages.put_nowait, lambda reason: None)
        assert await messages.get() == Started()
        assert child.pid is not None
        assert name_of(child.pid) == PROCESS_NAME
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19

        child.send(task.train, *task.segments)
        found = [await messages.get()]
        while not isinstance(found[-1], Trained):
            found.append(await messages.get())
        assert [m.done for m in found if isinstance(m, Fits)] == [1, 2, 3, 4, 5, 6]
        assert next(m.name for m in found if isinstance(m, Scored)) == "learned"
        assert (tmp_path / "job" / "head.safetensors").is_file()

        await child.stop()  # the channel is closed: returns when the process has ended
    assert messages.empty()
