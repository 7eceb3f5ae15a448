"""A model's runner in the process of a test: the messages of the server to it, and its answers."""

import pytest

from elmo_serve.processes.arena import Block, BlockName, Bytes
from elmo_serve.processes.channel import Parent
from elmo_serve.workers.messages import Batch, Done, Drop, Failed, Message
from elmo_serve.workers.model_worker import Runner


class Messages(Parent):
    """The server's messages to a worker, which are all there from the start, and its answers."""

    def __init__(self, *messages: Batch | Drop) -> None:
        self._messages = list(messages)
        self.answers: list[Message] = []

    def has_message(self) -> bool:
        return bool(self._messages)

    def receive(self) -> object:
        if not self._messages:
            raise EOFError
        return self._messages.pop(0)

    def send(self, message: object) -> None:
        assert isinstance(message, Done | Failed)
        self.answers.append(message)

    def memory(self, block: Block | BlockName) -> Bytes:
        assert isinstance(block, Block)
        return block.array


def served(runner: Runner, *messages: Batch | Drop) -> list[Message]:
    """Let a runner work on these messages until the server closes the channel."""
    parent = Messages(*messages)
    with pytest.raises(EOFError):
        runner.serve(parent)
    return parent.answers
