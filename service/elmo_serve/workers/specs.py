"""The devices of this machine, the workers of a model on them, and their main function.

The server imports this module, so torch is imported in `work` alone.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Self

from elmo_model.files.runtime import usable_cores
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.child import ChildProcess
from elmo_serve.processes.slot import Child, SlotSpec
from elmo_serve.processes.watchdog import Timeouts
from elmo_serve.settings import Settings, SettingsError
from elmo_serve.settings.values import ModelSpec
from elmo_serve.workers.messages import Ready, RunnerSettings

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
"""The variable by which the driver hides, orders and names devices."""

_SLICE: Final = "mig-"

MakeWorker = Callable[[RunnerSettings, Arena], Child]

TIMEOUTS: Final = Timeouts()

_MINIMUM_TOKENS: Final = 256
"""Padded tokens below which a batch is bound by latency; the watchdog counts it as that large."""

_GIVEN_UP_DELAY: Final = 300.0
"""Seconds between two starts of a worker that has failed often: each reads the whole checkpoint."""

_log = logging.getLogger("elmo_serve.workers")


@dataclass(frozen=True, slots=True)
class Hardware:
    """The devices that this installation of torch can use, and the cores of the CPU.

    `cuda_devices` is the number that the driver shows to one process. `visible` is the value of
    `CUDA_VISIBLE_DEVICES`, None where it is not set. `cores` are by default those that this process
    may use.

    The driver shows at most one MIG slice to a process, also where the variable lists several. Each
    slice of the list is a device all the same: its worker is a process that sees this slice alone.
    """

    cuda_devices: int
    visible: str | None = None
    is_cpu_build: bool = False
    cores: int = field(default_factory=usable_cores)

    @classmethod
    def here(cls, visible: str | None = None) -> Self:
        """Return the hardware of this machine, as this process sees it.

        Without the value of `CUDA_VISIBLE_DEVICES` it has one MIG slice at most.
        """
        is_cpu_build = importlib.metadata.version("torch").endswith("+cpu")
        count = 0 if is_cpu_build else _cuda_devices()
        return cls(count, visible, is_cpu_build)

    def available(self) -> tuple[str, ...]:
        """Return every CUDA device, or the CPU where there is none."""
        return self._cuda() or ("cpu",)

    def check(self, names: Sequence[str], given: str) -> None:
        """Check that devices exist; `given` is the setting that lists them, as the user wrote it.

        Raises:
            SettingsError: one of them is not here.
        """
        here = ("cpu", *self._cuda())
        for name in names:
            if name not in here:
                raise SettingsError(
                    f"{given} is not allowed: {name}: {self._cause()}; there is {', '.join(here)}"
                )

    def slice_of(self, name: str) -> str:
        """Return the MIG slice that is a device; empty for any other device."""
        return dict(zip(self._cuda(), self._slices(), strict=False)).get(name, "")

    def _cuda(self) -> tuple[str, ...]:
        count = max(self.cuda_devices, len(self._slices())) if self.cuda_devices else 0
        return tuple(f"cuda:{index}" for index in range(count))

    def _slices(self) -> tuple[str, ...]:
        """Return the MIG slices of the variable if it lists nothing else."""
        names = tuple(part.strip() for part in (self.visible or "").split(","))
        return names if all(name.lower().startswith(_SLICE) for name in names) else ()

    def _cause(self) -> str:
        if self.is_cpu_build:
            return "this torch is built without CUDA"
        if self.visible is not None:
            return f"no such device, and {VISIBLE} is {self.visible!r}"
        return "no such device"


def _cuda_devices() -> int:
    """Ask the driver, which heeds CUDA_VISIBLE_DEVICES; no context is made."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def worker_process(settings: RunnerSettings, arena: Arena) -> ChildProcess:
    """Return the process of a worker, which is not started yet."""
    return ChildProcess(f"elmo-worker-{settings.device}", work, (settings,), arena)


def worker_specs(
    model: ModelSpec,
    settings: Settings,
    arena: Arena,
    hardware: Hardware,
    make: MakeWorker = worker_process,
    timeouts: Timeouts = TIMEOUTS,
) -> list[SlotSpec]:
    """Return the workers of one model: `workers_per_device` on each device of `hardware`.

    `make` makes other workers. The workers of all models on the CPU share the cores of `hardware`:
    they run at the same time, and each has measured its pace alone.
    """
    names = hardware.available() if settings.devices == "auto" else settings.devices
    cpu_workers = (
        sum(name == "cpu" for name in names) * settings.workers_per_device * len(settings.specs)
    )
    specs: list[SlotSpec] = []
    is_first = model.name == settings.specs[0].name
    for name in names:
        runner = RunnerSettings(
            model=model.source,
            device=name,
            precision=settings.precision_of(model.name),
            threads=max(1, hardware.cores // cpu_workers) if name == "cpu" else 1,
            warm_up_tokens=settings.batch_tokens(name),
            word_vectors=str(settings.word_vectors or ""),
            softmax=str((is_first and settings.softmax) or ""),
            softmax_words=settings.softmax_words,
            cuda_slice=hardware.slice_of(name),
        )
        spec = SlotSpec(
            name="worker",
            loading="the model is loading",
            make=partial(_made, make, runner, arena),
            timeouts=timeouts,
            minimum_size=_MINIMUM_TOKENS,
            largest_size=settings.batch_tokens(name),
            labels={"model": model.name, "device": name},
            given_up_delay=_GIVEN_UP_DELAY,
        )
        specs += [spec] * settings.workers_per_device
    return specs


def _made(make: MakeWorker, runner: RunnerSettings, arena: Arena, last: Ready | None) -> Child:
    """Make a worker that is told what `last`, an earlier one on its device, has found."""
    return make(replace(runner, known=last), arena)


def work(parent: Parent, settings: RunnerSettings) -> None:
    """Load the model, then run batches until the server closes the channel."""
    if settings.cuda_slice:  # before torch is imported, which reads it once
        os.environ[VISIBLE] = settings.cuda_slice
    # torch, in the worker's process only.
    from elmo_serve.workers import model_loading, model_worker  # noqa: PLC0415

    runner, message = model_loading.start(settings, owns_process=True)
    parent.send(message)
    if runner is None:
        return
    try:
        runner.serve(parent)
    except model_worker.DeviceLostError as error:
        _log.error("device lost", extra={"device": settings.device, "reason": str(error)})
        sys.exit(1)
