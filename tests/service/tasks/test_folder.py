"""The task folder: real folders and files, several servers and models over one folder."""

import contextlib
import json
import logging
import os
import resource
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_model.network.task import Task
from elmo_serve.errors import Conflict, InvalidRequest, Unavailable, UnknownTask
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.folder import FIT_SUFFIX, MAX_TASKS, TaskFolder
from tests.service.tasks.test_file import NER, NO_NAMES, OWNER
from tests.support.folders import read_only
from tests.support.full_disk import full_disk

LAYERS = 3


@pytest.fixture
def folder(tmp_path: Path) -> TaskFolder:
    return TaskFolder(tmp_path)


def put(folder: TaskFolder, task: Task = NER, owner: TaskOwner = OWNER) -> bool:
    return folder.put([task], owner)


def named(name: str, first: float = 0.0) -> Task:
    return Task(name, (first, 0.0, 0.0))


def write(folder: Path, file: str, **members: object) -> Path:
    path = folder / file
    path.write_text(json.dumps({"name": file.removesuffix(".json"), **members}))
    return path


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_what_other_servers_do_is_seen_after_a_refresh(tmp_path: Path) -> None:
    here, there = TaskFolder(tmp_path), TaskFolder(tmp_path)

    for round_ in range(50):  # without a pause: no clock tick may hide a change
        put(there, named("t", float(round_)))
        here.refresh()
        assert here.get("t", OWNER).weights[0] == round_
    write(tmp_path, "t.json", weights=[4, 5, 6], gamma=0.5)  # by hand
    here.refresh()
    assert here.get("t", OWNER) == Task("t", (4.0, 5.0, 6.0), gamma=0.5)
    there.delete("t", OWNER)

    with pytest.raises(UnknownTask, match="none is registered"):
        here.delete("t", OWNER)
    assert here.list(OWNER) == ()


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    write(tmp_path, "ner.json", weights=[0, 0, 0])
    inside = tmp_path / "tasks"
    inside.mkdir()
    folder = TaskFolder(inside)

    for call in (folder.get, folder.delete):
        with pytest.raises(UnknownTask):
            call(name, OWNER)
    with pytest.raises(InvalidRequest):
        put(folder, named(name))
    assert list(inside.iterdir()) == []


def test_names_that_differ_in_case_alone_and_too_many_are_refused(
    folder: TaskFolder, tmp_path: Path
) -> None:
    put(folder)
    with pytest.raises(Conflict, match="differs only in case from task 'ner'"):
        put(folder, named("NER"))
    for number in range(MAX_TASKS):
        write(tmp_path, f"t{number}.json", weights=[0, 0, 0])

    with pytest.raises(Conflict, match=f"at most {MAX_TASKS} are kept"):
        put(folder, named("new"))
    assert put(folder, named("t0", 1.0)) is False
    with pytest.raises(UnknownTask, match=r"'ner', 't0', 't1', 't10', 't100' and 996 more"):
        folder.get("nerr", OWNER)


def test_the_files_of_a_fit_go_with_its_weights(folder: TaskFolder, tmp_path: Path) -> None:
    heads = [tmp_path / f"{name}{FIT_SUFFIX}" / "head.safetensors" for name in ("ner", "other")]
    for change in (put, lambda folder: folder.delete("ner", OWNER)):
        for head in heads:
            head.parent.mkdir(exist_ok=True)
            head.write_bytes(b"head")
        change(folder)
        assert [head.exists() for head in heads] == [False, True]


def test_several_tasks_are_put_together_or_not_at_all(folder: TaskFolder, tmp_path: Path) -> None:
    put(folder, named("b"))
    (tmp_path / "c.json").mkdir()  # in the way of the last one
    tasks = [named(name, 1.0) for name in "abc"]
    with pytest.raises(Conflict, match="A folder has the name"):
        folder.put(tasks, OWNER)
    assert folder.list(OWNER) == (named("b"),)
    assert {path.name for path in tmp_path.iterdir()} == {"b.json", "c.json"}
    (tmp_path / "c.json").rmdir()

    assert folder.put(tasks, OWNER) is False
    assert folder.list(OWNER) == tuple(tasks)


