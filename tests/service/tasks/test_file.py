"""A task as a JSON file: what is written is read back, and anything else is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmo_model.network.task import Task
from elmo_serve.errors import Conflict, InvalidRequest, RequestError, UnknownTask
from elmo_serve.tasks.file import MAX_FILE_BYTES, TaskFile, TaskOwner, encode, load

OWNER = TaskOwner(3)
NER = Task("ner", (0.1, 1e-45, -3.4028234663852886e38), gamma=1 / 3, description="\U0001f600")


NO_NAMES = ["", ".", "..", "../ner", "a/b", "a\\b", "a\0b", ".x", "-a", "ä", "a\n", "a" * 65]


def read(file: Path, name: str, owner: TaskOwner) -> Task:
    return TaskFile((), load(file, name)).task(name, owner)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"name": "srl"}, "must be 'ner' as in the file's name; found 'srl'"),
        ({"name": None}, "/name: should be a valid string; found null"),
        ({"weights": [1, 2]}, "found 2 numbers, this model takes 3"),
        ({"gamma": 3.4e38}, "/gamma: should be less than or equal to 1000"),
        ({"colour": "red"}, "/colour: is no field"),
        ({"description": " " * MAX_FILE_BYTES}, f"larger than {MAX_FILE_BYTES} bytes"),
    ],
)
def test_a_file_is_held_to_the_rules_of_a_put(
    tmp_path: Path, members: dict[str, Any], message: str
) -> None:
    file = tmp_path / "ner.json"
    file.write_text(json.dumps({"name": "ner", "weights": [1, 2, 3], **members}))

    with pytest.raises((RequestError, ValueError), match=message):
        read(file, "ner", OWNER)


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
