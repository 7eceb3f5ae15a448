"""Settings: parsed once, refused in one line, documented by themselves."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from elmo_serve import settings as module
from elmo_serve.settings import (
    Settings,
    SettingsError,
    allowed,
    default,
    from_strings,
    option,
    table,
    variable,
)

ROOT = Path(__file__).parents[2]
CONTRACT = set(
    """
    MODEL DEVICES WORKERS_PER_DEVICE PRECISION HOST PORT TASKS MAX_BATCH_TOKENS MAX_QUEUE_TOKENS
    MAX_REQUEST_SENTENCES MAX_SENTENCE_TOKENS MAX_BODY_BYTES REQUEST_TIMEOUT_SECONDS
    DRAIN_TIMEOUT_SECONDS TOKEN_CACHE_SIZE API_KEYS LOG_LEVEL LOG_FORMAT
    """.split()  # noqa: SIM905
)


def refusal(**values: str) -> str:
    with pytest.raises(SettingsError) as caught:
        from_strings(values)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nothing_set_is_a_sound_setting() -> None:
    settings = from_strings({})

    assert settings == Settings()
    assert settings.model == "english"
    assert settings.port == 8000
    assert settings.max_answer_bytes == 2**30


def test_every_variable_of_the_contract_is_a_field() -> None:
    assert {f"ELMO_{name}" for name in CONTRACT} <= set(map(variable, Settings.model_fields))


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_field_is_described_and_says_what_it_takes(name: str) -> None:
    description = Settings.model_fields[name].description

    assert description
    assert description.endswith(".")
    assert allowed(name)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_default_written_out_is_the_default(name: str) -> None:
    assert from_strings({name: default(name)}) == Settings()


@pytest.mark.parametrize("empty", ["", "  ", None])
@pytest.mark.parametrize("name", Settings.model_fields)
def test_an_empty_value_is_an_unset_one(name: str, empty: str | None) -> None:
    assert from_strings({name: empty}) == Settings()


def test_texts_become_values() -> None:
    settings = from_strings(
        {
            "devices": "cuda:0, CUDA:1",
            "tasks": "/data/tasks",
            "max_batch_tokens": "2048",
            "request_timeout_seconds": "0.5",
            "api_keys": "one,two,one",
            "log_level": "WARNING",
        }
    )

    assert settings.devices == ("cuda:0", "cuda:1")
    assert settings.tasks == Path("/data/tasks")
    assert settings.max_batch_tokens == 2048
    assert settings.request_timeout_seconds == 0.5
    assert settings.api_keys == (SecretStr("one"), SecretStr("two"))
    assert settings.log_level == "warning"


def test_settings_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("port", "x", "an integer from 0 to 65,535"),
        ("port", "65536", "an integer from 0 to 65,535"),
        ("workers_per_device", "0", "an integer from 1 to 64"),
        ("max_body_bytes", "8MiB", "an integer of at least 1"),
        ("request_timeout_seconds", "0", "a number above 0, up to 86,400"),
        ("request_timeout_seconds", "nan", "a number above 0, up to 86,400"),
        ("drain_timeout_seconds", "-1", "a number from 0 to 86,400"),
        ("precision", "int4", "one of float32, bfloat16, float16, int8"),
        ("worker", "fork", "one of process, thread"),
        ("log_level", "loud", "one of debug, info, warning, error"),
        ("log_format", "xml", "one of text, json"),
        ("devices", "gpu", "cuda:0"),
        ("devices", "cuda", "cuda:0"),
        ("devices", "cuda:01", "cuda:0"),
        ("devices", "cpu,", "cuda:0"),
        ("devices", "auto,cpu", "cuda:0"),
        ("devices", "cpu,cpu", "ELMO_WORKERS_PER_DEVICE"),
    ],
)
def test_a_wrong_value_is_named_with_the_good_ones(name: str, value: str, good: str) -> None:
    message = refusal(**{name: value})

    assert message.startswith(f"{variable(name)}={value!r} is not allowed: ")
    assert good in message


def test_a_refusal_calls_a_setting_as_the_user_did() -> None:
    with pytest.raises(SettingsError, match=r"^--port='x' is not allowed"):
        from_strings({"port": "x"}, spoken={"port": option("port")})


def test_a_refusal_is_one_short_line_whatever_the_value() -> None:
    assert len(refusal(port="1\n" * 10_000)) < 300


@pytest.mark.parametrize("keys", ["s3cret,,b", "s3cret with space", "s3crét", ","])
def test_no_secret_is_ever_shown(keys: str) -> None:
    message = refusal(api_keys=keys)

    assert message.startswith("ELMO_API_KEYS (its value is not shown) is not allowed: ")
    assert "s3cr" not in message
    assert "s3cr" not in repr(from_strings({"api_keys": "s3cr"}))


def test_the_longest_sentence_fits_the_batch_and_the_queue() -> None:
    assert "at least 1002" in refusal(max_batch_tokens="1001")
    assert "ELMO_MAX_SENTENCE_TOKENS=50000" in refusal(
        max_sentence_tokens="50000", max_queue_tokens="50001"
    )
    assert from_strings({"max_batch_tokens": "1002"}).max_batch_tokens == 1002


@pytest.mark.parametrize(
    ("device", "sentence", "given", "tokens"),
    [
        ("cpu", 1_000, None, 1_024),
        ("cuda:1", 1_000, None, 16_384),
        ("cpu", 5_000, None, 5_002),
        ("cpu", 1_000, 4_096, 4_096),
        ("cuda:0", 1_000, 4_096, 4_096),
    ],
)
def test_a_batch_is_by_device_and_never_too_small(
    device: str, sentence: int, given: int | None, tokens: int
) -> None:
    settings = Settings(max_sentence_tokens=sentence, max_batch_tokens=given)

    assert settings.batch_tokens(device) == tokens


def test_a_misspelt_field_is_refused_with_those_there_are() -> None:
    message = refusal(prot="1")

    assert "'prot'" in message
    assert "port" in message


def test_a_port_that_kubernetes_set_is_explained() -> None:
    assert "enableServiceLinks" in refusal(port="tcp://10.0.0.1:8000")


def test_the_documentation_is_the_table() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()

    assert table() in text, (
        "run `python -m elmo_serve.settings` and put its table in docs/settings.md"
    )


def test_the_module_prints_the_table() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "elmo_serve.settings"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert run.stdout == table()


def test_settings_do_not_read_the_environment() -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    assert not imported & {"os", "environ", "getenv"}


def test_keys_of_a_file_are_added_to_the_others(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbf# who may\r\nfirst\r\n\r\n  second \nfirst\n#third\nlast#one")

    settings = from_strings({"api_keys": "second,zero", "api_keys_file": str(file)})

    assert settings.every_api_key() == ("second", "zero", "first", "last#one")
    assert not {"first", "second", "zero"} & set(re.findall(r"\w+", repr(settings)))


def test_without_keys_none_is_asked_for() -> None:
    assert from_strings({}).every_api_key() == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is no file"),
        (b"", "holds no key"),
        (b"# only\n\n# comments\n", "holds no key"),
        (b"good\ns3cr et\n", "line 2 is no key"),
        (b"s3cr,et\n", "line 1 is no key"),
        (b"good\n\n\xff\xfe\n", "line 3 is no key"),
        ("s3cr\u00e9t\n".encode(), "line 1 is no key"),
        (b"s3cret\n" * 200_000, "has more than 1048576 bytes"),
    ],
)
def test_a_file_without_good_keys_stops_the_start_in_one_line(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)

    message = refusal(api_keys_file=str(file))

    assert message.startswith(f"ELMO_API_KEYS_FILE={str(file)!r}"[:60])
    assert said in message
    assert message.endswith("allowed: the path of a file with a key a line")
    assert "s3cr" not in message


def test_a_file_that_may_not_be_read_stops_the_start(tmp_path: Path) -> None:
    assert "is no file" in refusal(api_keys_file=str(tmp_path))
    assert "is no file" in refusal(api_keys_file="/dev/zero")
