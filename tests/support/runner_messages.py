"""A model's runner in the process of a test: the messages of the server to it, and its answers."""

import threading
from collections.abc import Callable

import pytest

from elmo_serve.processes.arena import Block, BlockName, Bytes
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.heartbeat import Heartbeat
from elmo_serve.workers.messages import Batch, Done, Drop, Failed, Message
from elmo_serve.workers.model_worker import Runner


class Messages(Parent):
    """The server's messages to a worker, and all that it sends.

    They are there from the start, except for those in `later` until they are moved. `now` is the
    clock of the heartbeat, which stands still by default.
    """

    def __init__(self, *messages: Batch | Drop, now: Callable[[], float] = lambda: 0.0) -> None:
        self.heart = Heartbeat(self.send, now)
        self._messages = list(messages)
        self.later: list[Batch | Drop] = []
        self.sent: list[object] = []
        self._thread = threading.get_ident()

    def has_message(self) -> bool:
        return bool(self._messages)

    def receive(self) -> object:
        if not self._messages:
            raise EOFError
        return self._messages.pop(0)

    def send(self, message: object) -> None:
        assert threading.get_ident() == self._thread, "only the thread that serves sends"
        self.sent.append(message)

    def memory(self, block: Block | BlockName) -> Bytes:
        assert isinstance(block, Block)
        return block.array


def served(runner: Runner, *messages: Batch | Drop) -> list[Message]:
    """Let a runner work on these messages until the server closes the channel."""
    return serve(runner, Messages(*messages))


def serve(runner: Runner, parent: Messages) -> list[Message]:
    """Do the same with these messages, and keep all that the runner sends in them."""
    with pytest.raises(EOFError):
        runner.serve(parent)
    return [each for each in parent.sent if isinstance(each, Done | Failed)]
