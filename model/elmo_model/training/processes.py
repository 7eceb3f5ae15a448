"""The processes of a distributed run: one per device, started by torchrun."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from elmo_model.training import TrainingError

_PATIENCE = timedelta(days=7)
"""Time that a process waits for the others: the first one alone encodes the text and measures."""


@dataclass(frozen=True, slots=True)
class Processes:
    """This process, `rank` of `count`. A single process communicates with no other."""

    rank: int
    count: int
    device: torch.device
    control: Any = None  # gloo group, for tensors in host memory

    @property
    def first(self) -> bool:
        """Whether this process writes the files and reports."""
        return self.rank == 0

    def data_parallel(self, model: nn.Module) -> nn.Module:
        """Return the model with gradients that are means over all processes."""
        if self.count == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)

    def gather(self, values: Tensor) -> list[Tensor]:
        """Return the values of every process, by rank, in host memory."""
        mine = values.detach().cpu()
        if self.count == 1:
            return [mine]
        every = [torch.empty_like(mine) for _ in range(self.count)]
        distributed.all_gather(every, mine.contiguous(), group=self.control)
        return every

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace gradients by their means over all processes, as `data_parallel` does."""
        if self.count == 1:
            return
        for parameter in parameters:
            assert parameter.grad is not None
            distributed.all_reduce(parameter.grad)
            parameter.grad /= self.count

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process; all processes must call this."""
        if self.count == 1:
            return flag
        flags = torch.tensor([int(flag)])
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self.control)
        return bool(flags.item())

    def wait(self) -> None:
        """Return once all processes have called this."""
        self.any(False)


@contextmanager
def process_group(device: str) -> Iterator[Processes]:
    """Join the processes that torchrun started, if any. `device` is "cpu" or "cuda"."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(0, 1, torch.device(device))
        return
    if "LOCAL_RANK" not in os.environ:
        raise TrainingError("WORLD_SIZE is set without LOCAL_RANK, expected a start by torchrun")
    place = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" else device)
    if device == "cuda":
        torch.cuda.set_device(place)
    distributed.init_process_group("nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        control = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        yield Processes(distributed.get_rank(), count, place, control)
    finally:
        distributed.destroy_process_group()
