"""Ray is loaded before the libraries of the model, whose C++ breaks Ray's regular expressions."""

import warnings
from contextlib import suppress

import pytest

with suppress(ImportError), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ray  # noqa: F401


@pytest.fixture(scope="module", autouse=True)
def _small_operations(one_torch_thread: None) -> None:
    """Run the tests of this folder in one thread of torch."""
