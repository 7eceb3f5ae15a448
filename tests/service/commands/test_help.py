"""The help of the commands: sections, one order of options, examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from elmo_serve.cli import SECTIONS, main
from elmo_serve.commands.options import ORDER
from tests.support.command_line import elmo

LISTED = {name: command for name, command in main.commands.items() if not command.hidden}


def test_every_command_stands_in_one_section_and_no_summary_is_cut() -> None:
    listed = [str(command.name) for section in SECTIONS.values() for command in section]
    text = elmo("--help").stdout

    assert sorted(listed) == sorted(LISTED)
    assert all(f"\n{title}:\n" in text for title in SECTIONS)
    assert [name for name in listed if text.count(f"\n  {name} ") != 1] == []
    assert "..." not in text.partition("-h, --help")[2]


def test_every_command_has_an_example() -> None:
    texts = {name: elmo(name, "--help").stdout for name in LISTED}

    assert [name for name, text in texts.items() if f"\n    $ elmo {name} " not in text] == []


def test_every_option_has_a_text() -> None:
    options = [(name, each) for name, command in LISTED.items() for each in command.params]
    assert [
        (name, each.opts)
        for name, each in options
        if isinstance(each, click.Option) and not each.hidden and not each.help
    ] == []


@pytest.mark.parametrize("name", sorted(LISTED))
def test_shared_options_come_last_in_one_order(name: str) -> None:
    params = LISTED[name].params
    options = [each.name or "" for each in params if isinstance(each, click.Option)]
    shared = [each for each in options if each in ORDER]

    assert options[len(options) - len(shared) :] == sorted(shared, key=ORDER.index)


def test_elmo_alone_says_in_five_lines_what_to_do_next() -> None:
    found = elmo()

    assert (found.exit_code, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    assert len(lines) == 5
    assert {line.split()[2] for line in lines} <= {*LISTED, "--help"}
    assert all(line.startswith("$ elmo ") and len(line) < 100 for line in lines)


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("elmo")

    for option in ("--version", "-V"):
        run = subprocess.run([command, option], capture_output=True, text=True, check=True)

        assert run.stdout.startswith("elmo, version ")
