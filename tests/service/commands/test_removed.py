"""Commands and options of the last release end with one line that names what replaces them."""

from __future__ import annotations

import pytest

from tests.support.command_line import elmo


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("plan", "bench.json", "--tokens-per-day", "1e9", "--help"), "`elmo bench URL --rate N`"),
        (("study", "eval", "results", "--limit", "3"), "`python -m benchmarks.study`"),
        (("bench", "http://localhost:1", "--find-saturation"), "--clients 64"),
        (("bench", "http://localhost:1", "--reference", "english"), "first one to the same"),
        (("bench", "http://localhost:1", "--key", "secret"), "--api-key"),
        (("look", "a", "b", "--key=secret"), "--api-key"),
    ],
    ids=str,
)
def test_what_is_gone_names_what_replaces_it(arguments: tuple[str, ...], instead: str) -> None:
    found = elmo(*arguments)

    assert (found.exit_code, found.stdout) == (2, "")
    (line,) = found.stderr.splitlines()
    assert " was removed: " in line and instead in line


@pytest.mark.parametrize(
    ("command", "gone"), [((), "plan"), ((), "study"), (("bench",), "--find-saturation")]
)
def test_what_is_gone_is_not_listed(command: tuple[str, ...], gone: str) -> None:
    assert gone not in elmo(*command, "--help").stdout
