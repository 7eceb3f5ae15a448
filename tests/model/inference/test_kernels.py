"""Kernels for CUDA devices, where no device is needed."""

import pytest
import torch

from elmo_model.inference.kernels import compiled


@pytest.mark.parametrize("dtype", [torch.float64, torch.int8])
def test_a_type_without_kernels_has_none(dtype: torch.dtype) -> None:
    assert compiled("", ("step",), torch.device("cuda"), dtype) is None
