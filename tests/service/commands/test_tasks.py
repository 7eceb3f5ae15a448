"""`elmo tasks`: the trained mixes of a model as task files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elmo_model.models.opening import open_model
from elmo_model.network.task import Task
from elmo_serve.tasks import TaskFolder, TaskOwner
from tests.support.command_line import elmo
from tests.support.files import full_disk
from tests.support.servers import SMALL, write_task

MODULE = SMALL.parents[1] / "tensorflow" / "tf_hub"


def tasks_of(folder: Path) -> tuple[Task, ...]:
    """Return the tasks that a server reads."""
    found = TaskFolder(folder)
    found.look()
    return found.list(TaskOwner(3))


def test_trained_mixes_become_files_that_a_server_reads(tmp_path: Path) -> None:
    folder, native = tmp_path / "new" / "tasks", tmp_path / "module.safetensors"
    elmo("convert", MODULE, native)

    written = [elmo("tasks", source, folder) for source in (MODULE, native)]

    for each in written:
        assert f"Wrote {folder / 'elmo.json'}\n" in each.stdout
        assert "ELMO_TASKS" in each.stdout
    assert tasks_of(folder) == open_model(native).tasks


def test_json_names_the_files_and_what_they_hold(tmp_path: Path) -> None:
    (task,) = json.loads(elmo("tasks", MODULE, tmp_path, "--json").stdout)["tasks"]

    file = Path(task.pop("file"))
    assert task == json.loads(file.read_text())


def test_tasks_of_other_makers_are_replaced_only_by_force(tmp_path: Path) -> None:
    file = write_task(tmp_path, "elmo", weights=[1.0, 2.0, 3.0])
    mine = tasks_of(tmp_path)

    refused = elmo("tasks", MODULE, tmp_path)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"{file} exists; --force" in refused.stderr
    assert tasks_of(tmp_path) == mine
    assert elmo("tasks", MODULE, tmp_path, "--force").exit_code == 0
    assert tasks_of(tmp_path) != mine


@pytest.mark.parametrize("is_full", [True, False])
def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, is_full: bool) -> None:
    file = tmp_path / "elmo.json"
    if not is_full:
        file.mkdir()
        assert elmo("tasks", MODULE, tmp_path, "--force").exit_code == 1
        return
    write_task(tmp_path, "elmo", weights=[1.0, 2.0, 3.0])
    mine = tasks_of(tmp_path)
    with full_disk(10):
        refused = elmo("tasks", MODULE, tmp_path, "--force")

    assert refused.exit_code == 1
    assert tasks_of(tmp_path) == mine
    assert list(tmp_path.iterdir()) == [file]
