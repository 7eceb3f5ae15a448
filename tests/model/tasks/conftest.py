"""Fits are thousands of small tensor operations."""

import pytest


@pytest.fixture(autouse=True)
def _one_thread(one_torch_thread: None) -> None:
    """Use one thread in every test of this folder."""
