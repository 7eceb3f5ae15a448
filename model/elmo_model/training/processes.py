"""The processes that train together: one for each device, started by torchrun."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among all of a run: `rank` of `count`. One alone talks to nobody."""

    rank: int
    count: int
    device: torch.device
    control: Any = None  # group over gloo, for what lies on the host

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    def together(self, model: nn.Module) -> nn.Module:
        """Return a model whose gradients are the means over all processes."""
        if self.count == 1:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)

    def gather(self, values: Tensor) -> list[Tensor]:
        """Return every process's values, by rank, on the host."""
        mine = values.detach().cpu()
        if self.count == 1:
            return [mine]
        every = [torch.empty_like(mine) for _ in range(self.count)]
        distributed.all_gather(every, mine.contiguous(), group=self.control)
        return every

    def any(self, flag: bool) -> bool:
        """Return whether any process says so; all processes must ask."""
        if self.count == 1:
            return flag
        said = torch.tensor([int(flag)])
        distributed.all_reduce(said, distributed.ReduceOp.MAX, group=self.control)
        return bool(said.item())

    def wait(self) -> None:
        """Return when all processes are here."""
        self.any(False)


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the processes that torchrun started, or be alone. `device` is "cpu" or "cuda"."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(0, 1, torch.device(device))
        return
    place = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" else device)
    if device == "cuda":
        torch.cuda.set_device(place)
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        control = distributed.new_group(backend="gloo")
        yield Processes(distributed.get_rank(), count, place, control)
    finally:
        distributed.destroy_process_group()
