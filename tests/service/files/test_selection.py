"""The vectors that a file holds, by the names of the options."""

import pytest

from elmo_serve.files.selection import selection
from elmo_serve.files.sentence import FileError


@pytest.mark.parametrize(
    ("layers", "shape"),
    [("all", (3, 5, 8)), ("top", (5, 8)), ("average", (5, 8)), (0, (5, 8)), (2, (5, 8))],
)
def test_a_selection_has_the_shape_of_its_files(layers: str | int, shape: tuple[int, ...]) -> None:
    assert selection(layers, 3).shape(5, 8) == shape


def test_a_layer_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(FileError, match="no layer 3; there are 0 to 2"):
        selection(3, 3)
