"""Ray is loaded before the libraries of the model, whose C++ breaks Ray's regular expressions."""

import warnings
from contextlib import suppress

with suppress(ImportError), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import ray  # noqa: F401
