"""`elmo serve`: its options are the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_serve.settings import Settings, option, variable
from tests.support.command_line import elmo

TAKES_ANY = {"cache", "model", "host", "tasks"}


def test_help_of_serve_documents_every_setting() -> None:
    text = " ".join(elmo("serve", "--help").output.split())

    for name, field in Settings.model_fields.items():
        assert f"{option(name)} " in text
        assert f"[env var: {variable(name)}]" in text
        assert str(field.description) in text


@pytest.mark.parametrize("name", sorted(Settings.model_fields.keys() - TAKES_ANY))
def test_a_wrong_variable_or_option_stops_the_start_with_one_line(name: str) -> None:
    wrong = "é,"

    by_variable = elmo("serve", **{variable(name): wrong})
    by_option = elmo("serve", f"{option(name)}={wrong}")

    for result, called in ((by_variable, variable(name)), (by_option, option(name))):
        assert result.exit_code == 2
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"elmo: {called}")
        assert "is not allowed: " in line


def test_an_option_wins_over_its_variable() -> None:
    result = elmo("serve", "--port=x", ELMO_PORT="1")

    assert result.stderr.startswith("elmo: --port='x' is not allowed")


def test_all_wrong_settings_are_named_one_a_line() -> None:
    result = elmo("serve", "--port=x", ELMO_WORKER="fork", ELMO_MAX_BODY_BYTES="8MiB")

    assert result.exit_code == 2
    lines = sorted(result.stderr.splitlines())
    for line, name in zip(lines, ("--port", "ELMO_MAX_BODY_BYTES", "ELMO_WORKER"), strict=True):
        assert line.startswith(f"elmo: {name}=")


def test_a_folder_of_tasks_that_is_none_stops_the_start_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")

    for place in (path, path / "below"):
        result = elmo("serve", "--tasks", place)

        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"elmo: --tasks='{place}' is not allowed: ")


def test_a_secret_never_reaches_the_terminal() -> None:
    assert "hunter" not in elmo("serve", ELMO_API_KEYS="hunter two").output
    assert "hunter" not in elmo("serve", "--help", ELMO_API_KEYS="hunter").output


def test_a_misspelt_variable_is_named_with_the_one_that_was_meant() -> None:
    result = elmo("serve", "--port=x", ELMO_PROT="1", ELMO_SERVICE_HOST="10.0.0.1")

    assert result.stderr.splitlines()[0] == (
        "elmo: ELMO_PROT is no setting; did you mean ELMO_PORT?"
    )
    assert "ELMO_SERVICE_HOST" not in result.stderr
