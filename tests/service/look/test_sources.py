"""A server and a model in process give the same tokens and cosines."""

from __future__ import annotations

import pytest

from elmo_client import Client
from elmo_serve.look.uses import ModelSource, Place, ServerSource
from tests.support.servers import SMALL, Running

TEXTS = ["The bank of the river.", "It isn't a bank."]
PAIRS: list[tuple[Place, Place]] = [((0, 1), (1, 4)), ((0, None), (1, None))]


@pytest.mark.parametrize("centred", [True, False])
def test_both_sources_agree(server: Running, centred: bool) -> None:
    local = ModelSource(str(SMALL), "ptb", centred=centred)
    with Client(server.url) as client:
        remote = ServerSource(client, "ptb", centred=centred)
        tokens = remote.tokens(TEXTS)
        assert tokens == local.tokens(TEXTS)
        assert tokens[1] == ["It", "is", "n't", "a", "bank", "."]
        theirs, own = (source.cosines(tokens, PAIRS) for source in (remote, local))

    assert list(theirs) == list(own) == ["0", "1", "2", "average"]
    for name in own:
        assert list(theirs[name]) == pytest.approx(list(own[name]), abs=1e-4)
    assert own["0"][0] != own["2"][0]
