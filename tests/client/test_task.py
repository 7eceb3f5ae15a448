"""The client's task has the fields of the server's, so that one can be sent as the other."""

from dataclasses import MISSING, fields

from elmo_client import Task as ClientTask
from elmo_model.network.task import Task
from elmo_serve.tasks.schema import TaskResponse


def described(task: type[Task] | type[ClientTask]) -> dict[str, object]:
    """Return the fields of a task and their defaults."""
    return {each.name: each.default for each in fields(task)}


def test_fields_and_defaults_are_those_of_the_server() -> None:
    assert described(ClientTask) == described(Task)
    assert described(ClientTask)["weights"] is MISSING


def test_every_field_is_in_the_response() -> None:
    assert set(described(ClientTask)) <= set(TaskResponse.model_fields)
