"""The bytes of an array, as encoders send them."""

import numpy as np
import pytest

from elmo_serve.http.media_types.encoder import raw


@pytest.mark.parametrize("shape", [(4,), (2, 3), (3, 2, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_bytes_of_an_array_are_not_copied(shape: tuple[int, ...], dtype: str) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)

    view = raw(array)

    assert bytes(view) == array.tobytes()
    assert np.shares_memory(np.frombuffer(view, np.uint8), array)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 4), (0, 4)])
def test_an_empty_array_has_no_bytes(shape: tuple[int, ...]) -> None:
    assert len(raw(np.zeros(shape, np.float32))) == 0
