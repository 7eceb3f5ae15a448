"""`elmo tasks`: the trained mixes of a model as task files."""

from __future__ import annotations

from pathlib import Path

from elmo_model.pretrained import open_model
from elmo_model.task import Task
from elmo_serve.tasks import TaskRegistry
from tests.support.command_line import elmo
from tests.support.servers import SMALL


def test_trained_mixes_become_task_files(tmp_path: Path) -> None:
    module, folder = SMALL.parents[1] / "tensorflow" / "tf_hub", tmp_path / "tasks"
    native = tmp_path / "module.safetensors"
    elmo("convert", module, native)

    written = [elmo("tasks", source, folder) for source in (module, native)]

    assert [each.stdout for each in written] == [f"Wrote {folder / 'elmo.json'}\n"] * 2
    (task,) = TaskRegistry(folder, 3).list()
    assert (task,) == open_model(native).tasks


def test_tasks_of_other_makers_are_replaced_only_by_force(tmp_path: Path) -> None:
    module, folder = SMALL.parents[1] / "tensorflow" / "tf_hub", tmp_path
    mine = Task("elmo", (1.0, 2.0, 3.0))
    TaskRegistry(folder, 3).put(mine)

    refused = elmo("tasks", module, folder)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == (
        f"elmo: {folder / 'elmo.json'} exists; --force replaces it"
    )
    assert TaskRegistry(folder, 3).list() == (mine,)
    assert elmo("tasks", module, folder, "--force").exit_code == 0
    assert TaskRegistry(folder, 3).list() != (mine,)


def test_a_model_without_mixes_has_no_tasks_to_write(published: Path, tmp_path: Path) -> None:
    for source in (published, "random-small"):
        result = elmo("tasks", source, tmp_path / "tasks")
        assert result.exit_code == 1
        assert result.stderr == f"elmo: {source}: holds no trained mixes\n"
