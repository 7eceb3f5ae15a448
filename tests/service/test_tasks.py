"""The task folder: real folders and files, several servers and models over one folder."""

import asyncio
import contextlib
import json
import logging
import os
import resource
import shutil
import socket
import string
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from pydantic import ValidationError

from elmo_model.network.task import TASK_NAME_RULE, Task
from elmo_serve.errors import Conflict, UnknownTask
from elmo_serve.mix import MOST_LAYERS
from elmo_serve.selection import MAX_FLOAT32, MAX_GAMMA
from elmo_serve.settings import SettingsError
from elmo_serve.tasks import MAX_DESCRIPTION_CHARACTERS, TaskFolder, TaskMembers, TaskOwner
from tests.support.files import closed, read_only
from tests.support.in_process import in_process
from tests.support.servers import write_task

LAYERS = 3
OWNER = TaskOwner(LAYERS)
ZEROS = [0.0, 0.0, 0.0]
NO_NAMES = ["", ".", "..", "../ner", "a/b", "a\\b", "a\0b", ".x", "-a", "ä", "a\n", "a" * 65]
SECONDS = 300
"""A wait that takes longer fails the test."""


def opened(path: Path) -> TaskFolder:
    """Return a folder that was read once."""
    folder = TaskFolder(path)
    folder.look()
    folder.opened.result(0)
    return folder


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def named(name: str) -> Task:
    return Task(name, (0.0,) * LAYERS)


# The members of a file


