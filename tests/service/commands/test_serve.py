"""`elmo serve`: its options are the settings."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from elmo_serve.commands.serve_settings import with_resolved_models
from elmo_serve.settings import Settings, option, variable
from elmo_serve.settings.text import allowed, from_strings
from elmo_serve.workers.devices import Hardware
from tests.support.command_line import elmo
from tests.support.servers import SMALL

TAKES_ANY = {"cache", "model", "host", "published_address", "tasks"}
NUMBERS = ("an integer ", "a number ")


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
        assert " is not allowed" in line and "; allowed: " in line


def test_one_of_several_models_that_is_not_there_is_named_with_the_setting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = from_strings({"models": "english,a=/nope"})

    assert [bool(spec.fault) for spec in with_resolved_models(settings, "--models").sources] == [
        0,
        1,
    ]
    missing = "/nope: does not exist, expected a checkpoint"
    assert capsys.readouterr().err.startswith(f"elmo: --models: model a: {missing}")
    assert elmo("serve", "--model", "/nope").stderr.startswith(f"elmo: {missing}")


@pytest.mark.parametrize("name", ["api_keys", "model", "port"])
def test_an_option_without_a_value_stops_the_start(name: str) -> None:
    called = option(name)
    assert elmo("serve", called, **{variable(name): "1"}).exit_code == 2
    for arguments in ([called, ""], [f"{called}= "]):
        result = elmo("serve", *arguments, **{variable(name): "1"})

        assert result.exit_code == 2
        assert result.stderr == f"elmo: {called} has no value; allowed: {allowed(name)}\n"


@pytest.mark.parametrize("number", ["-1", "-.5"])
def test_a_negative_number_is_refused_by_its_option(number: str) -> None:
    names = [name for name in Settings.model_fields if allowed(name).startswith(NUMBERS)]
    assert {"drain_timeout_seconds", "softmax_words", "port"} <= {*names}
    refusals = {
        f"elmo: {option(n)}='{number}' is not allowed; allowed: {allowed(n)}" for n in names
    }

    apart = elmo("serve", *(part for name in names for part in (option(name), number)))
    joined = elmo("serve", *(f"{option(name)}={number}" for name in names))

    for result in (apart, joined):
        assert result.exit_code == 2
        assert {*result.stderr.splitlines()} == refusals


@pytest.mark.parametrize("name", ["--tasks", "--cache"])
def test_a_folder_that_is_none_stops_the_start_with_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_text("")

    for place in (path, path / "below"):
        result = elmo("serve", name, place)

        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"elmo: {name}='{place}' is not allowed: ")
        assert "allowed: a folder that can be read" in line


def test_a_folder_of_tasks_that_is_missing_is_not_made(tmp_path: Path) -> None:
    assert elmo("serve", "--tasks", tmp_path / "misspelt").exit_code == 2
    assert not list(tmp_path.iterdir())


def test_a_secret_never_reaches_the_terminal() -> None:
    assert "hunter" not in elmo("serve", ELMO_API_KEYS="hunter two").output
    assert "hunter" not in elmo("serve", "--help", ELMO_API_KEYS="hunter").output


def test_a_misspelt_variable_is_named_with_the_one_that_was_meant() -> None:
    others = {"ELMO_SERVICE_HOST": "10.0.0.1", "ELMO_API_KEY": "sesame", "ELMO_API_KEYS": "a"}

    result = elmo("serve", "--port=x", ELMO_PROT="1", **others)

    assert result.stderr.splitlines()[0] == (
        "elmo: ELMO_PROT is no setting; did you mean ELMO_PORT?"
    )
    assert not any(name in result.stderr for name in others)


def test_the_key_of_a_client_is_not_taken_for_that_of_a_server() -> None:
    told = elmo("serve", "--port=x", ELMO_API_KEY="sesame").stderr.splitlines()[0]

    assert told == (
        "elmo: ELMO_API_KEY is the key that a client sends; the server's keys are ELMO_API_KEYS"
    )


def test_threads_of_workers_sleep_soon_unless_the_user_says_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def serve(_settings: Settings, _hardware: Hardware, environment: Mapping[str, str]) -> int:
        seen.append(environment["GOMP_SPINCOUNT"])  # the processes of workers inherit it
        return 0

    monkeypatch.setattr("elmo_serve.http.server.serve", serve)
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    elmo("serve", "--model", SMALL)
    monkeypatch.delenv("GOMP_SPINCOUNT")
    elmo("serve", "--model", SMALL)

    assert seen == ["7", "10000"]


def test_a_port_that_is_taken_stops_the_start_with_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        result = elmo("serve", f"--port={port}", "--model", SMALL)

    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"ELMO_PORT={port} (--port)" in line and line.endswith("in use")


def test_the_import_of_the_command_line_installs_no_signal_handler() -> None:
    code = (
        "import signal\n"
        "before = signal.getsignal(signal.SIGTERM)\n"  # not the default where coverage is measured
        "import elmo_serve.cli\n"
        "print(signal.getsignal(signal.SIGTERM) is before)"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "True"
