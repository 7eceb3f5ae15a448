"""Steps by a captured graph are the steps that single launches take."""

from collections.abc import Callable

import torch
from torch import Tensor

from elmo_model.training.batches import Batch
from elmo_model.training.step_graph import StepGraph
from tests.model.training.test_batches import batches


class Recorded:
    """Stands for graphs: counts captures, reads a batch only where the graph has it."""

    def __init__(self) -> None:
        self.captures = 0
        self.places = set[int]()

    def on(self, _: torch.device) -> Callable[[Callable[[], None]], Callable[[], None]]:
        def capture(compute: Callable[[], None]) -> Callable[[], None]:
            self.captures += 1
            compute()
            return compute

        return capture

    def learn(self, batch: Batch) -> tuple[Tensor, Tensor]:
        self.places.add(batch.tensors[0].data_ptr())
        sums = [values.double().sum() for values in batch.tensors]
        return torch.stack(sums), sums[0]


def test_every_batch_is_read_where_it_was_captured_and_once_more_for_other_shapes() -> None:
    known = Recorded()
    graph = StepGraph(known.learn, torch.device("cpu"), known.on)
    drawn = batches(chunk=None)
    some = [drawn.next_batch(number) for number in range(4)]
    wider = batches(chunk=None, rows=4).next_batch(0)
    for batch in (*some, wider, wider):
        assert batch is not None
        expected = [values.double().sum() for values in batch.tensors]
        losses, norm = graph(batch)
        assert losses.tolist() == [float(value) for value in expected] and norm == expected[0]
    assert known.captures == 2 and len(known.places) == 2
