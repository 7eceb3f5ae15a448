"""Sources whose sentences do not depend on each other keep no state."""

import numpy as np

from elmo_serve.files.sources.source import Stateless


def test_a_stateless_source_has_no_state_and_restores_none() -> None:
    source = Stateless()

    source.restore({"h": np.ones(1)})

    assert source.state() == {}
