"""The Helm chart: rendered by helm in every variant, valid, locked down."""

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml

from elmo_serve.metrics import Metrics
from elmo_serve.settings import Settings, variable
from tests.docker.engine import ROOT
from tests.docker.kube import CHART, helm, rendered

kubernetes_validate = pytest.importorskip("kubernetes_validate")
_schemas = kubernetes_validate.utils
_schemas.schema_contents = cache(_schemas.schema_contents)  # it reads a file at each call

FOREIGN = {"ServiceMonitor", "PrometheusRule"}
"""Kinds of operators that a cluster may lack: the published schemas know none of them."""

LOCKED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "several models": {
        "models": {"english": "english", "clinical": "/models/clinical"},
        "modelsClaim": "models",
    },
    "settings": {"settings": {"ELMO_MAX_ANSWER_BYTES": 4294967296, "ELMO_PRECISION": "bfloat16"}},
    "ipv6": {"host": "::"},
    "traces": {
        "settings": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
        "networkPolicy": {"downloads": False, "egress": [{"ports": [{"port": 4318}]}]},
    },
    "keys of a secret": {"apiKeys": {"existingSecret": "my-keys"}},
    "own keys": {"apiKeys": {"keys": ["one", "two"]}},
    "tasks": {"tasksConfigMap": "tasks"},
    "gpu": {"gpus": 2, "resources": {"limits": {"memory": "16Gi"}}},
    "hpa": {"autoscaling": {"enabled": True}},
    "monitoring": {"monitoring": {"enabled": True, "labels": {"release": "prometheus"}}},
    "placement": {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "nlp", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "image": {"digest": "sha256:" + "0" * 64},
    },
    "no network policy": {"networkPolicy": {"enabled": False}},
    "no downloads": {"networkPolicy": {"downloads": False}, "drainSeconds": 120},
}


@cache
def objects(variant: str) -> dict[str, Any]:
    """Return the objects of a variant by their kind; a kind occurs once."""
    found = rendered(VARIANTS[variant])
    kinds = [each["kind"] for each in found]
    assert len(kinds) == len(set(kinds)), kinds
    return {each["kind"]: each for each in found}


def pod(variant: str) -> dict[str, Any]:
    spec: dict[str, Any] = objects(variant)["Deployment"]["spec"]["template"]["spec"]
    return spec


def container(variant: str) -> dict[str, Any]:
    (only,) = pod(variant)["containers"]
    assert isinstance(only, dict)
    return only


def environment(variant: str) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(variant)["env"]}


def volumes(variant: str) -> dict[str, Any]:
    return {each["name"]: each for each in pod(variant)["volumes"]}


def test_the_linter_finds_nothing() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_is_valid_and_keeps_the_promises(variant: str) -> None:
    found = objects(variant)
    for manifest in found.values():
        if manifest["kind"] not in FOREIGN:
            version = kubernetes_validate.latest_version()
            kubernetes_validate.validate(manifest, version, strict=True)

    spec = pod(variant)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert container(variant)["securityContext"] == LOCKED
    selector = found["Deployment"]["spec"]["selector"]["matchLabels"]
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    assert found["Service"]["spec"]["selector"] == selector
    for kind in {"PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor"} & found.keys():
        spec = found[kind]["spec"]
        assert spec.get("podSelector", spec.get("selector"))["matchLabels"] == selector

    settings = {*map(variable, Settings.model_fields), "OTEL_EXPORTER_OTLP_ENDPOINT"}
    assert environment(variant).keys() <= settings
    mounts = {each["name"]: each for each in container(variant)["volumeMounts"]}
    assert mounts.keys() == volumes(variant).keys()
    writable = {name for name, mount in mounts.items() if not mount.get("readOnly")}
    assert writable == {"tmp", "cache"}
    assert all("emptyDir" in volumes(variant)[name] for name in writable)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"host": "127.0.0.1"}, "host"),
        ({"settings": {"ELMO_PRECISON": "int8"}}, "ELMO_PRECISON"),
        ({"settings": {"ELMO_API_KEYS": "secret"}}, "ELMO_API_KEYS"),
        ({"cacheSize": "much"}, "cacheSize"),
        ({"gpus": True}, "gpus"),
        ({"image": {"digest": "latest"}}, "image.digest"),
        ({"model": "/models/x"}, "/models/x"),
        ({"model": "/data/x", "modelsClaim": "models"}, "/data/x"),
        ({"models": {"clinical": "/models/clinical"}}, "/models/clinical"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: dict[str, Any], named: str) -> None:
    done = helm("template", "elmo", str(CHART), values=values)
    assert done.returncode != 0
    assert named in done.stderr


def test_every_setting_can_be_set_but_what_the_chart_sets() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = schema["properties"]["settings"]["propertyNames"]["anyOf"][1]["enum"]
    own = {"ELMO_MODELS", "ELMO_MODEL", "ELMO_HOST", "ELMO_PORT", "ELMO_CACHE", "ELMO_TASKS"}
    own |= {"ELMO_API_KEYS", "ELMO_API_KEYS_FILE", "ELMO_DRAIN_TIMEOUT_SECONDS"}
    own |= {"ELMO_LOG_FORMAT", "ELMO_PUBLISHED_ADDRESS"}
    assert {*names} == {*map(variable, Settings.model_fields)} - own


