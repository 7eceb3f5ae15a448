"""The soak test sees every breach of its laws; half a minute of it breaks none."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.soak import Plan, Report, Sizes, broken, soak
from tests.support.answers import Answers, sentences
from tests.support.servers import SMALL, spawned


def sound() -> Report:
    """Return the report of a run without a fault."""
    report = Report()
    report.told["short", "200"] = 9
    for sizes in (report.front, report.shared, report.sockets):
        sizes.at, sizes.values = [float(at) for at in range(20)], [50.0] * 20
    return report


def grow(sizes: Sizes, by: float = 2.0) -> None:
    """Let a size grow with every sample."""
    sizes.values = [50.0 + by * at for at in sizes.at]


def grow_one_child(report: Report) -> None:
    """Let one JSON process be much larger than the others."""
    report.children["json"] = {pid: Sizes([0.0], [40.0]) for pid in range(4)}
    report.children["json"][9] = Sizes([0.0], [300.0])


BREACHES: list[tuple[str, Callable[[Report], object]]] = [
    ("nothing was answered", lambda report: report.told.clear()),
    ("wrong", lambda report: setattr(report, "wrong", 1)),
    ("no answer", lambda report: setattr(report, "hung", 1)),
    ("broke", lambda report: setattr(report, "lost", 1)),
    ("status that they should not", lambda report: setattr(report, "failed", 1)),
    ("not replaced", lambda report: setattr(report, "never_replaced", 1)),
    ("the front grew", lambda report: grow(report.front)),
    ("sockets", lambda report: grow(report.sockets)),
    ("shared memory grew", lambda report: grow(report.shared, 30.0)),
    ("a json process", grow_one_child),
]


def test_a_sound_report_breaks_no_law() -> None:
    assert broken(sound()) == []


@pytest.mark.parametrize(("law", "breach"), BREACHES, ids=[law for law, _ in BREACHES])
def test_every_breach_would_be_seen(law: str, breach: Callable[[Report], object]) -> None:
    report = sound()
    breach(report)

    (found,) = broken(report)
    assert law in found


@pytest.mark.faults
def test_random_faults_under_mixed_traffic_break_no_law(tmp_path: Path) -> None:
    answers = Answers(str(SMALL), sentences(None, 200, random.Random(3)))
    plan = Plan(seconds=45, share=2.0, between=3.0, clients=6, seed=2)
    with spawned(
        tmp_path,
        model=SMALL,
        tasks=tmp_path / "tasks",
        workers_per_device=2,
        json_workers=2,
        request_timeout_seconds=120,
    ) as server:
        report = asyncio.run(soak(server, answers, plan))

    assert sum(report.strikes.values()) >= 3
    assert broken(report) == [], report.faults[:3]
