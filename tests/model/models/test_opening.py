"""Models by name or path."""

import pytest

from elmo_model.checkpoints import CheckpointError
from elmo_model.models.opening import open_model


def test_an_unknown_name_is_explained() -> None:
    with pytest.raises(CheckpointError, match="nglish: does not exist"):
        open_model("nglish")
