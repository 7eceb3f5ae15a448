"""A task as a JSON file: what is written is read back, and anything else is refused."""

from pathlib import Path

import pytest

from elmo_model.network.task import Task
from elmo_serve.errors import Conflict, InvalidRequest, UnknownTask
from elmo_serve.tasks.file import TaskFile, TaskOwner, encode, load

OWNER = TaskOwner(3)
NER = Task("ner", (0.1, 1e-45, -3.4028234663852886e38), gamma=1 / 3, description="\U0001f600")


NO_NAMES = ["", ".", "..", "../ner", "a/b", "a\\b", "a\0b", ".x", "-a", "ä", "a\n", "a" * 65]


def read(file: Path, name: str, owner: TaskOwner) -> Task:
    return TaskFile((), load(file, name)).task(name, owner)


@pytest.mark.parametrize(
    ("task", "pointers"),
    [
        *((Task(name, (0.0,) * 3), ["/name"]) for name in NO_NAMES),
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
def test_a_task_that_could_not_be_read_back_is_refused_with_every_fault(
    task: Task, pointers: list[str]
) -> None:
    with pytest.raises(InvalidRequest, match="Task ") as caught:
        encode(task, OWNER)

    assert [fault.pointer for fault in caught.value.errors] == pointers


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
    file = tmp_path / "ner.json"
    file.write_bytes(encode(NER, TaskOwner(3, "de", revision="d")))

    with pytest.raises(UnknownTask, match="it belongs to model 'de'"):
        read(file, "ner", TaskOwner(9, "pt", revision="p"))
    with pytest.raises(Conflict, match="is for revision 'd' of model 'de', which has revision e"):
        read(file, "ner", TaskOwner(3, "de", revision="e"))
    assert read(file, "ner", TaskOwner(3, "de", revision="d")) == NER
