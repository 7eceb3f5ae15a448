"""The help of every command: a summary that is not cut, examples."""

from __future__ import annotations

from elmo_serve.cli import main
from tests.support.command_line import elmo


def test_no_summary_is_cut() -> None:
    assert "..." not in elmo("--help").stdout.partition("Commands:")[2]


def test_every_command_has_an_example() -> None:
    listed = [name for name, command in main.commands.items() if not command.hidden]
    texts = {name: elmo(name, "--help").stdout for name in listed}

    assert [name for name, text in texts.items() if f"\n    $ elmo {name} " not in text] == []
