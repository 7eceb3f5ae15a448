"""CUDA in tests: the device of those that need one, and stand-ins for machines without one.

`CUDA_TEST_DEVICE=cpu make test-cuda` runs the code of the tests of a device where there is none.

`PretendDevice` has values on the CPU and the rules of an accelerator:

    with PretendDevice() as device:
        vectors = Encoder.of(elmo.to(NAME)).embed(sentences)     # tensors on NAME hold CPU values
    device.launches, device.waits, device.blocking_uploads

A tensor on the device is a subclass that holds a tensor of the CPU. An operation on tensors of two
devices raises as on a GPU; each operation that is no view counts as one launch. The name of such a
device is one of the whole process: `make` once, in a process of its own.

`PretendCuda` replaces streams and graph captures; every operation runs at once. `RecordedGraph`
replaces CUDA graphs: the operations of a computation, repeated on the same memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE = os.environ.get("CUDA_TEST_DEVICE", "cuda:0")
KIND = DEVICE.partition(":")[0]
NEEDS_DEVICE = pytest.mark.skipif(
    KIND == "cuda" and not torch.cuda.is_available(), reason="there is no CUDA device"
)


NAME = "pretend"
_register: Callable[..., None] | None = getattr(
    backend_registration, "_setup_privateuseone_for_python_backend", None
)
IS_POSSIBLE = _register is not None

_aten = torch.ops.aten
_MADE_OF_PRODUCTS = (_aten.linear.default, _aten.matmul.default)
WAITS = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "is_nonzero"}
"""Operations whose result the host needs: it waits until all launches are done."""
NO_LAUNCHES = {
    "alias", "as_strided", "chunk", "detach", "empty", "empty_like", "empty_strided", "expand",
    "lift_fresh", "new_empty", "permute", "select", "slice", "split", "split_with_sizes", "squeeze",
    "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "_unsafe_view", "_reshape_alias",
}  # fmt: skip


class _Backend:
    """What torch asks of the module of a device."""

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Do nothing: no random numbers are drawn on the device."""

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


def make() -> None:
    """Name the device, for the whole process."""
    assert _register is not None
    _register(NAME, backend_module=_Backend())
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.inference_mode = _no_grad  # type: ignore[misc, assignment]


def _no_grad(mode: bool = True) -> AbstractContextManager[None]:
    """Take the place of inference mode, whose tensors cannot be made in Python."""
    return torch.no_grad() if mode else nullcontext()


class DeviceTensor(Tensor):
    """A tensor on the device; `on_cpu` has its values."""

    on_cpu: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> DeviceTensor:
        meta = torch.empty_strided(values.shape, values.stride(), dtype=values.dtype, device="meta")
        self: DeviceTensor = torch.Tensor._make_subclass(
            cls, meta, False, dispatch_device=True, device_for_backend_keys=torch.device(NAME, 0)
        )
        self.on_cpu = values
        return self

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device(NAME, 0)

    def tolist(self) -> Any:
        return self.on_cpu.tolist()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{NAME}({self.on_cpu!r})"

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"{func} on a tensor of {NAME} outside of its PretendDevice")


class PretendDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operations of this thread, and counts those that a device would run.

    `waits` and `blocking_uploads` name the operation of each; `downloads` are copies to the CPU
    that do not wait. The last tensor that the operation called `misplaced` gets is moved to the
    CPU, at its first call.
    """

    def __init__(self, misplaced: str = "") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._misplaced = misplaced
        self.reset()

    def reset(self) -> None:
        """Count from zero."""
        self.launches, self.uploads, self.downloads = 0, 0, 0
        self.waits: list[str] = []
        self.blocking_uploads: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _name(func)
        if func in _MADE_OF_PRODUCTS and _on_device((args, kwargs)):
            with self:
                return func.decompose(*args, **kwargs)
        if name == "_to_copy":
            return self._copied(func, args[0], dict(kwargs))
        if name == "copy_" and isinstance(args[1], DeviceTensor) > isinstance(
            args[0], DeviceTensor
        ):
            return self._fetched(func, *args, **kwargs)
        if name == self._misplaced and len(there := _on_device(args)) > 1:
            self._misplaced = ""
            args = _mapped(lambda each: each.on_cpu if each is there[-1] else each, args)
        return self._run(func, name, args, kwargs)

    def _copied(self, func: Any, source: Tensor, kwargs: dict[str, Any]) -> Tensor:
        asked = kwargs.pop("device", None) or source.device
        blocks = not kwargs.pop("non_blocking", False)
        is_there, goes_there = isinstance(source, DeviceTensor), asked.type == NAME
        copy: Tensor = func(_values(source), **kwargs)
        if is_there and goes_there:
            self.launches += 1
        elif is_there:
            self.waits.append("copy to the CPU")
        elif goes_there:
            self.uploads += 1
            self.blocking_uploads += [f"copy of {tuple(source.shape)}"] * blocks
        return DeviceTensor(copy) if goes_there else copy

    def _fetched(
        self, func: Any, target: Tensor, source: DeviceTensor, non_blocking: bool = False
    ) -> Tensor:
        """Copy to a tensor on the CPU."""
        if non_blocking:
            self.downloads += 1
        else:
            self.waits.append("copy to the CPU")
        func(target, source.on_cpu)
        return target

    def _run(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        tensors = _tensors((args, kwargs))
        there = [each for each in tensors if isinstance(each, DeviceTensor)]
        made_there = "device" in kwargs and _type(kwargs["device"]) == NAME
        if not there and not made_there:
            return func(*args, **kwargs)
        others = [each for each in tensors if not isinstance(each, DeviceTensor) and each.dim()]
        if there and others and name == "index" and args[0] is there[0]:  # numbers from the CPU
            self.blocking_uploads += [f"index of {tuple(each.shape)}" for each in others]
        elif there and others:
            raise RuntimeError(f"{func}: tensors on two devices, {NAME}:0 and cpu")
        if name in WAITS or (name.startswith("index") and _has_mask(args)):
            self.waits.append(name)
        self.launches += name not in NO_LAUNCHES and not name.startswith("prim::")
        if "device" in kwargs:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        outputs = func(*_mapped(_values, args), **_mapped(_values, kwargs))
        known = {id(each.on_cpu): each for each in there}

        def wrapped(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return known[id(value)] if id(value) in known else DeviceTensor(value)

        return _mapped(wrapped, outputs)


def _on_device(values: Iterable[Any]) -> list[DeviceTensor]:
    return [each for each in _tensors(values) if isinstance(each, DeviceTensor)]


_NESTED = (tuple, list)
"""The functions below run at each operation; torch's own ones are slow."""


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for each in values:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, _NESTED):
            found += _tensors(each)
        elif isinstance(each, dict):
            found += _tensors(each.values())
    return found


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, _NESTED):
        return type(value)([_mapped(function, each) for each in value])
    if isinstance(value, dict):
        return {name: _mapped(function, each) for name, each in value.items()}
    return function(value)


def _values(value: Any) -> Any:
    return value.on_cpu if isinstance(value, DeviceTensor) else value


@cache
def _name(func: Any) -> str:
    name: str = func.name()
    return name.removeprefix("aten::").partition(".")[0]


def _type(device: torch.device | str | None) -> str | None:
    return None if device is None else torch.device(device).type


def _has_mask(args: Any) -> bool:
    return any(each.dtype == torch.bool for each in _on_device(args[1:]))


class PretendStream:
    """A stream by its number, which writes down for which streams it waits."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.waited_for: list[int] = []

    def wait_stream(self, other: PretendStream) -> None:
        self.waited_for.append(other.number)


class PretendCuda:
    """Takes the place of streams and graphs in `torch.cuda`; `torch.cuda.graph` is torch's own.

    `current` is the stream of the thread, `streams` are all others, `pools` has the memory pool
    that each capture was given. `fail` is called at the end of a capture.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.current = PretendStream()
        self.streams: list[PretendStream] = []
        self.pools: list[Any] = []
        self.fail: Callable[[], None] = lambda: None
        for name, value in {
            "device": nullcontext,
            "Stream": lambda _: self._stream(),
            "current_stream": lambda *_: self.current,
            "stream": self._within,
            "CUDAGraph": lambda: _PretendGraph(self),
            "graph_pool_handle": object,
            "synchronize": lambda: None,
            "empty_cache": lambda: None,
        }.items():
            patch.setattr(torch.cuda, name, value)
        patch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)

    def _stream(self) -> PretendStream:
        self.streams.append(PretendStream(len(self.streams) + 1))
        return self.streams[-1]

    @contextmanager
    def _within(self, stream: PretendStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


class _PretendGraph:
    def __init__(self, device: PretendCuda) -> None:
        self._device = device

    def capture_begin(self, pool: Any = None, **_: Any) -> None:
        self._device.pools.append(pool)

    def capture_end(self) -> None:
        self._device.fail()

    def replay(self) -> None:
        """Do nothing: a capture holds no operations."""


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
                for memory in (each.untyped_storage() for each in _leaves(given)):
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
                for own, new in zip(_leaves(place), _leaves(found), strict=True):
                    if own.data_ptr() != new.data_ptr():
                        own.copy_(new)


def _leaves(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]
