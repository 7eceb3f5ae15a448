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
from elmo_serve.settings import Settings, variable
from tests.docker.engine import ROOT

FOLDER = ROOT / "docker" / "kubernetes"
OVERLAYS = ("base", "gpu", "autoscaling")


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


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_built_in_kinds_are_valid(overlay: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is missing")
    for manifest in manifests(overlay):
        if manifest["kind"] != "ServiceMonitor":  # of the Prometheus Operator
            validate.validate(manifest, validate.latest_version(), strict=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_run_without_privileges(overlay: str) -> None:
    pod = only(overlay, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


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


def test_the_autoscaler_scales_before_requests_are_refused() -> None:
    (metric,) = only("autoscaling", "HorizontalPodAutoscaler")["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"]
    (rule,) = yaml.safe_load((FOLDER / "autoscaling" / "adapter-values.yaml").read_text())["rules"][
        "custom"
    ]
    assert rule["name"]["as"] == name
    assert name.removeprefix("elmo_") in served_gauges()
    wanted = int(metric["pods"]["target"]["averageValue"])
    assert wanted < Settings.model_fields["max_queue_tokens"].default


def served_gauges() -> set[str]:
    """Return the gauges that the service reads when it is scraped, and those it declares."""
    watched = re.compile(r"\"(queue_\w+)\"")
    sources = (ROOT / "service" / "elmo_serve").rglob("*.py")
    return {name for source in sources for name in watched.findall(source.read_text())} | set(
        vars(Metrics())
    )
