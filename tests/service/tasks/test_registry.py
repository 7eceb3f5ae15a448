"""The task registry: real folders, real files, several registries over one folder."""

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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from elmo_model.network.task import Task
from elmo_serve.errors import Conflict, InvalidRequest, Unavailable, UnknownTask
from elmo_serve.tasks import registry as registry_module
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.registry import (
    FIT_SUFFIX,
    MAX_TASKS,
    REFRESH_SECONDS,
    Notices,
    TaskRegistry,
)
from elmo_serve.tasks.schema import MAX_DESCRIPTION_CHARACTERS
from tests.support.folders import read_only

LAYERS = 3
OWNER = TaskOwner(LAYERS)
NER = Task("ner", (0.5, -1.0, 2.0), gamma=1.5, layer_norm=True, description="names of things")


@pytest.fixture
def registry(tmp_path: Path) -> TaskRegistry:
    return TaskRegistry(tmp_path, OWNER)


def write(folder: Path, file: str, **members: object) -> Path:
    path = folder / file
    path.write_text(json.dumps({"name": file.removesuffix(".json"), **members}))
    return path


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_what_was_put_is_there(registry: TaskRegistry) -> None:
    assert registry.put(NER) is True

    assert registry.get("ner") == NER
    assert registry.list() == (NER,)


def test_a_task_outlives_the_server(registry: TaskRegistry, tmp_path: Path) -> None:
    registry.put(NER)

    assert TaskRegistry(tmp_path, OWNER).get("ner") == NER


def test_numbers_come_back_to_the_bit(registry: TaskRegistry) -> None:
    task = Task("t", (0.1, 1e-45, -3.4028234663852886e38), gamma=1 / 3)

    registry.put(task)

    assert registry.get("t") == task


def test_a_second_put_replaces_the_first(registry: TaskRegistry) -> None:
    registry.put(NER)

    assert registry.put(Task("ner", (0.0, 0.0, 0.0))) is False
    assert registry.get("ner") == Task("ner", (0.0, 0.0, 0.0))


