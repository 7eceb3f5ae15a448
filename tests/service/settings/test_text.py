"""Settings as text: strings in, one-line refusals, and the table of docs/settings.md."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from elmo_serve.settings import Settings, SettingsError, variable
from elmo_serve.settings.text import allowed, default, from_strings, table

ROOT = Path(__file__).parents[3]


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
            "cors_origins": "https://example.org/, http://localhost:3000",
            "log_level": "WARNING",
        }
    )

    assert settings.devices == ("cuda:0", "cuda:1")
    assert settings.tasks == Path("/data/tasks")
    assert settings.max_batch_tokens == 2048
    assert settings.request_timeout_seconds == 0.5
    assert settings.api_keys == (SecretStr("one"), SecretStr("two"))
    assert settings.cors_origins == ("https://example.org", "http://localhost:3000")
    assert settings.log_level == "warning"


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
        ("log_level", "loud", "one of debug, info, warning, error"),
        ("log_format", "xml", "one of text, json"),
        ("devices", "gpu", "cpu, cuda, cuda:1"),
        ("devices", "cuda:01", "cpu, cuda, cuda:1"),
        ("devices", "cpu,", "cpu, cuda, cuda:1"),
        ("devices", "auto,cpu", "cpu, cuda, cuda:1"),
        ("devices", "cpu,cpu", "ELMO_WORKERS_PER_DEVICE"),
        ("cors_origins", "example.org", "https://example.org"),
        ("cors_origins", "https://example.org/path", "https://example.org"),
        ("cors_origins", "*,https://example.org", "https://example.org"),
    ],
)
def test_a_wrong_value_is_named_with_the_good_ones(name: str, value: str, good: str) -> None:
    message = refusal(**{name: value})

    assert message.startswith(f"{variable(name)}={value!r} is not allowed")
    assert good in message


def test_a_refusal_is_one_short_line_whatever_the_value() -> None:
    assert len(refusal(port="1\n" * 10_000)) < 300


@pytest.mark.parametrize("keys", ["s3cret,,b", "s3cret with space", "s3crét", ","])
def test_no_secret_is_ever_shown(keys: str) -> None:
    message = refusal(api_keys=keys)

    assert message.startswith("ELMO_API_KEYS (its value is not shown) is not allowed: ")
    assert "s3cr" not in message
    assert "s3cr" not in repr(from_strings({"api_keys": "s3cr"}))


def test_a_misspelt_field_is_refused_with_those_there_are() -> None:
    message = refusal(prot="1")

    assert "'prot'" in message
    assert "port" in message


def test_a_port_that_kubernetes_set_is_explained() -> None:
    assert "enableServiceLinks" in refusal(port="tcp://10.0.0.1:8000")


def test_the_documentation_is_the_table() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()

    assert table() in text, (
        "run `python -m elmo_serve.settings.text` and put its table in docs/settings.md"
    )


def test_a_file_that_is_missing_is_called_so(tmp_path: Path) -> None:
    message = refusal(softmax=str(tmp_path / "no"))
    assert message.endswith("the path of a file")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "holds no key"),
        (b"# only\n\n# comments\n", "holds no key"),
        (b"good\ns3cr et\n", "line 2 is no key"),
        (b"s3cr,et\n", "line 1 is no key"),
        (b"good\n\n\xff\xfe\n", "line 3 is no key"),
        ("s3cr\u00e9t\n".encode(), "line 1 is no key"),
        *[
            (f"good\n{line}\n".encode(), "line 2 is no key")
            for line in (
                '"s3cr"',
                "name: s3 cr",
                "name: 's3cr'",
                "na me: s3cr",
                "name: s3cr # nightly",
            )
        ],
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
    assert "cannot be read" in refusal(api_keys_file=str(tmp_path))
