"""`elmo look`: similarities in the terminal."""

from __future__ import annotations

import json

from tests.support.command_line import elmo
from tests.support.scripted_server import refuse, scripted_server
from tests.support.servers import SMALL

BANKS = (
    "We sat on the bank of the river.",
    "Trees grow along the bank of the stream.",
    "He borrowed money from a bank.",
)


def test_meanings_differ_in_the_layers_above_the_token_layer() -> None:
    found = elmo("look", *BANKS, "--word", "bank", "--json")

    assert found.exit_code == 0, found.output
    pairs = json.loads(found.stdout)["pairs"]
    rivers, other = pairs["1 and 2"], pairs["1 and 3"]
    assert rivers["layer 0"] > 0.999 and other["layer 0"] > 0.999, "one spelling, one vector"
    assert other["layer 1"] < rivers["layer 1"] and other["layer 2"] < rivers["layer 2"]


def test_the_table_names_the_uses() -> None:
    found = elmo("look", *BANKS, "--model", SMALL, "--word", "Bank", "--raw")

    assert found.exit_code == 0, found.output
    assert 'Cosine of uses of "Bank"\n' in found.stdout
    assert "3 He borrowed money from a [bank] ." in found.stdout
    assert "layer 2" in found.stdout and "2 and 3" in found.stdout


def test_a_refusal_is_one_line() -> None:
    with scripted_server() as server:
        server.script = [refuse(401)] * 9  # one for each request
        refused = elmo("look", *BANKS, "--server", server.url)

    assert refused.exit_code == 1 and len(refused.stderr.splitlines()) == 1
    assert "--api-key" in refused.stderr