def test_a_deleted_task_is_gone(registry: TaskRegistry, tmp_path: Path) -> None:
    registry.put(NER)

    registry.delete("ner")

    with pytest.raises(UnknownTask):
        registry.get("ner")
    with pytest.raises(UnknownTask):
        registry.delete("ner")
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_task_that_another_server_has_just_deleted_is_not_registered(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    registry.put(NER)
    (tmp_path / "ner.json").unlink()

    with pytest.raises(UnknownTask, match=r"^No task 'ner': none is registered$"):
        registry.delete("ner")


def write_fit(folder: Path, name: str) -> Path:
    """Write the head of a fitted task, as a fit does."""
    head = folder / f"{name}{FIT_SUFFIX}" / "head.safetensors"
    head.parent.mkdir()
    head.write_bytes(b"head")
    return head


def test_the_files_of_a_fit_go_with_its_weights(registry: TaskRegistry, tmp_path: Path) -> None:
    """A reader would pair the head with the weights of another task."""
    head, other = write_fit(tmp_path, "ner"), write_fit(tmp_path, "other")
    registry.put(NER, {"seeds": 1})
    assert not head.parent.exists()

    write_fit(tmp_path, "ner")
    registry.delete("ner")
    assert not head.parent.exists()
    assert other.exists()


def test_a_link_in_the_place_of_the_files_of_a_fit_is_removed_alone(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    head = write_fit(tmp_path, "elsewhere")
    (tmp_path / "ner.fit").symlink_to(head.parent)

    registry.put(NER)

    assert not (tmp_path / "ner.fit").is_symlink()
    assert head.exists()


def test_tasks_are_listed_by_name(registry: TaskRegistry) -> None:
    for name in ("b", "a.2", "C", "a"):
        registry.put(Task(name, (0.0,) * LAYERS))

    assert [task.name for task in registry.list()] == sorted(["b", "a.2", "C", "a"])


def test_another_servers_change_is_seen_after_a_refresh(tmp_path: Path) -> None:
    here, there = TaskRegistry(tmp_path, OWNER), TaskRegistry(tmp_path, OWNER)

    for round_ in range(50):  # without a pause: no clock tick may hide a change
        there.put(Task("t", (float(round_), 0.0, 0.0)))
        here.refresh()
        assert here.get("t").weights[0] == round_
    there.delete("t")
    here.refresh()

    with pytest.raises(UnknownTask):
        here.get("t")


def test_a_file_changed_by_hand_is_seen_after_a_refresh(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    write(tmp_path, "t.json", weights=[1, 2, 3])
    registry.refresh()
    assert registry.get("t") == Task("t", (1.0, 2.0, 3.0))

    write(tmp_path, "t.json", weights=[4, 5, 6], gamma=0.5)
    registry.refresh()

    assert registry.get("t") == Task("t", (4.0, 5.0, 6.0), gamma=0.5)


@pytest.mark.parametrize(("processor", "pause"), [(0.0, REFRESH_SECONDS), (2.0, 20.0)])
def test_the_pause_after_a_refresh_follows_its_processor_time_and_not_a_wait_for_the_disk(
    registry: TaskRegistry, monkeypatch: pytest.MonkeyPatch, processor: float, pause: float
) -> None:
    """Else a change would be seen late for ten times as long as a fault of the disk lasted."""
    clocks = {"monotonic": 0.0, "thread_time": 0.0}
    pauses: list[float] = []

    def refresh() -> None:
        clocks["monotonic"] += 100.0
        clocks["thread_time"] += processor

    def is_closed(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 2

    functions = {name: partial(clocks.get, name) for name in clocks}
    monkeypatch.setattr(registry_module, "time", SimpleNamespace(**functions))
    monkeypatch.setattr(registry._closed, "wait", is_closed)
    monkeypatch.setattr(registry, "refresh", refresh)
    registry._watch()

    assert pauses == [REFRESH_SECONDS, pause]


def test_a_watched_folder_is_refreshed_without_a_call(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    registry.watch()
    try:
        write(tmp_path, "t.json", weights=[1, 2, 3])
        while not registry.list():  # ends, or the test hangs
            threading.Event().wait(0.01)
    finally:
        registry.close()

    assert registry.get("t") == Task("t", (1.0, 2.0, 3.0))


def test_reading_a_task_needs_no_file(tmp_path: Path) -> None:
    # The event loop calls `get` and `list`: a network folder that hangs must not stop it.
    folder = tmp_path / "tasks"
    folder.mkdir()
    registry = TaskRegistry(folder, OWNER)
    registry.put(NER)
    shutil.rmtree(folder)

    assert registry.get("ner") == NER
    assert registry.list() == (NER,)
    with pytest.raises(UnknownTask, match="registered: 'ner'"):
        registry.get("nerr")


def test_an_unchanged_file_is_read_once(registry: TaskRegistry) -> None:
    registry.put(NER)
    first = registry.get("ner")
    registry.refresh()

    assert registry.get("ner") is first


def test_an_unknown_task_is_named_with_some_that_there_are(registry: TaskRegistry) -> None:
    for number in range(7):
        registry.put(Task(f"t{number}", (0.0,) * LAYERS))

    with pytest.raises(UnknownTask) as caught:
        registry.get("nerr")

    assert "'nerr'" in caught.value.detail
    assert "'t0', 't1', 't2', 't3', 't4' and 2 more" in caught.value.detail


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../ner", "a/b", "a\\b", "a\0b", ".hidden", "-a", "ä", "a\n", "a" * 65]
)
def test_a_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    write(tmp_path, "ner.json", weights=[0, 0, 0])
    inside = tmp_path / "tasks"
    inside.mkdir()
    registry = TaskRegistry(inside, OWNER)

    with pytest.raises(UnknownTask):
        registry.get(name)
    with pytest.raises(UnknownTask):
        registry.delete(name)
    with pytest.raises(InvalidRequest) as caught:
        registry.put(Task(name, (0.0, 0.0, 0.0)))

    assert [fault.pointer for fault in caught.value.errors] == ["/name"]
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "7", "a.json", "A-b_c.d", "a" * 64, "a."])
def test_a_good_name_comes_back(registry: TaskRegistry, name: str) -> None:
    registry.put(Task(name, (0.0, 0.0, 0.0)))

    assert [task.name for task in registry.list()] == [name]


def test_names_that_differ_in_case_alone_are_refused(registry: TaskRegistry) -> None:
    registry.put(NER)

    with pytest.raises(Conflict, match="'NER' differs only in case from task 'ner'"):
        registry.put(Task("NER", NER.weights))


@pytest.mark.parametrize(
    ("task", "pointers"),
    [
        (Task("t", (0.0,) * 2), ["/weights"]),
        (Task("t", (0.0,) * 4), ["/weights"]),
        (Task("t", (0.0, float("nan"), float("inf"))), ["/weights/1", "/weights/2"]),
        (Task("t", (0.0, 1e39, 0.0)), ["/weights/1"]),
        (Task("t", (0.0,) * 3, gamma=float("-inf")), ["/gamma"]),
        (Task("t", (0.0,) * 3, gamma=1001.0), ["/gamma"]),
        (Task("t", (0.0,) * 3, description="x" * 1001), ["/description"]),
        (Task("t", (0.0,) * 3, description="\ud800"), ["/description"]),
        (Task("t", (), gamma=float("nan")), ["/weights", "/gamma"]),
    ],
)
def test_an_impossible_task_is_refused_with_every_fault(
    registry: TaskRegistry, task: Task, pointers: list[str]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        registry.put(task)

    assert [fault.pointer for fault in caught.value.errors] == pointers
    assert registry.list() == ()


BROKEN = {
    "empty": "",
    "cut": '{"name": "t", "weights": [0, 0',
    "deep": "[" * 30_000,
    "list": "[]",
    "another": '{"name": "other", "weights": [0, 0, 0]}',
    "nameless": '{"weights": [0, 0, 0]}',
    "weightless": '{"name": "t"}',
    "short": '{"name": "t", "weights": [0, 0]}',
    "texts": '{"name": "t", "weights": ["0", "0", "0"]}',
    "truths": '{"name": "t", "weights": [true, 0, 0]}',
    "nan": '{"name": "t", "weights": [NaN, 0, 0]}',
    "huge": '{"name": "t", "weights": [1' + "0" * 400 + ", 0, 0]}",
    "gamma": '{"name": "t", "weights": [0, 0, 0], "gamma": null}',
    "scale": '{"name": "t", "weights": [0, 0, 0], "gamma": 3.4e38}',
    "norm": '{"name": "t", "weights": [0, 0, 0], "layer_norm": 1}',
    "foreign": '{"name": "t", "weights": [0, 0, 0], "colour": "red"}',
    "large": '{"name": "t", "weights": [0, 0, 0]}' + " " * 70_000,
    "bytes": "\udcff",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_once_and_harms_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    write(tmp_path, "good.json", weights=[0, 0, 0])
    (tmp_path / "t.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    registry = TaskRegistry(tmp_path, OWNER)

    for _ in range(3):
        registry.refresh()
        assert [task.name for task in registry.list()] == ["good"]
        with pytest.raises(UnknownTask, match="registered: 'good'"):
            registry.get("t")

    assert len(warnings(caplog)) == 1
    assert "t.json" in warnings(caplog)[0]
    assert "\n" not in warnings(caplog)[0]


def test_a_broken_file_that_was_mended_is_a_task(tmp_path: Path, registry: TaskRegistry) -> None:
    (tmp_path / "ner.json").write_text("{")
    registry.refresh()
    assert registry.list() == ()

    assert registry.put(NER) is True

    assert registry.get("ner") == NER


def test_strangers_in_the_folder_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "my task.json").write_text("{}")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / ".t.json.0.tmp").write_text("left by a crash")
    os.mkfifo(tmp_path / "pipe.json")
    registry = TaskRegistry(tmp_path, OWNER)
    registry.refresh()

    assert registry.list() == ()
    logged = "\n".join(warnings(caplog))
    assert len(warnings(caplog)) == 4
    assert all(name in logged for name in ("README.md", "my task.json", "folder.json", "pipe.json"))


def test_registries_of_one_server_log_a_fault_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    broken = tmp_path / "ner.json"
    broken.write_text("{")
    notices = Notices()
    registries = [TaskRegistry(tmp_path, replace(OWNER, name=name), notices) for name in "ab"]
    assert len(warnings(caplog)) == 2
    broken.unlink()
    broken.write_text("[")  # another file with another fault
    for registry in registries:
        registry.refresh()

    assert len(warnings(caplog)) == 3


def test_a_file_that_is_not_json_is_called_a_file(tmp_path: Path) -> None:
    (tmp_path / "ner.json").write_text("{")
    registry = TaskRegistry(tmp_path, OWNER)
    registry.refresh()

    with pytest.raises(
        UnknownTask, match=r"^No task 'ner'.*its file is left out: it is not JSON: "
    ):
        registry.get("ner")


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
        case "gamma":
            path.write_text('{"name": "ner", "weights": [0, 0, 0], "gamma": 3.4e38}')


ODD = ["loop", "socket", "folder", "pipe", "device", "gamma"]


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_is_logged_once_and_harms_no_other_task(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    write(tmp_path, "good.json", weights=[0, 0, 0])
    make_odd(kind, tmp_path / "ner.json")

    registry = TaskRegistry(tmp_path, OWNER)
    for _ in range(3):
        registry.refresh()

    assert [task.name for task in registry.list()] == ["good"]
    with pytest.raises(UnknownTask, match="its file is left out: "):
        registry.get("ner")
    assert len(warnings(caplog)) == 1
    assert "ner.json is left out" in warnings(caplog)[0]


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_can_be_replaced(tmp_path: Path, kind: str) -> None:
    make_odd(kind, tmp_path / "ner.json")
    registry = TaskRegistry(tmp_path, OWNER)

    assert registry.put(NER) is True
    assert registry.get("ner") == TaskRegistry(tmp_path, OWNER).get("ner") == NER


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_file_can_be_deleted(tmp_path: Path, kind: str) -> None:
    make_odd(kind, tmp_path / "ner.json")
    registry = TaskRegistry(tmp_path, OWNER)

    registry.delete("ner")

    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    with pytest.raises(UnknownTask):
        registry.delete("ner")


def test_a_folder_that_holds_files_is_neither_replaced_nor_deleted(tmp_path: Path) -> None:
    (tmp_path / "ner.json").mkdir()
    (tmp_path / "ner.json" / "precious").write_text("data")
    registry = TaskRegistry(tmp_path, OWNER)

    for call in (lambda: registry.put(NER), lambda: registry.delete("ner")):
        with pytest.raises(Conflict, match=r"ner\.json in the task folder is a folder"):
            call()

    assert (tmp_path / "ner.json" / "precious").read_text() == "data"


def test_a_file_without_the_right_to_read_is_left_out_until_it_has_it() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        registry = TaskRegistry(folder, OWNER)
        registry.put(NER)
        file = folder / "ner.json"
        file.chmod(0o000)
        with read_only(folder):
            registry.refresh()
            assert registry.list() == ()
        file.chmod(0o644)
        registry.refresh()

        assert registry.list() == (NER,)


def test_a_file_that_could_not_be_read_for_a_moment_is_read_again(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    other = TaskRegistry(tmp_path, OWNER)
    registry.put(NER)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as unused:
        lowest = unused.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        with pytest.raises(Unavailable):
            other.delete("ner")  # neither the file nor the lock can be opened
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    other.refresh()
    assert other.get("ner") == NER


def test_a_mounted_link_is_a_task(tmp_path: Path) -> None:
    # Kubernetes mounts a ConfigMap as links.
    elsewhere, folder = tmp_path / "data", tmp_path / "tasks"
    elsewhere.mkdir()
    write(elsewhere, "t.json", weights=[0, 0, 0])
    folder.mkdir()
    (folder / "t.json").symlink_to(elsewhere / "t.json")
    (folder / "gone.json").symlink_to(elsewhere / "gone.json")

    assert [task.name for task in TaskRegistry(folder, OWNER).list()] == ["t"]


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    writer, reader = TaskRegistry(tmp_path, OWNER), TaskRegistry(tmp_path, OWNER)
    tasks = [
        Task("t", (float(number),) * LAYERS, description=str(number) * 900) for number in (1, 2)
    ]
    writer.put(tasks[0])
    done = threading.Event()

    def keep_writing() -> None:
        for turn in range(100):
            writer.put(tasks[turn % 2])
        done.set()

    thread = threading.Thread(target=keep_writing)
    thread.start()
    reads = 0
    while not done.is_set():
        reader.refresh()
        assert reader.get("t") in tasks
        reads += 1
    thread.join()

    assert reads > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "t.json"]


def test_one_of_several_models_gets_a_name(tmp_path: Path) -> None:
    registries = [TaskRegistry(tmp_path, TaskOwner(LAYERS, f"model{n}")) for n in range(4)]
    begin = threading.Barrier(len(registries))

    def won(registry: TaskRegistry, name: str) -> bool:
        begin.wait()
        while True:
            try:
                return registry.put(Task(name, (0.0,) * LAYERS))
            except Conflict:
                return False
            except Unavailable as error:
                if "has locked" not in error.detail:  # which a slow disk makes long
                    raise

    with ThreadPoolExecutor(len(registries)) as pool:
        for round_ in range(25):
            name = f"t{round_}"
            winners = list(pool.map(lambda registry, name=name: won(registry, name), registries))

            assert winners.count(True) == 1
            assert registries[winners.index(True)].get(name).name == name


def test_a_full_registry_takes_no_more(registry: TaskRegistry, tmp_path: Path) -> None:
    for number in range(MAX_TASKS):
        write(tmp_path, f"t{number}.json", weights=[0, 0, 0])

    with pytest.raises(Conflict, match=f"at most {MAX_TASKS} are kept"):
        registry.put(NER)
    assert registry.put(Task("t0", NER.weights)) is False


def test_without_a_folder_there_are_no_tasks_and_the_variable_is_named() -> None:
    registry = TaskRegistry(None, OWNER)

    assert registry.list() == ()
    for call in (registry.get, registry.delete):
        with pytest.raises(UnknownTask, match="ELMO_TASKS"):
            call("ner")
    with pytest.raises(Conflict, match="ELMO_TASKS"):
        registry.put(NER)


def test_a_volume_that_went_away_leaves_the_known_tasks(
    registry: TaskRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry.put(NER)
    shutil.rmtree(tmp_path)

    for _ in range(3):
        registry.refresh()
    for call in (lambda: registry.put(NER), lambda: registry.delete("pos")):
        with pytest.raises(Conflict) as caught:
            call()
        assert caught.value.detail == (
            "Tasks cannot be changed here: the task folder (ELMO_TASKS) is missing"
        )

    assert registry.get("ner") == NER
    errors = [each for each in caplog.records if "cannot be read" in each.getMessage()]
    assert len(errors) == 1
    tmp_path.mkdir()


def test_a_read_only_folder_serves_and_refuses() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        registry = TaskRegistry(folder, OWNER)
        registry.put(NER)
        with read_only(folder):
            assert registry.get("ner") == NER
            calls: list[Callable[[], object]] = [
                lambda: registry.put(Task("ner", (0.0, 0.0, 0.0))),
                lambda: registry.delete("ner"),
            ]
            for call in calls:
                with pytest.raises(Conflict, match="read-only"):
                    call()
            assert registry.get("ner") == NER
            assert TaskRegistry(folder, OWNER).list() == (NER,)


def test_a_file_can_be_read_by_servers_of_other_users(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    mask = os.umask(0o022)
    try:
        registry.put(NER)
    finally:
        os.umask(mask)

    assert (tmp_path / "ner.json").stat().st_mode & 0o777 == 0o644


def test_a_description_of_the_largest_size_is_read_back(registry: TaskRegistry) -> None:
    task = Task("t", (0.0,) * LAYERS, description="\U0001f600" * MAX_DESCRIPTION_CHARACTERS)

    registry.put(task)

    assert registry.get("t") == task
