"""`elmo tasks`: the trained mixes of a model as task files."""

from __future__ import annotations

import json
from pathlib import Path

from elmo_model.models.opening import open_model
from elmo_model.network.task import Task
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.folder import TaskFolder
from tests.support.command_line import elmo
from tests.support.servers import SMALL


def test_trained_mixes_become_task_files(tmp_path: Path) -> None:
    module, folder = SMALL.parents[1] / "tensorflow" / "tf_hub", tmp_path / "tasks"
    native = tmp_path / "module.safetensors"
    elmo("convert", module, native)

    written = [elmo("tasks", source, folder) for source in (module, native)]

    assert [each.stdout for each in written] == [f"Wrote {folder / 'elmo.json'}\n"] * 2
    (task,) = TaskFolder(folder).list(TaskOwner(3))
    assert (task,) == open_model(native).tasks


def test_the_folder_is_by_default_the_one_of_the_server(tmp_path: Path) -> None:
    module = SMALL.parents[1] / "tensorflow" / "tf_hub"

    by_variable = elmo("tasks", module, ELMO_TASKS=str(tmp_path / "set"))
    by_default = elmo("tasks", module, XDG_DATA_HOME=str(tmp_path / "data"))

    for result, folder in ((by_variable, "set"), (by_default, "data/elmo-serve/tasks")):
        assert result.stdout == f"Wrote {tmp_path / folder / 'elmo.json'}\n"
        assert (tmp_path / folder / "elmo.json").is_file()


def test_json_names_the_files_and_what_they_hold(tmp_path: Path) -> None:
    module = SMALL.parents[1] / "tensorflow" / "tf_hub"

    (task,) = json.loads(elmo("tasks", module, tmp_path, "--json").stdout)["tasks"]

    file = Path(task.pop("file"))
    assert task == json.loads(file.read_text())


def test_tasks_of_other_makers_are_replaced_only_by_force(tmp_path: Path) -> None:
    module, folder = SMALL.parents[1] / "tensorflow" / "tf_hub", tmp_path
    mine = Task("elmo", (1.0, 2.0, 3.0))
    TaskFolder(folder).put([mine], TaskOwner(3))

    refused = elmo("tasks", module, folder)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == (
        f"elmo: {folder / 'elmo.json'} exists; --force replaces it"
    )
    assert TaskFolder(folder).list(TaskOwner(3)) == (mine,)
    assert elmo("tasks", module, folder, "--force").exit_code == 0
    assert TaskFolder(folder).list(TaskOwner(3)) != (mine,)