def test_settings_reach_the_server_as_they_are_written() -> None:
    assert environment("settings")["ELMO_MAX_ANSWER_BYTES"] == "4294967296"
    assert environment("settings")["ELMO_PRECISION"] == "bfloat16"
    assert environment("traces")["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    egress = objects("traces")["NetworkPolicy"]["spec"]["egress"]
    assert egress == [{"ports": [{"port": 4318}]}]
    assert environment("ipv6")["ELMO_HOST"] == "::"
    several = environment("several models")
    assert several["ELMO_MODELS"] == "english=english,clinical=/models/clinical"
    assert "ELMO_MODEL" not in several


def test_models_are_fetched_from_the_addresses_of_the_catalogue() -> None:
    """Some published models have addresses that begin with http://."""
    (rule,) = objects("default")["NetworkPolicy"]["spec"]["egress"]
    assert {port["port"] for port in rule["ports"]} >= {53, 80, 443}


@pytest.mark.parametrize("variant", ["default", "no downloads"])
def test_a_pod_is_given_the_time_to_drain(variant: str) -> None:
    drain = int(environment(variant)["ELMO_DRAIN_TIMEOUT_SECONDS"])
    (command,) = container(variant)["lifecycle"]["preStop"]["exec"]["command"][-1:]
    (pause,) = re.findall(r"sleep\((\d+)\)", command)
    assert pod(variant)["terminationGracePeriodSeconds"] > 2 * drain + int(pause)
    own = int(environment("default")["ELMO_DRAIN_TIMEOUT_SECONDS"])
    assert own == Settings.model_fields["drain_timeout_seconds"].default


def test_keys_are_files_of_a_secret() -> None:
    """A file of a whole mounted Secret changes with the Secret; a variable would not."""
    for variant, name in (("keys of a secret", "my-keys"), ("own keys", "elmo-serve")):
        assert volumes(variant)["keys"]["secret"] == {"secretName": name}
        (mount,) = (m for m in container(variant)["volumeMounts"] if m["name"] == "keys")
        assert "subPath" not in mount
        assert environment(variant)["ELMO_API_KEYS_FILE"] == mount["mountPath"] + "/keys"
    assert "Secret" not in objects("keys of a secret")
    assert objects("own keys")["Secret"]["stringData"]["keys"].split() == ["one", "two"]
    assert "ELMO_API_KEYS_FILE" not in environment("default")


def test_tasks_are_files_of_a_config_map() -> None:
    assert volumes("tasks")["tasks"]["configMap"] == {"name": "tasks"}
    assert environment("tasks")["ELMO_TASKS"] == "/tasks"
    assert "ELMO_TASKS" not in environment("default")


def test_a_gpu_is_asked_for_and_missed() -> None:
    """Without a GPU the start fails with a reason: `auto` would take the CPU unnoticed."""
    assert environment("gpu")["ELMO_DEVICES"] == "cuda:0,cuda:1"
    assert container("gpu")["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": 2}
    (toleration,) = pod("gpu")["tolerations"]
    assert toleration["key"] == "nvidia.com/gpu"


def test_the_autoscaler_alone_sets_the_number_of_replicas() -> None:
    assert objects("default")["Deployment"]["spec"]["replicas"] == 2
    assert "replicas" not in objects("hpa")["Deployment"]["spec"]
    scaler = objects("hpa")["HorizontalPodAutoscaler"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 16)
    (metric,) = scaler["metrics"]
    assert metric["pods"]["metric"]["name"] in served_gauges()


def test_the_autoscaler_acts_on_a_shorter_queue_than_admission_allows() -> None:
    """A request that would wait for half of its timeout is refused, however few tokens wait."""
    admitted = 1_000 * Settings().request_timeout_seconds / 2  # at 1,000 tokens/s
    (metric,) = objects("hpa")["HorizontalPodAutoscaler"]["spec"]["metrics"]
    target = int(metric["pods"]["target"]["averageValue"])
    tolerance = 0.1  # of the HorizontalPodAutoscaler: it leaves a load of 1.1 x the target alone
    assert (1 + tolerance) * target < admitted / 2  # rather long before


def test_prometheus_finds_the_service_under_the_name_that_alerts_know() -> None:
    (endpoint,) = objects("monitoring")["ServiceMonitor"]["spec"]["endpoints"]
    service = objects("monitoring")["Service"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    (label,) = endpoint["relabelings"]
    assert label == {"targetLabel": "job", "replacement": "elmo"}
    for kind in FOREIGN:
        assert objects("monitoring")[kind]["metadata"]["labels"]["release"] == "prometheus"


def test_the_rules_are_the_file_of_compose() -> None:
    alerts = yaml.safe_load((ROOT / "docker" / "prometheus" / "alerts.yml").read_text())
    assert objects("monitoring")["PrometheusRule"]["spec"] == alerts


def test_two_releases_of_a_namespace_share_nothing() -> None:
    names = [
        {(o["kind"], o["metadata"]["name"]) for o in rendered(VARIANTS["monitoring"], release)}
        for release in ("english", "clinical")
    ]
    assert not names[0] & names[1]


def served_gauges() -> set[str]:
    """Return the gauges that the service reads when it is scraped."""
    watched = re.compile(r"\"(queue_\w+)\"")
    sources = (ROOT / "service" / "elmo_serve").rglob("*.py")
    return {f"elmo_{name}" for s in sources for name in watched.findall(s.read_text())} | {
        f"elmo_{name}" for name in vars(Metrics())
    }
