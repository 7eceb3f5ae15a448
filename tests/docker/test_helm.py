"""The Helm chart: rendered by helm in every variant, valid, locked down."""

import json
import re
from functools import cache
from typing import Any, cast

import pytest
import yaml

from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.admission import Admission, Limits
from elmo_serve.scheduling.dispatcher import Dispatcher
from elmo_serve.settings import Settings, variable
from tests.docker.engine import ROOT
from tests.docker.kube import CHART, helm, rendered

kubernetes_validate = pytest.importorskip("kubernetes_validate")
_schemas = kubernetes_validate.utils
_schemas.schema_contents = cache(_schemas.schema_contents)  # it reads a file at each call

FOREIGN = {"ServiceMonitor", "PrometheusRule", "ScaledObject"}
"""Kinds of operators that a cluster may lack: the published schemas know none of them."""

LOCKED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "several models": {"models": {"english": "english", "clinical": "/models/clinical"}},
    "settings": {"settings": {"ELMO_MAX_ANSWER_BYTES": 4294967296, "ELMO_PRECISION": "bfloat16"}},
    "ipv6": {"host": "::"},
    "traces": {
        "settings": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
        "networkPolicy": {"downloads": False, "egress": [{"ports": [{"port": 4318}]}]},
    },
    "keys of a secret": {"apiKeys": {"existingSecret": "my-keys", "key": "all"}},
    "generated key": {"apiKeys": {"generate": True}},
    "gpu": {"gpu": {"enabled": True, "count": 2}, "resources": {"limits": {"memory": "16Gi"}}},
    "mig": {"gpu": {"enabled": True, "resource": "nvidia.com/mig-1g.10gb"}},
    "hpa": {"autoscaling": {"kind": "hpa"}, "serviceMonitor": {"enabled": True}},
    "keda": {"autoscaling": {"kind": "keda", "minReplicas": 3}},
    "own volumes": {
        "volumes": {
            "tasks": {"existingClaim": "tasks"},
            "models": {"existingClaim": "models"},
            "cache": {"existingClaim": "cache"},
        }
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "openshift": {"openshift": True},
    "ingress": {"ingress": {"enabled": True, "host": "elmo.example.org", "tlsSecret": "tls"}},
    "placement": {
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "nlp", "operator": "Exists"}],
        "priorityClassName": "batch",
        "imagePullSecrets": [{"name": "registry"}],
        "image": {"digest": "sha256:" + "0" * 64},
    },
    "bare": {
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False},
    },
    "no downloads": {"networkPolicy": {"downloads": False}, "drainSeconds": 120},
}


@cache
def objects(variant: str) -> dict[str, Any]:
    """Return the objects of a variant by their kind; a kind occurs once, ConfigMap apart."""
    found = [
        o for o in rendered(VARIANTS[variant]) if not o["metadata"]["name"].endswith("-dashboard")
    ]
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
    names = {each["name"] for each in container(variant).get("env", ())}
    assert {*found["ConfigMap"]["data"], *names} <= settings
    mounts = {each["name"] for each in container(variant)["volumeMounts"]}
    assert mounts == {each["name"] for each in pod(variant)["volumes"]}
    assert found.keys() >= {"Deployment", "Service", "ConfigMap"}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"host": "127.0.0.1"}, "host"),
        ({"autoscaling": {"kind": "hpo"}}, "autoscaling.kind"),
        ({"settings": {"PRECISION": "int8"}}, "PRECISION"),
        ({"settings": {"ELMO_API_KEYS": "secret"}}, "ELMO_API_KEYS"),
        ({"volumes": {"tmp": {"size": "much"}}}, "volumes.tmp.size"),
        ({"gpu": {"enabled": "yes"}}, "gpu.enabled"),
        ({"image": {"digest": "latest"}}, "image.digest"),
        ({"ingress": {"enabled": True}}, "ingress.host"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values: dict[str, Any], named: str) -> None:
    done = helm("template", "elmo", str(CHART), values=values)
    assert done.returncode != 0
    assert named in done.stderr


