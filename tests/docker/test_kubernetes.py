"""The Kubernetes manifests: built by kustomize, valid by the published schemas, and locked down."""

import json
import re
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml

from elmo_serve.metrics import Metrics
from elmo_serve.scheduling.admission import Admission, Limits
from elmo_serve.settings import Settings, variable
from tests.docker.engine import ROOT

FOLDER = ROOT / "docker" / "kubernetes"
OVERLAYS = ("base", "gpu", "autoscaling", "keda")
FOREIGN = {"ServiceMonitor", "ScaledObject", "ServingRuntime", "InferenceService"}
"""Kinds of operators that a cluster may lack: the published schemas know none of them."""


LOCKED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@cache
def manifests(overlay: str) -> list[dict[str, Any]]:
    """Return the objects of one overlay; skip the test where kubectl cannot build it."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    version = subprocess.run(
        ["kubectl", "version", "--client", "--output=json"], capture_output=True, check=False
    )
    found = json.loads(version.stdout or b"{}").get("clientVersion", {})
    if (int(found.get("major", 0)), int(re.sub(r"\D.*", "", found.get("minor", "0")))) < (1, 21):
        pytest.skip("kubectl is older than 1.21")
    built = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / overlay)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert not built.stderr
    return list(yaml.safe_load_all(built.stdout))


def only(overlay: str, kind: str) -> dict[str, Any]:
    (found,) = [each for each in manifests(overlay) if each["kind"] == kind]
    return found


@pytest.mark.parametrize("overlay", [*OVERLAYS, "kserve"])
def test_built_in_kinds_are_valid(overlay: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is missing")
    for manifest in manifests(overlay):
        if manifest["kind"] not in FOREIGN:
            validate.validate(manifest, validate.latest_version(), strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_run_without_privileges(overlay: str) -> None:
    pod = only(overlay, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == LOCKED


def test_a_pod_is_given_the_time_to_drain() -> None:
    pod = only("base", "Deployment")["spec"]["template"]["spec"]
    drain = Settings.model_fields["drain_timeout_seconds"].default
    (container,) = pod["containers"]
    (pause,) = re.findall(
        r"sleep\((\d+)\)", container["lifecycle"]["preStop"]["exec"]["command"][-1]
    )
    assert pod["terminationGracePeriodSeconds"] > 2 * drain + int(pause)
    assert pod["enableServiceLinks"] is False


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_find_the_pods_and_nothing_else(overlay: str) -> None:
    labels = only(overlay, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert only(overlay, "Service")["spec"]["selector"] == labels
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert only(overlay, kind)["spec"]["selector"]["matchLabels"] == labels
    assert only(overlay, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_settings_exist(overlay: str) -> None:
    settings = {variable(name) for name in Settings.model_fields}
    data = only(overlay, "ConfigMap")["data"]
    (container,) = only(overlay, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert data.keys() <= settings
    assert {each["name"] for each in container["env"]} <= settings


def test_the_gpu_overlay_fails_without_a_gpu() -> None:
    assert only("gpu", "ConfigMap")["data"]["ELMO_DEVICES"] == "cuda:0"
    (container,) = only("gpu", "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_the_autoscaler_alone_sets_the_number_of_replicas() -> None:
    assert "replicas" in only("base", "Deployment")["spec"]
    assert "replicas" not in only("autoscaling", "Deployment")["spec"]


def test_the_autoscaler_scales_by_a_metric_of_the_service() -> None:
    (metric,) = only("autoscaling", "HorizontalPodAutoscaler")["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"]
    (rule,) = yaml.safe_load((FOLDER / "autoscaling" / "adapter-values.yaml").read_text())["rules"][
        "custom"
    ]
    assert rule["name"]["as"] == name
    assert name.removeprefix("elmo_") in served_gauges()


class AllOfTheQueue:
    """A backlog whose queue holds every token that was admitted, at 1,000 tokens/s."""

    is_measured = True
    seconds_per_token = 1e-3

    def __init__(self) -> None:
        self.tokens = 0

    def tokens_before(self, virtual_time: float) -> float:
        return self.tokens if virtual_time > 0 else 0


def test_the_autoscaler_acts_on_a_shorter_queue_than_admission_allows() -> None:
    """A request that would wait for half of its timeout is refused, however few tokens wait."""
    backlog, settings = AllOfTheQueue(), Settings()
    limits = Limits(settings.max_queue_tokens, settings.max_answer_bytes)
    admission = Admission(limits, {"slow": backlog}, lambda: 0.0)
    while admission.refusal(20, settings.request_timeout_seconds) is None:
        admission.admit([18], settings.request_timeout_seconds)
        backlog.tokens = admission.outstanding

    scaler = yaml.safe_load((FOLDER / "autoscaling" / "autoscaler.yaml").read_text())
    (metric,) = scaler["spec"]["metrics"]
    target = int(metric["pods"]["target"]["averageValue"])
    tolerance = 0.1  # of the HorizontalPodAutoscaler: it leaves a load of 1.1 x the target alone
    assert (1 + tolerance) * target < backlog.tokens / 2  # rather long before


def test_prometheus_finds_the_port_of_the_service() -> None:
    spec = only("autoscaling", "ServiceMonitor")["spec"]
    service = only("autoscaling", "Service")
    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert spec["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert spec["endpoints"][0]["path"] == "/metrics"


def test_one_pod_at_a_time_is_taken_out() -> None:
    for overlay in (*OVERLAYS, "kserve"):
        assert only(overlay, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_keda_scales_as_the_autoscaler_does() -> None:
    scaler = only("autoscaling", "HorizontalPodAutoscaler")["spec"]
    keda = only("keda", "ScaledObject")["spec"]
    (metric,), (trigger,) = scaler["metrics"], keda["triggers"]
    assert "HorizontalPodAutoscaler" not in {each["kind"] for each in manifests("keda")}
    assert "replicas" not in only("keda", "Deployment")["spec"]
    assert keda["scaleTargetRef"]["name"] == only("keda", "Deployment")["metadata"]["name"]
    assert keda["minReplicaCount"] == scaler["minReplicas"]
    assert keda["maxReplicaCount"] == scaler["maxReplicas"]
    assert trigger["metadata"]["threshold"] == metric["pods"]["target"]["averageValue"]
    assert re.findall(r"elmo_\w+", trigger["metadata"]["query"]) == [
        metric["pods"]["metric"]["name"]
    ]
    behavior = keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior == scaler["behavior"]


def test_the_runtime_of_kserve_is_locked_down_as_the_deployment() -> None:
    runtime = only("kserve", "ServingRuntime")["spec"]
    predictor = only("kserve", "InferenceService")["spec"]["predictor"]
    pod = only("base", "Deployment")["spec"]["template"]["spec"]
    (container,), (own,) = runtime["containers"], pod["containers"]
    user = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001}
    assert container["securityContext"] == user | LOCKED
    assert pod["securityContext"] == user | predictor["securityContext"]
    assert predictor["automountServiceAccountToken"] is False
    assert predictor["terminationGracePeriodSeconds"] == pod["terminationGracePeriodSeconds"]
    for same in ("lifecycle", "resources", "volumeMounts", "image"):
        assert container[same] == own[same]
    assert runtime["volumes"] == pod["volumes"]
    (keys,) = [each for each in own["env"] if each["name"] == "ELMO_API_KEYS"]
    assert keys in container["env"]


def test_kserve_asks_for_routes_and_settings_that_exist() -> None:
    runtime = only("kserve", "ServingRuntime")["spec"]
    service = only("kserve", "InferenceService")
    (container,) = runtime["containers"]
    settings = {each["name"]: each.get("value") for each in container["env"]}
    assert settings.keys() <= {variable(name) for name in Settings.model_fields}
    (port,) = container["ports"]
    assert str(port["containerPort"]) == settings["ELMO_PORT"]
    assert port["name"] == "http"
    paths = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in paths
        assert container[probe]["httpGet"]["port"] == port["containerPort"]
    assert settings["ELMO_MODELS"].startswith("{{.Name}}=")
    predictor = service["spec"]["predictor"]
    assert predictor["model"]["runtime"] == only("kserve", "ServingRuntime")["metadata"]["name"]
    assert predictor["model"]["modelFormat"]["name"] in [
        each["name"] for each in runtime["supportedModelFormats"]
    ]
    labels = only("kserve", "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
    assert labels == service["metadata"]["labels"]


def test_the_documents_list_every_kustomization() -> None:
    text = (ROOT / "docs" / "scale.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    folders = {path.parent.name for path in FOLDER.glob("*/kustomization.yaml")}
    assert listed == folders - {"shared"}
    assert set(re.findall(r"docker/kubernetes/(\w+)", text)) <= folders


def served_gauges() -> set[str]:
    """Return the gauges that the service reads when it is scraped, and those it declares."""
    watched = re.compile(r"\"(queue_\w+)\"")
    sources = (ROOT / "service" / "elmo_serve").rglob("*.py")
    return {name for source in sources for name in watched.findall(source.read_text())} | set(
        vars(Metrics())
    )
