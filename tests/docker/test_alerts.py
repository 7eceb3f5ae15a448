"""The alert rules: every one real, tested and explained."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from elmo_serve.metrics import Metrics
from elmo_serve.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "prometheus"
GROUPS = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
NAMES = [rule["alert"] for rule in RULES]


def metrics() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return type and labels of everything the service declares, by the name that it is given."""
    found = {}
    for metric in vars(Metrics()).values():
        if isinstance(metric, MetricWrapperBase):
            kind = str(metric._type)
            suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
            kind = "gauge" if kind == "info" else kind
            found[metric._name + suffix] = (kind, tuple(metric._labelnames))
    # That of the log is read from its handler when it is scraped.
    found["elmo_log_lines_dropped_total"] = ("counter", ())
    assert "elmo_log_lines_dropped" in {family.name for family in Metrics().registry.collect()}
    return found


def series() -> set[str]:
    """Return the names of all time series that Prometheus can find."""
    names = {family.name for family in Metrics().registry.collect()}
    for name, (kind, _) in metrics().items():
        parts = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names |= {name + part for part in parts}
    return names


def test_alerts_watch_metrics_that_exist() -> None:
    for rule in RULES:
        used = set(re.findall(r"\belmo_\w+", rule["expr"]))
        assert used or rule["expr"].startswith(("up{", "haproxy_"))
        assert used - series() == set(), rule["alert"]


def test_alerts_say_how_bad_it_is_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert len(rule["annotations"]["description"].split()) >= 10  # the runbook


def failures() -> set[str]:
    """Return the reasons that `elmo_failures_total` counts."""
    return {
        sample.labels["reason"]
        for family in Metrics().registry.collect()
        if family.name == "elmo_failures"
        for sample in family.samples
    }


def test_the_runbook_explains_every_failure_that_is_counted() -> None:
    (rule,) = (rule for rule in RULES if rule["alert"] == "ElmoFailures")
    explained = set(re.findall(r"(\w+)(?:, (\w+))?:", rule["annotations"]["description"]))
    assert {name for pair in explained for name in pair if name} == failures() - {"deadline"}


def test_every_alert_has_a_case_that_sets_it_off() -> None:
    cases = (FOLDER / "alerts_test.yml").read_text()
    assert {name for name in NAMES if f'alertname="{name}"' not in cases} == set()


def test_operations_list_every_alert_under_its_severity() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| (critical|warning): .*? \| (`Elmo.*) \|$", text, re.MULTILINE)
    listed = {name: severity for severity, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == {rule["alert"]: rule["labels"]["severity"] for rule in RULES}


def test_operations_list_every_metric_with_its_type_and_labels() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| `(elmo_\w+)` \| (\w+) \| (.*?) \|", text, re.MULTILINE)
    listed = {name: (kind, tuple(re.findall(r"\w+", labels))) for name, kind, labels in rows}
    model_labels = listed["elmo_model_info"][1]  # given when the model is known
    assert listed == metrics() | {"elmo_model_info": ("gauge", model_labels)}


def test_the_full_queue_is_that_of_the_settings() -> None:
    (rule,) = (rule for rule in RULES if rule["alert"] == "ElmoQueueFilling")
    limit = int(rule["expr"].split(">")[1])
    assert limit == Settings.model_fields["max_queue_tokens"].default * 8 // 10


@pytest.mark.parametrize("name", ["prometheus.yml", "replicas.yml"])
def test_prometheus_accepts_its_configuration(name: str, promtool: Callable[..., str]) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "config", name)


def test_every_alert_fires_and_stays_quiet_when_it_should(promtool: Callable[..., str]) -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")
