"""Arguments of `serve run`: settings by name, and the size of the deployment."""

import pytest

from elmo_serve.distributed.ray_options import parse
from elmo_serve.settings import SettingsError


def test_arguments_are_settings_and_options() -> None:
    given = {"model": "english", "max_batch_tokens": 2_048, "max_replicas": "3"}
    settings, options = parse(given, {})

    assert settings.model == "english"
    assert settings.max_batch_tokens == 2_048
    assert (options.min_replicas, options.max_replicas) == (1, 3)


def test_an_argument_wins_over_its_variable() -> None:
    environment = {"ELMO_PRECISION": "bfloat16", "ELMO_MODELS": "english,original"}

    settings, _ = parse({"model": "random-small"}, environment)

    assert settings.precision == "bfloat16"
    assert [spec.name for spec in settings.specs] == ["random-small"]


def test_a_removed_setting_is_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    parse({"cuda_graphs": True}, {})
    parse({}, {"ELMO_CUDA_GRAPHS": "true"})
    parse({}, {"ELMO_CUDA_GRAPHS": ""})

    told = [line.partition(": ") for line in caplog.messages]
    assert [called for called, _, _ in told] == ["cuda_graphs", "ELMO_CUDA_GRAPHS"]
    assert all(reason.startswith("CUDA graphs were removed: ") for _, _, reason in told)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"modell": "english"}, "'modell' is no setting"),
        ({"max_batch_tokens": "many"}, "max_batch_tokens='many' is not allowed"),
        ({"max_replicas": 0}, "max_replicas"),
        ({"min_replicas": 3}, "min_replicas=3 is above max_replicas=1"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        parse(arguments, {})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("http_replicas", "max_replicas"),
        ("models_per_replica", "an application for each model"),
        ("metrics_seconds", "every 2 seconds"),
    ],
)
def test_a_removed_argument_is_answered_with_its_replacement(name: str, instead: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} was removed: .*{instead}"):
        parse({name: 1, "model": "english"}, {})


def test_a_target_of_no_tokens_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^tokens_per_replica: .* greater than or equal to 1"):
        parse({"tokens_per_replica": 0}, {})