BROKEN = {
    "empty": "",
    "cut": '{"name": "t", "weights": [0, 0',
    "deep": "[" * 30_000,
    "list": "[]",
    "another": '{"name": "other", "weights": [0, 0, 0]}',
    "short": '{"name": "t", "weights": [0, 0]}',
    "texts": '{"name": "t", "weights": ["0", "0", "0"]}',
    "nan": '{"name": "t", "weights": [NaN, 0, 0]}',
    "huge": '{"name": "t", "weights": [1' + "0" * 400 + ", 0, 0]}",
    "scale": '{"name": "t", "weights": [0, 0, 0], "gamma": 3.4e38}',
    "foreign": '{"name": "t", "weights": [0, 0, 0], "colour": "red"}',
    "fit": '{"name": "t", "weights": [0, 0, 0], "fit": 1}',
    "large": '{"name": "t", "weights": [0, 0, 0]}' + " " * 70_000,
    "bytes": "\udcff",
    "revision": '{"name": "t", "weights": [0, 0, 0], "revision": "other"}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_logged_once_harms_no_other_and_can_be_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    write(tmp_path, "good.json", weights=[0, 0, 0])
    (tmp_path / "t.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    owner = TaskOwner(LAYERS, revision="mine")
    folder = TaskFolder(tmp_path)
    folder.add(owner)

    for _ in range(3):
        folder.refresh()
        assert [task.name for task in folder.list(owner)] == ["good"]
        with pytest.raises((UnknownTask, Conflict), match="'t'"):
            folder.get("t", owner)

    assert len(warnings(caplog)) == 1
    assert "t.json" in warnings(caplog)[0]
    assert "\n" not in warnings(caplog)[0]
    assert put(folder, named("t"), owner) is True
    assert folder.get("t", owner) == named("t")


def make_odd(kind: str, path: Path) -> None:
    """Put something in the place of a task file that cannot be read as one."""
    match kind:
        case "loop":
            path.symlink_to(path.name)
        case "socket":
            with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as listening:
                listening.bind(path.name)  # the whole path may be too long for a socket
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["loop", "socket", "folder", "pipe", "device"])
def test_an_odd_file_is_logged_once_harms_no_other_and_can_be_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    write(tmp_path, "good.json", weights=[0, 0, 0])
    make_odd(kind, tmp_path / "ner.json")

    folder = TaskFolder(tmp_path)
    for _ in range(3):
        folder.refresh()

    assert [task.name for task in folder.list(OWNER)] == ["good"]
    with pytest.raises(UnknownTask, match="its file is left out: "):
        folder.get("ner", OWNER)
    (warning,) = warnings(caplog)
    assert "ner.json is left out" in warning
    folder.delete("ner", OWNER)
    assert [path.name for path in tmp_path.iterdir()] == ["good.json"]


def test_strangers_are_named_once_and_temporary_files_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("README.md", "my task.json", ".elmo-0.tmp"):
        (tmp_path / name).write_text("{}")

    TaskFolder(tmp_path).refresh()

    assert {warning.split("'")[1] for warning in warnings(caplog)} == {"README.md", "my task.json"}
    assert len(warnings(caplog)) == 2


def test_a_file_without_the_right_to_read_is_left_out_until_it_has_it() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = TaskFolder(Path(name))
        put(folder)
        file = Path(name) / "ner.json"
        file.chmod(0o000)
        with read_only(Path(name)):
            folder.refresh()
            assert folder.list(OWNER) == ()
        file.chmod(0o644)
        folder.refresh()

        assert folder.list(OWNER) == (NER,)


def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(
    folder: TaskFolder, tmp_path: Path
) -> None:
    other = TaskFolder(tmp_path)
    put(folder)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as unused:
        lowest = unused.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        with pytest.raises(Unavailable):
            put(other)  # the folder cannot be opened
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    other.refresh()
    assert other.get("ner", OWNER) == NER


def test_a_mounted_link_is_a_task(tmp_path: Path) -> None:
    """Kubernetes mounts a ConfigMap as links."""
    elsewhere, path = tmp_path / "data", tmp_path / "tasks"
    elsewhere.mkdir()
    write(elsewhere, "t.json", weights=[0, 0, 0])
    path.mkdir()
    (path / "t.json").symlink_to(elsewhere / "t.json")
    (path / "gone.json").symlink_to(elsewhere / "gone.json")

    assert [task.name for task in TaskFolder(path).list(OWNER)] == ["t"]


def test_a_reader_never_meets_half_a_file_and_the_last_writer_wins(tmp_path: Path) -> None:
    writers, reader = [TaskFolder(tmp_path) for _ in range(2)], TaskFolder(tmp_path)
    tasks = [Task("t", (n, 0.0, 0.0), description=str(n) * 300) for n in (1.0, 2.0)]
    put(writers[0], tasks[0])

    def keep_writing(number: int) -> None:
        for _ in range(100):
            put(writers[number], tasks[number])

    threads = [threading.Thread(target=keep_writing, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        reader.refresh()
        assert reader.get("t", OWNER) in tasks
    for thread in threads:
        thread.join()

    put(writers[1], tasks[1])
    for folder in (*writers, reader):
        folder.refresh()
        assert folder.get("t", OWNER) == tasks[1]
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_a_name_belongs_to_one_of_several_models(folder: TaskFolder) -> None:
    one, other = TaskOwner(LAYERS, "one"), TaskOwner(LAYERS, "other", is_first=False)
    put(folder, named("t", 1.0), one)

    with pytest.raises(Conflict, match="belongs to another model"):
        put(folder, named("t"), other)
    for call in (folder.get, folder.delete):
        with pytest.raises(UnknownTask, match="it belongs to model 'one'"):
            call("t", other)
    assert (folder.list(one), folder.list(other)) == ((named("t", 1.0),), ())


def test_a_volume_that_went_away_leaves_the_known_tasks(
    folder: TaskFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder)
    shutil.rmtree(tmp_path)

    for _ in range(3):
        folder.refresh()
    assert folder.get("ner", OWNER) == NER
    assert len([each for each in caplog.records if "cannot be read" in each.getMessage()]) == 1
    for call in (lambda: put(folder), lambda: folder.delete("pos", OWNER)):
        with pytest.raises(Conflict, match=r"\(ELMO_TASKS\) is missing"):
            call()
    tmp_path.mkdir()


def test_a_full_disk_refuses_a_task_and_keeps_those_there_are(
    folder: TaskFolder, tmp_path: Path
) -> None:
    put(folder)
    for task in (named("new"), named("ner", 3.0)):
        with full_disk(10), pytest.raises(Unavailable) as refusal:
            put(folder, task)
        assert refusal.value.retry_after == 60

    assert folder.list(OWNER) == TaskFolder(tmp_path).list(OWNER) == (NER,)
    assert [path.name for path in tmp_path.iterdir()] == ["ner.json"]


def test_a_read_only_folder_serves_and_refuses() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = TaskFolder(Path(name))
        put(folder)
        with read_only(Path(name)):
            calls: list[Callable[[], object]] = [
                lambda: put(folder, named("ner")),
                lambda: folder.delete("ner", OWNER),
            ]
            for call in calls:
                with pytest.raises(Conflict, match="read-only"):
                    call()
            assert folder.get("ner", OWNER) == NER
            assert TaskFolder(Path(name)).list(OWNER) == (NER,)


def test_a_file_can_be_read_by_servers_of_other_users(folder: TaskFolder, tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        put(folder)
    finally:
        os.umask(mask)

    assert (tmp_path / "ner.json").stat().st_mode & 0o777 == 0o644
