"""CUDA graphs on a CPU: the operations of a computation, repeated on the same memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.support.pretend_device import WAITS


class RecordedGraph:
    """Takes the place of `GraphCapture`: a replay runs no Python of the computation."""

    def __init__(self, _: torch.device | None = None) -> None:
        self.captures = self.replays = 0

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Compute once and record; what a recording writes is undone, as a capture writes none."""
        self.captures += 1
        compute()
        with (recorded := _Recorder()):
            compute()
        recorded.undo()

        def replay() -> None:
            self.replays += 1
            recorded.repeat()

        return replay


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations: list[tuple[Any, ...]] = []
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        assert func.name().removeprefix("aten::").partition(".")[0] not in WAITS, func
        for number, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[number] if number < len(args) else kwargs.get(argument.name)
                for memory in (each.untyped_storage() for each in _tensors(given)):
                    self._before.setdefault(memory.data_ptr(), (memory, memory.clone()))  # type: ignore[no-untyped-call]
        found = func(*args, **kwargs)
        self._operations.append((func, args, kwargs, found))
        return found

    def undo(self) -> None:
        for memory, before in self._before.values():
            memory.copy_(before)

    def repeat(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, place in self._operations:
                found = func(*args, **kwargs)
                for own, new in zip(_tensors(place), _tensors(found), strict=True):
                    if own.data_ptr() != new.data_ptr():
                        own.copy_(new)


def _tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]
