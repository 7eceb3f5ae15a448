"""Tests of the network: one thread of torch, and random numbers that depend on no other test."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def _one_torch_thread(one_torch_thread: None) -> None:
    """Use the fixture of that name in every module: small operations gain nothing by a second."""


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.default_generator.manual_seed(0)
