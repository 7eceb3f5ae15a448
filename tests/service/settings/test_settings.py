"""Settings: checked once, frozen, never read from the environment."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from elmo_serve.settings import Settings
from elmo_serve.settings.text import from_strings


def test_settings_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("device", "sentence", "given", "tokens"),
    [
        ("cpu", 1_000, None, 1_024),
        ("cuda:1", 1_000, None, 16_384),
        ("cpu", 5_000, None, 1_024),
        ("cpu", 35_000, 2_048, 2_048),
        ("cpu", 1_000, 4_096, 4_096),
        ("cuda:0", 1_000, 4_096, 4_096),
    ],
)
def test_a_batch_is_by_device_whatever_the_longest_sentence(
    device: str, sentence: int, given: int | None, tokens: int
) -> None:
    settings = Settings(max_sentence_tokens=sentence, max_batch_tokens=given)

    assert settings.batch_tokens(device) == tokens


def test_keys_of_a_file_are_added_to_the_others(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbf# who may\r\nfirst\r\n\r\n  second \nfirst\n#third\nlast#one")

    settings = from_strings({"api_keys": "second,zero", "api_keys_file": str(file)})

    assert tuple(settings.api_key_names()) == ("second", "zero", "first", "last#one")
    assert not {"first", "second", "zero"} & set(re.findall(r"\w+", repr(settings)))
