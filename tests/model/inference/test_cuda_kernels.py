"""Kernels for CUDA devices, where no device is needed."""

from contextlib import nullcontext

import pytest
import torch

from elmo_model.inference.cuda_kernels import cell_by_torch, compiled, pointwise


@pytest.mark.parametrize("dtype", [torch.float64, torch.int8])
def test_a_type_without_kernels_has_none(dtype: torch.dtype) -> None:
    assert compiled("", ("step",), torch.device("cuda"), dtype) is None


@pytest.mark.parametrize(
    ("number", "message"),
    [(125, "CUDA error: out of memory"), (126, "CUDA error: NVRTC_ERROR_OUT_OF_MEMORY")],
)
def test_a_device_that_is_short_of_memory_for_a_moment_has_kernels_afterwards(
    number: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch fails as one without memory, and the next one compiles again."""
    device, is_short = torch.device("cuda", number), True

    def compile_kernel(source: str, name: str) -> str:
        if is_short:
            raise RuntimeError(message)
        return name

    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "_compile_kernel", compile_kernel)
    with pytest.raises(torch.OutOfMemoryError):
        pointwise(device, torch.float32)
    is_short = False
    assert pointwise(device, torch.float32)[0] is not cell_by_torch
