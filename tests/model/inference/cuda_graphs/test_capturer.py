"""A capturer repeats a computation on the same buffers."""

import torch

from elmo_model.inference.cuda_graphs.capturer import Capturer
from tests.support.capturers import Again, Fading


class Doubling:
    """Adds one to a buffer and doubles it."""

    def __init__(self) -> None:
        self.buffer = torch.zeros(1)

    def add(self) -> None:
        self.buffer.add_(1)

    def double(self) -> None:
        self.buffer.mul_(2)


def test_a_replay_computes_on_the_same_buffers() -> None:
    doubling = Doubling()
    capturer: Capturer = Again()
    replay = capturer.capture(lambda: capturer.both(doubling.add, doubling.double))
    replay()
    replay()
    assert doubling.buffer.item() == 6


def test_a_fading_capturer_stops_to_compute() -> None:
    doubling = Doubling()
    replay = Fading(2).capture(doubling.add)
    replay()
    replay()
    assert doubling.buffer.item() == 1
