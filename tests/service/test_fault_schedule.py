"""The run of faults is repeated by its seed, and each of its checks sees a breach."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from benchmarks.faults.clients import Outcomes
from benchmarks.faults.injections import INJECTIONS, Environment
from benchmarks.faults.laws import Size, broken, log_faults
from benchmarks.faults.schedule import QUIET_SECONDS, WEIGHTS, Event, draw
from benchmarks.faults.tasks import TaskFiles
from tests.support.clock import FakeClock

GUARD_SECONDS = 60.0
"""A read that takes longer fails the test instead of hanging it."""

SOUND: Size = {
    "front": 80,
    "shared": 10,
    "largest worker": 200,
    "largest helper": 40,
    "descriptors": 30,
}


@pytest.mark.faults
def test_faults_by_schedule_break_no_law() -> None:
    command = [sys.executable, "-m", "benchmarks.faults", "--seed", "3", "--minutes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_repeats_its_schedule() -> None:
    assert draw(7, 180, 5, 3) == draw(7, 180, 5, 3) != draw(8, 180, 5, 3)
    events = draw(7, 36_000, 5, 3)
    assert {event.fault for event in events} == set(WEIGHTS) == set(INJECTIONS)
    assert {event.replica for event in events} == {0, 1, 2}
    assert max(event.at for event in events) < 36_000 - QUIET_SECONDS


@pytest.mark.parametrize(
    ("seconds", "fault", "is_late"),
    [(3.9, None, False), (4.1, None, True), (4.1, "disk is slow", False), (41, "disk fails", True)],
)
async def test_a_task_file_that_is_served_late_is_seen(
    tmp_path: Path, seconds: float, fault: str | None, is_late: bool
) -> None:
    clock = FakeClock()
    windows = [] if fault is None else [(Event(0, fault, 0, 1, 0), clock.now(), clock.now())]
    answers = [None, httpx.Response(404), httpx.Response(200, json={"gamma": 2.0})]

    def answer(_: httpx.Request) -> httpx.Response:
        """Refuse a connection for some seconds, then serve no task, then the new one."""
        found = answers.pop(0)
        if found is None:
            clock.advance(seconds)
            raise httpx.ConnectError("refused")
        return found

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        on = Environment([], tmp_path, [], {}, windows=windows)
        files = TaskFiles(http, ["http://test"], on, clock.now)
        await files.change("ner", 2.0)

    assert (tmp_path / "ner.json").is_file()
    assert bool(files.faults) is is_late


def found() -> Outcomes:
    """Return the outcomes of a run without a fault."""
    outcomes = Outcomes()
    outcomes.note("short", "200", is_allowed=True)
    return outcomes


def test_every_breach_of_a_law_is_seen() -> None:
    def laws(outcomes: Outcomes, after: Size = SOUND, *findings: str) -> list[str]:
        on = Environment([], Path(), [], {}, findings=list(findings))
        return broken(on, outcomes, [SOUND, SOUND], [SOUND, after])

    assert laws(found()) == []
    assert laws(Outcomes()) == ["nothing was answered"]
    assert laws(found(), SOUND, "a job is lost") == ["a job is lost"]
    wrong, hung = found(), found()
    wrong.wrong = 1
    hung.note("page", "hung", is_allowed=False)
    assert laws(wrong) == ["1 answers were wrong"]
    assert [law.split()[:2] for law in laws(hung)] == [["page:", "hung"]]
    for name in SOUND:
        (law,) = laws(found(), SOUND | {name: 1_000})
        assert f"replica 1 grew: {name}" in law


def test_a_log_shows_tracebacks_and_requests_that_are_answered_twice() -> None:
    line = {"message": "request", "request_id": "a"}
    sound = "\n".join(json.dumps({**line, "request_id": name}) for name in "abc")
    assert log_faults(sound) == []
    assert log_faults(f"{sound}\n{json.dumps(line)}") == ["request a was answered 2 times"]
    assert log_faults(f"{sound}\nTraceback (most recent call last):")
    assert log_faults(json.dumps({**line, "exception": "ValueError"}))