def test_the_largest_values_are_accepted() -> None:
    members = TaskMembers.model_validate(
        {
            "weights": [-MAX_FLOAT32, MAX_FLOAT32] * (MOST_LAYERS // 2),
            "gamma": -MAX_GAMMA,
            "name": "a" * 64,
            "description": "x" * MAX_DESCRIPTION_CHARACTERS,
        }
    )

    assert len(members.weights) == MOST_LAYERS


def test_the_rule_of_names_is_the_one_of_the_pattern() -> None:
    letters = string.ascii_letters + string.digits
    for character in set(map(chr, range(256))):
        for name in (character, "a" + character):
            try:
                TaskMembers.model_validate({"weights": [0], "name": name})
                is_valid = True
            except ValidationError:
                is_valid = False
            allowed = letters if len(name) == 1 else letters + "._-"
            assert is_valid == (character in allowed), (name, TASK_NAME_RULE)


OWN = TaskOwner(3, "pt", "elmo_pt", "abc", is_first=False)


@pytest.mark.parametrize(
    ("owner", "model", "revision", "is_owned"),
    [
        (OWN, "pt", None, True),
        (OWN, "PT", "other", True),
        (OWN, "elmo_pt", None, True),
        (OWN, "de", "abc", True),
        (OWN, "de", "other", False),
        (OWN, None, "abc", False),
        (TaskOwner(3, "pt"), None, None, True),
        (OWNER, "de", None, True),
    ],
)
def test_a_file_belongs_to_the_model_it_names_or_to_equal_weights(
    owner: TaskOwner, model: str | None, revision: str | None, is_owned: bool
) -> None:
    assert owner.owns(model, revision) is is_owned


def test_a_file_of_another_model_need_not_fit_this_one(tmp_path: Path) -> None:
    write_task(tmp_path, "ner", weights=ZEROS, model="de", revision="d")
    folder = opened(tmp_path)

    with pytest.raises(UnknownTask, match="model 'de'"):
        folder.get("ner", TaskOwner(9, "pt", revision="p"))
    with pytest.raises(Conflict, match="revision 'd'"):
        folder.get("ner", TaskOwner(3, "de", revision="e"))
    assert folder.get("ner", TaskOwner(3, "de", revision="d")) == named("ner")


def test_a_name_belongs_to_one_of_several_models(tmp_path: Path) -> None:
    one, other = TaskOwner(LAYERS, "one"), TaskOwner(LAYERS, "other", is_first=False)
    write_task(tmp_path, "t", weights=ZEROS, model="one")
    folder = opened(tmp_path)

    with pytest.raises(UnknownTask, match="model 'one'"):
        folder.get("t", other)
    assert (folder.list(one), folder.list(other)) == ((named("t"),), ())


@pytest.mark.parametrize("fit", [None, {}, {"seeds": 3, "score": [None]}, [1], "text"])
def test_what_the_weights_were_learned_from_is_ignored(tmp_path: Path, fit: object) -> None:
    write_task(tmp_path, "ner", weights=ZEROS, fit=fit)

    assert opened(tmp_path).list(OWNER) == (named("ner"),)


# The folder


def test_every_change_is_seen_by_the_next_look(tmp_path: Path) -> None:
    folder = opened(tmp_path)

    for number in range(50):  # without a pause: no clock tick may hide a change
        write_task(tmp_path, "t", weights=[number, 0, 0])
        folder.look()
        assert folder.get("t", OWNER).weights[0] == number
    in_place = json.dumps({"name": "t", "weights": [4, 5, 6], "gamma": 0.5})
    (tmp_path / "t.json").write_text(in_place)
    folder.look()
    assert folder.get("t", OWNER) == Task("t", (4.0, 5.0, 6.0), gamma=0.5)
    (tmp_path / "t.json").unlink()
    folder.look()
    assert folder.list(OWNER) == ()
    with pytest.raises(UnknownTask, match="none is registered"):
        folder.get("t", OWNER)


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    write_task(tmp_path, "ner", weights=ZEROS)
    inside = tmp_path / "tasks"
    inside.mkdir()

    with pytest.raises(UnknownTask):
        opened(inside).get(name, OWNER)


def test_an_unknown_task_is_refused_with_some_of_those_there_are(tmp_path: Path) -> None:
    for number in range(8):
        write_task(tmp_path, f"t{number}", weights=ZEROS)

    with pytest.raises(UnknownTask, match="'t4' and 3 more"):
        opened(tmp_path).get("t", OWNER)


BROKEN = {
    "empty": "",
    "cut": '{"name": "t", "weights": [0, 0',
    "deep": "[" * 30_000,
    "list": "[]",
    "unnamed": '{"weights": [0, 0, 0]}',
    "another": '{"name": "other", "weights": [0, 0, 0]}',
    "short": '{"name": "t", "weights": [0, 0]}',
    "texts": '{"name": "t", "weights": ["0", "0", "0"]}',
    "nan": '{"name": "t", "weights": [NaN, 0, 0]}',
    "huge": '{"name": "t", "weights": [1' + "0" * 400 + ", 0, 0]}",
    "scale": '{"name": "t", "weights": [0, 0, 0], "gamma": 3.4e38}',
    "foreign": '{"name": "t", "weights": [0, 0, 0], "colour": "red"}',
    "large": '{"name": "t", "weights": [0, 0, 0]}' + " " * 70_000,
    "bytes": "\udcff",
    "revision": '{"name": "t", "weights": [0, 0, 0], "revision": "other"}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_logged_once_harms_no_other_and_can_be_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    write_task(tmp_path, "good", weights=ZEROS)
    (tmp_path / "t.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    owner = TaskOwner(LAYERS, revision="mine")
    folder = opened(tmp_path)
    folder.add(owner)

    for _ in range(3):
        folder.look()
        assert [task.name for task in folder.list(owner)] == ["good"]
        with pytest.raises((UnknownTask, Conflict), match="'t'"):
            folder.get("t", owner)

    (warning,) = warnings(caplog)
    assert "t.json" in warning and "\n" not in warning
    write_task(tmp_path, "t", weights=ZEROS)
    folder.look()
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
def test_an_odd_file_is_logged_once_and_harms_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    write_task(tmp_path, "good", weights=ZEROS)
    make_odd(kind, tmp_path / "ner.json")

    folder = opened(tmp_path)
    for _ in range(3):
        folder.look()

    assert [task.name for task in folder.list(OWNER)] == ["good"]
    with pytest.raises(UnknownTask, match="left out"):
        folder.get("ner", OWNER)
    (warning,) = warnings(caplog)
    assert "ner.json is left out" in warning


def test_strangers_are_named_once_but_temporary_files_and_those_of_a_fit_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("README.md", "my task.json", ".elmo-0.tmp"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "ner.fit").mkdir()

    folder = opened(tmp_path)
    folder.look()

    assert {warning.split("'")[1] for warning in warnings(caplog)} == {"README.md", "my task.json"}
    assert len(warnings(caplog)) == 2


def test_a_file_without_the_right_to_read_is_left_out_until_it_has_it() -> None:
    with tempfile.TemporaryDirectory() as name:
        file = write_task(Path(name), "ner", weights=ZEROS)
        folder = opened(Path(name))
        file.chmod(0o000)
        with read_only(Path(name)):
            folder.look()
            assert folder.list(OWNER) == ()
        file.chmod(0o644)
        folder.look()

        assert folder.list(OWNER) == (named("ner"),)


def test_what_could_not_be_read_for_a_moment_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = opened(tmp_path)
    write_task(tmp_path, "ner", weights=ZEROS)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as unused:
        lowest = unused.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        folder.look()  # the folder cannot be opened
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(caplog.records) == 1

    folder.look()
    assert folder.list(OWNER) == (named("ner"),)


def test_a_mounted_link_is_a_task(tmp_path: Path) -> None:
    """Kubernetes mounts a ConfigMap as links."""
    elsewhere, path = tmp_path / "data", tmp_path / "tasks"
    elsewhere.mkdir()
    write_task(elsewhere, "t", weights=ZEROS)
    path.mkdir()
    (path / "t.json").symlink_to(elsewhere / "t.json")
    (path / "gone.json").symlink_to(elsewhere / "gone.json")

    assert opened(path).list(OWNER) == (named("t"),)


def test_several_readers_never_meet_half_a_file(tmp_path: Path) -> None:
    tasks = [Task("t", (n, 0.0, 0.0), description=str(n) * 300) for n in (1.0, 2.0)]

    def keep_writing(task: Task) -> None:
        for _ in range(100):
            write(task)

    def write(task: Task) -> None:
        write_task(tmp_path, "t", weights=task.weights, description=task.description)

    write(tasks[0])
    readers = [opened(tmp_path) for _ in range(2)]
    threads = [threading.Thread(target=keep_writing, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for reader in readers:
            reader.look()
            assert reader.get("t", OWNER) in tasks
    for thread in threads:
        thread.join()

    write(tasks[1])
    for reader in readers:
        reader.look()
        assert reader.get("t", OWNER) == tasks[1]


def test_a_volume_that_went_away_leaves_the_known_tasks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_task(tmp_path, "ner", weights=ZEROS)
    folder = opened(tmp_path)
    shutil.rmtree(tmp_path)

    for _ in range(3):
        folder.look()
    assert folder.get("ner", OWNER) == named("ner")
    assert len([each for each in caplog.records if "cannot be read" in each.getMessage()]) == 1
    tmp_path.mkdir()


def test_a_folder_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "missing", tmp_path / "file"):
        folder = TaskFolder(path)
        folder.look()
        with pytest.raises(SettingsError, match="ELMO_TASKS="):
            folder.opened.result(0)
    folder = TaskFolder(tmp_path / "home")
    with closed(tmp_path):
        folder.look()
        with pytest.raises(SettingsError, match="Permission denied"):
            folder.opened.result(0)


# The watch


class Hanging(TaskFolder):
    """A folder on a file system that hangs from the second look on, until `gate` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, seconds=0)
        self.gate = threading.Event()
        self.hangs: Future[None] = Future()  # ends when it hangs

    def look(self) -> None:
        """Look once, then hang."""
        if self.opened.done():
            if not self.hangs.done():
                self.hangs.set_result(None)
            self.gate.wait(SECONDS)
        super().look()


async def test_while_the_folder_hangs_everything_is_answered(tmp_path: Path) -> None:
    write_task(tmp_path, "known", weights=ZEROS)
    async with in_process(tasks=tmp_path) as serving:
        folder = Hanging(tmp_path)
        folder.start()
        await asyncio.wrap_future(folder.hangs)
        await serving.server.models.first.open(asyncio.sleep(0, folder))

        for path in ("/metrics", "/tasks", "/tasks/known"):
            assert (await serving.client.get(path)).status_code == 200
        body = {"sentences": [["cat"]], "task": "known"}
        assert (await serving.client.post("/embed", json=body)).status_code == 200
        folder.watch.close()
        folder.gate.set()


HANGS = """
import threading
from elmo_serve.watch import Watch

began = threading.Event()
Watch("elmo-test", lambda: (began.set(), threading.Event().wait())).start()
began.wait()
"""


def test_a_process_ends_while_the_folder_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], check=False, timeout=SECONDS)

    assert done.returncode == 0