def test_settings_reach_the_server_as_they_are_written() -> None:
    data = objects("settings")["ConfigMap"]["data"]
    assert data["ELMO_MAX_ANSWER_BYTES"] == "4294967296"
    assert data["ELMO_PRECISION"] == "bfloat16"
    traces = objects("traces")["ConfigMap"]["data"]
    assert traces["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    egress = objects("traces")["NetworkPolicy"]["spec"]["egress"]
    assert egress == [{"ports": [{"port": 4318}]}]
    assert [objects(each)["ConfigMap"]["data"]["ELMO_HOST"] for each in ("settings", "ipv6")] == [
        "0.0.0.0",
        "::",
    ]
    several = objects("several models")["ConfigMap"]["data"]
    assert several["ELMO_MODELS"] == "english=english,clinical=/models/clinical"
    assert "ELMO_MODEL" not in several


@pytest.mark.parametrize("variant", ["default", "no downloads"])
def test_a_pod_is_given_the_time_to_drain(variant: str) -> None:
    drain = int(objects(variant)["ConfigMap"]["data"]["ELMO_DRAIN_TIMEOUT_SECONDS"])
    (command,) = container(variant)["lifecycle"]["preStop"]["exec"]["command"][-1:]
    (pause,) = re.findall(r"sleep\((\d+)\)", command)
    assert pod(variant)["terminationGracePeriodSeconds"] > 2 * drain + int(pause)
    own = int(objects("default")["ConfigMap"]["data"]["ELMO_DRAIN_TIMEOUT_SECONDS"])
    assert own == Settings.model_fields["drain_timeout_seconds"].default


def test_keys_are_those_of_a_secret_or_made_once() -> None:
    (key,) = container("keys of a secret")["env"]
    assert key["valueFrom"]["secretKeyRef"] == {"name": "my-keys", "key": "all"}
    assert "Secret" not in objects("keys of a secret")

    secret = objects("generated key")["Secret"]
    assert len(secret["data"]["keys"]) == 56  # 40 characters in base64
    assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    template = (CHART / "templates" / "settings.yaml").read_text()
    assert 'lookup "v1" "Secret"' in template  # an upgrade finds the one that is there
    assert "env" not in container("default")


def test_a_gpu_is_asked_for_and_missed() -> None:
    """Without a GPU the start fails with a reason: `auto` would take the CPU unnoticed."""
    assert objects("gpu")["ConfigMap"]["data"]["ELMO_DEVICES"] == "cuda:0,cuda:1"
    assert container("gpu")["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": 2}
    assert container("gpu")["image"].endswith("-cuda")
    assert container("mig")["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == 1
    (toleration,) = pod("mig")["tolerations"]
    assert toleration["key"] == "nvidia.com/gpu"


def test_openshift_sets_the_user() -> None:
    assert pod("default")["securityContext"]["runAsUser"] == 10001
    assert pod("default")["securityContext"]["fsGroup"] == 10001
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & pod("openshift")["securityContext"].keys()


def test_volumes_hold_what_is_written_to_them() -> None:
    volumes = {each["name"]: each for each in pod("default")["volumes"]}
    claim = objects("default")["PersistentVolumeClaim"]
    assert volumes["tasks"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]

    assert "PersistentVolumeClaim" not in objects("own volumes")
    own = {each["name"]: each for each in pod("own volumes")["volumes"]}
    assert own["tasks"]["persistentVolumeClaim"] == {"claimName": "tasks"}
    assert own["models"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}


def test_the_autoscaler_alone_sets_the_number_of_replicas() -> None:
    assert objects("default")["Deployment"]["spec"]["replicas"] == 2
    for variant in ("hpa", "keda"):
        assert "replicas" not in objects(variant)["Deployment"]["spec"]


def test_both_autoscalers_scale_alike_by_a_metric_of_the_service() -> None:
    scaler = objects("hpa")["HorizontalPodAutoscaler"]["spec"]
    keda = objects("keda")["ScaledObject"]["spec"]
    (metric,), (trigger,) = scaler["metrics"], keda["triggers"]
    name = metric["pods"]["metric"]["name"]
    assert name in {family.name for family in Metrics().registry.collect()} | served_gauges()
    assert trigger["metadata"]["threshold"] == metric["pods"]["target"]["averageValue"]
    assert re.findall(r"elmo_\w+", trigger["metadata"]["query"]) == [name]
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == scaler["behavior"]
    assert (keda["minReplicaCount"], scaler["minReplicas"]) == (3, 2)
    assert "HorizontalPodAutoscaler" not in objects("keda")
    (rule,) = yaml.safe_load((CHART / "adapter-values.yaml").read_text())["rules"]["custom"]
    assert rule["name"]["as"] == name


class AllOfTheQueue:
    """A backlog whose queue holds every token that was admitted, at 1,000 tokens/s."""

    is_measured = True
    seconds_per_token = best_seconds_per_token = 1e-3
    interactive_size = 1_024

    def __init__(self) -> None:
        self.tokens = 0
        self.throughput = self.pool = self

    def tokens_before(self, virtual_time: float) -> float:
        return self.tokens if virtual_time > 0 else 0

    interactive_tokens_before = tokens_before


def test_the_autoscaler_acts_on_a_shorter_queue_than_admission_allows() -> None:
    """A request that would wait for half of its timeout is refused, however few tokens wait."""
    backlog, settings = AllOfTheQueue(), Settings()
    limits = Limits(settings.max_queue_tokens, settings.max_answer_bytes)
    admission = Admission(limits, {"slow": cast(Dispatcher, backlog)}, lambda: 0.0)
    while admission.refusal(20, settings.request_timeout_seconds) is None:
        admission.admit(20, settings.request_timeout_seconds)
        backlog.tokens = admission.outstanding

    (metric,) = objects("hpa")["HorizontalPodAutoscaler"]["spec"]["metrics"]
    target = int(metric["pods"]["target"]["averageValue"])
    tolerance = 0.1  # of the HorizontalPodAutoscaler: it leaves a load of 1.1 x the target alone
    assert (1 + tolerance) * target < backlog.tokens / 2  # rather long before


def test_prometheus_finds_the_service_under_the_name_that_alerts_know() -> None:
    (endpoint,) = objects("monitoring")["ServiceMonitor"]["spec"]["endpoints"]
    service = objects("monitoring")["Service"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    (label,) = endpoint["relabelings"]
    assert label == {"targetLabel": "job", "replacement": "elmo"}
    assert objects("monitoring")["ServiceMonitor"]["metadata"]["labels"]["release"] == "prometheus"


def test_rules_and_dashboard_are_the_files_of_compose() -> None:
    alerts = yaml.safe_load((ROOT / "docker" / "prometheus" / "alerts.yml").read_text())
    assert objects("monitoring")["PrometheusRule"]["spec"] == alerts
    (board,) = (
        each
        for each in rendered(VARIANTS["monitoring"])
        if each["metadata"]["name"].endswith("-dashboard")
    )
    text = (ROOT / "docker" / "grafana" / "elmo-serve.json").read_text()
    assert json.loads(board["data"]["elmo-serve.json"]) == json.loads(text)


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
