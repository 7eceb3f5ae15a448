"""The help of every command: a summary that is not cut, examples, defaults."""

from __future__ import annotations

import pytest

from elmo_serve.cli import main
from tests.support.command_line import elmo

WITH_EXAMPLES = ("bench", "convert", "download", "evaluate", "info", "perplexity", "plan")


def test_no_summary_is_cut() -> None:
    assert "..." not in elmo("--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_a_command_has_an_example(name: str) -> None:
    text = elmo(name, "--help").stdout

    assert f"\n    $ elmo {name} " in text
    assert set(WITH_EXAMPLES) <= set(main.commands)
