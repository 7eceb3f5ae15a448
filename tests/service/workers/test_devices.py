"""Devices are checked before anything is started, without torch."""

from __future__ import annotations

from typing import Any

import pytest

from elmo_serve.settings import SettingsError
from elmo_serve.settings.text import from_strings
from elmo_serve.workers.devices import Hardware


def test_there_is_a_device() -> None:
    hardware = Hardware.here()

    names = hardware.available()

    assert names == ("cpu",) or all(name.startswith("cuda:") for name in names)
    hardware.check(names, "ELMO_DEVICES='...'")
    hardware.check(("cpu",), "ELMO_DEVICES='cpu'")


def test_every_gpu_that_the_driver_shows_is_used() -> None:
    # The driver has applied CUDA_VISIBLE_DEVICES already: cuda:0 is the GPU 2, cuda:1 the GPU 0.
    for visible in (None, "2,0", "GPU-2f5e,GPU-8a1c"):
        hardware = Hardware(2, visible)

        assert hardware.available() == ("cuda:0", "cuda:1")
        hardware.check(("cuda:1",), "ELMO_DEVICES='cuda:1'")


@pytest.mark.parametrize("visible", [None, "", "-1", "7", "MIG-gone"])
def test_without_a_visible_gpu_auto_is_the_cpu(visible: str | None) -> None:
    assert Hardware(0, visible).available() == ("cpu",)


def test_a_mig_slice_is_a_device() -> None:
    for visible in ("MIG-1c2d", "GPU-2f5e,MIG-1c2d"):
        hardware = Hardware(1, visible)

        hardware.check("auto", "ELMO_DEVICES='auto'")
        assert hardware.available() == ("cuda:0",)


@pytest.mark.parametrize("names", ["auto", ("cuda:0",), ("cpu", "cuda:0")])
def test_of_several_mig_slices_each_needs_a_server(names: Any) -> None:
    """The driver shows the first one alone, so the others would be idle without a word."""
    hardware = Hardware(1, "MIG-1c2d, MIG-GPU-8a1c/1/0,mig-3e4f")

    with pytest.raises(SettingsError, match="3 MIG slices"):
        hardware.check(names, "ELMO_DEVICES='...'")
    hardware.check(("cpu",), "ELMO_DEVICES='cpu'")


@pytest.mark.parametrize(
    ("hardware", "cause"),
    [
        (Hardware(1), "cuda:1: no such device; there"),
        (Hardware(1, "3"), "CUDA_VISIBLE_DEVICES is '3'; there is cpu, cuda:0"),
        (Hardware(0, None, is_cpu_build=True), "built without CUDA"),
    ],
)
def test_a_device_that_is_not_here_is_named_with_those_that_are(
    hardware: Hardware, cause: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        hardware.check(("cpu", "cuda:1"), "ELMO_DEVICES='CPU,cuda:1'")

    assert cause in str(caught.value) and "'CPU,cuda:1'" in str(caught.value)


def test_cuda_is_the_first_cuda_device() -> None:
    assert from_strings({"devices": "CUDA, cuda:1"}).devices == ("cuda:0", "cuda:1")
