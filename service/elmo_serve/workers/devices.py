"""The devices of this machine, found without torch."""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from elmo_model.system import usable_cores
from elmo_serve.settings import SettingsError

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
"""The variable by which the driver hides, orders and names devices."""

_MIG: Final = "mig-"
"""The beginning of the name of a MIG slice, in any case."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The devices that this installation of torch can use, and the cores of the CPU.

    `cuda_devices` is the number that the driver shows to one process. `visible` is the value of
    `CUDA_VISIBLE_DEVICES`, None where it is not set. `cores` are by default those that this process
    may use.
    """

    cuda_devices: int
    visible: str | None = None
    is_cpu_build: bool = False
    cores: int = field(default_factory=usable_cores)

    @classmethod
    def here(cls, visible: str | None = None) -> Self:
        """Return the hardware of this machine, as this process sees it."""
        is_cpu_build = importlib.metadata.version("torch").endswith("+cpu")
        count = 0 if is_cpu_build else _cuda_devices()
        return cls(count, visible, is_cpu_build)

    def available(self) -> tuple[str, ...]:
        """Return every CUDA device, or the CPU where there is none."""
        return self._cuda() or ("cpu",)

    def check(self, names: Sequence[str] | Literal["auto"], given: str) -> None:
        """Check that devices exist; `given` is the setting that lists them, as the user wrote it.

        Raises:
            SettingsError: one of them is not here, or there are several MIG slices, of which the
                driver shows only the first to a process.
        """
        parts = (self.visible or "").split(",")
        slices = sum(part.strip().lower().startswith(_MIG) for part in parts)
        used = self.available() if names == "auto" else names
        if slices > 1 and set(used) != {"cpu"}:
            raise SettingsError(
                f"{VISIBLE} lists {slices} MIG slices, expected one: run one server a slice"
            )
        here = ("cpu", *self._cuda())
        for name in used:
            if name not in here:
                raise SettingsError(
                    f"{given} is not allowed: {name}: {self._cause()}; there is {', '.join(here)}"
                )

    def _cuda(self) -> tuple[str, ...]:
        return tuple(f"cuda:{index}" for index in range(self.cuda_devices))

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
