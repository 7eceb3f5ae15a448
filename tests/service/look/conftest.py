"""The tests of `elmo look` run small networks."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _small_operations(one_torch_thread: None) -> None:
    """Run the tests of this folder in one thread of torch."""
