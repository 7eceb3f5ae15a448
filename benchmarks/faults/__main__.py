"""Faults by schedule, under mixed traffic, and a quiet period after which all must be as before.

    python -m benchmarks.faults [CHECKPOINT] [--seed 1] [--minutes 3] [--between 5] [--list]

Three replicas share a task folder, behind links of their own and HAProxy, where it is installed. A
seed draws which fault hits which replica, when and for how long; `--list` prints that alone. The
same seed repeats the same faults and the same requests. What this machine cannot do is printed as
skipped. The exit status is 1 when a law was broken.
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import torch

from benchmarks import machine
from benchmarks.faults.clients import NOT_FINITE, Client, Outcomes
from benchmarks.faults.injections import Environment, inject
from benchmarks.faults.laws import Size, broken, measure, settled, until_quiet
from benchmarks.faults.replicas import Replica, compiled, throttle_file
from benchmarks.faults.schedule import Event, draw
from benchmarks.faults.tasks import TaskFiles
from tests.support.answers import TASK, TASK_NAME, Answers, sentences
from tests.support.checkpoints import poisoned_by
from tests.support.replicas import proxied
from tests.support.servers import SMALL, write_task

_REPLICAS = 3
_WARM_SECONDS = 12.0  # of load before the first fault, until memory has its usual size
_PRELOADED = ("clock jumps", "disk fails", "disk is slow")


def main() -> int:
    """Run the schedule of a seed, print, and fail when a law was broken."""
    parser = machine.parser(__doc__)
    parser.add_argument("checkpoint", nargs="?", type=Path, default=SMALL)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--between", type=float, default=5, help="seconds between faults")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--list", action="store_true", help="print the schedule and end")
    options = parser.parse_args()
    events = draw(options.seed, 60 * options.minutes, options.between, _REPLICAS)
    if options.list:
        for event in events:
            print(event)
        return 0
    torch.set_num_threads(1)
    print(f"seed {options.seed}, {options.minutes:g} minutes; {machine.describe()}\n", flush=True)
    with tempfile.TemporaryDirectory() as name, _environment(options.checkpoint, Path(name)) as on:
        urls = [replica.url for replica in on.replicas]
        with ExitStack() as stack:
            front = list(urls)
            if shutil.which("haproxy"):
                front = [
                    stack.enter_context(proxied(Path(name), [r.link.port for r in on.replicas]))
                ]
            else:
                on.skipped["HAProxy"] = "it is not installed: clients ask the replicas in turns"
            laws = asyncio.run(_run(on, urls, front, options, events))
    for law in laws:
        print(f"\nBroken: {law}")
    if not laws:
        print("\nEvery law was kept.")
    return 1 if laws else 0


@contextlib.contextmanager
def _environment(checkpoint: Path, folder: Path) -> Iterator[Environment]:
    """Start the replicas, and find out which faults this machine cannot have."""
    skipped: dict[str, str] = {}
    tasks = folder / "tasks"
    tasks.mkdir()
    write_task(tasks, TASK_NAME, **TASK)
    library, reason = compiled(folder)
    if library is None:
        skipped |= dict.fromkeys(_PRELOADED, reason)
    else:
        os.environ["LD_PRELOAD"] = str(library)  # of the process that replicas are forked from
    model = poisoned_by(shutil.copytree(checkpoint, folder / "model"), NOT_FINITE)
    with ExitStack() as stack:
        quotas = [
            stack.enter_context(throttle_file(f"elmo-faults-{os.getpid()}-{index}"))
            for index in range(_REPLICAS)
        ]
        if None in quotas:
            skipped["processor throttled"] = "no cgroup with a processor quota can be made"
        replicas = [Replica(index, folder / str(index), tasks, model) for index in range(_REPLICAS)]
        for replica in replicas:
            stack.callback(replica.link.close)
            stack.callback(replica.stop)
            replica.start()
        yield Environment(replicas, tasks, quotas, skipped)


async def _run(
    on: Environment,
    urls: list[str],
    front: list[str],
    options: argparse.Namespace,
    events: list[Event],
) -> list[str]:
    """Send requests and cause the faults; return the laws that were broken."""
    made = sentences(None, 300, random.Random(options.seed))
    answers = await asyncio.to_thread(Answers, str(on.replicas[0].model), made)
    found, is_over, is_calm = Outcomes(), asyncio.Event(), asyncio.Event()
    limits = httpx.Limits(max_keepalive_connections=options.clients, keepalive_expiry=2)
    sources = (random.Random(options.seed * 10_007 + number) for number in range(100))
    async with httpx.AsyncClient(timeout=None, limits=limits, verify=False) as http:
        clients = [
            Client(http, front, answers, on, found, next(sources)) for _ in range(options.clients)
        ]
        files = TaskFiles(http, urls, on)
        work = [asyncio.create_task(client.run(is_over)) for client in clients]
        await asyncio.sleep(_WARM_SECONDS)
        before = [await asyncio.to_thread(measure, replica) for replica in on.replicas]
        work += [
            asyncio.create_task(files.run(f"changed-{number}", next(sources), is_calm))
            for number in range(3)
        ]
        caused = await _cause(on, events)
        is_calm.set()
        laws = await until_quiet(on, missing_only=True)
        is_over.set()
        await asyncio.gather(*work)
    laws += files.faults
    laws += await until_quiet(on)
    after = await settled(on, before)
    laws += broken(on, found, before, after)
    _print(on, found, caused, files, before, after)
    return laws


async def _cause(on: Environment, events: list[Event]) -> Counter[str]:
    """Cause the faults at their times, and wait until the last one is healed."""
    start = time.monotonic()
    caused: Counter[str] = Counter()
    tasks = []
    for event in events:
        await asyncio.sleep(max(0.0, start + event.at - time.monotonic()))
        if event.fault in on.skipped:
            continue
        caused[event.fault] += 1
        tasks.append(asyncio.create_task(inject(on, event)))
    await asyncio.gather(*tasks)
    return caused


def _print(
    on: Environment,
    found: Outcomes,
    caused: Counter[str],
    files: TaskFiles,
    before: list[Size],
    after: list[Size],
) -> None:
    rows: dict[str, object] = dict(sorted(caused.items()))
    rows |= {f"skipped: {fault}": reason for fault, reason in on.skipped.items()}
    for kind, count in found.asked.items():
        parts = [f"{n} x {what}" for (of, what), n in sorted(found.outcomes.items()) if of == kind]
        rows[f"{kind}: {count}"] = ", ".join(parts)
    rows["sentences compared"] = f"{found.sentences:,}"
    rows["wrong answers"] = found.wrong
    rows["largest difference, in tolerances"] = f"{found.worst:.3f}"
    rows["changes of task files"] = files.changes
    for index, (first, last) in enumerate(zip(before, after, strict=True)):
        rows[f"replica {index}, before and after, MB"] = ", ".join(
            f"{name} {first[name]:.0f} {last[name]:.0f}" for name in first
        )
    print(
        "\n".join([machine.head("what", "found"), *(machine.row(*each) for each in rows.items())])
    )


if __name__ == "__main__":
    sys.exit(main())
