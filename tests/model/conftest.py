"""Tests of the network have random numbers that depend on no other test."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.default_generator.manual_seed(0)
