"""The device of the tests that need a CUDA device.

`CUDA_TEST_DEVICE=cpu make test-cuda` runs their code where there is none.
"""

import os

import pytest
import torch

DEVICE = os.environ.get("CUDA_TEST_DEVICE", "cuda:0")
KIND = DEVICE.partition(":")[0]
NEEDS_DEVICE = pytest.mark.skipif(
    KIND == "cuda" and not torch.cuda.is_available(), reason="there is no CUDA device"
)
