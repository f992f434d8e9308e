"""The manifests for Spark on Kubernetes: rights, images, names, and the Spark operator's API."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from kubeflow_spark_api.models import SparkV1beta2SparkApplication

from kraftquorum_operator import names

ROOT = Path(__file__).parents[3]
EXTRAS = ROOT / "charts" / "kraftquorum" / "extras" / "spark"
HOWTO = ROOT / "docs" / "howto" / "spark-kubernetes.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def objects(name):
    return list(yaml.safe_load_all((EXTRAS / name).read_text()))


def application():
    [one] = objects("sparkapplication.yaml")
    return one


def of_pods():
    """What the files say of each pod: its own security, its containers'."""
    for name in ("export-cronjob.yaml", "audit-cronjob.yaml"):
        spec = objects(name)[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        yield name, spec["securityContext"], spec["containers"][0]["securityContext"]
    spec = objects("pod-template.yaml")[0]["spec"]
    yield "template", spec["securityContext"], spec["containers"][0]["securityContext"]
    for role in ("driver", "executor"):
        spec = application()["spec"][role]
        yield role, spec["podSecurityContext"], spec["securityContext"]


def test_the_spark_application_is_whole_by_the_operators_own_models():
    body = application()
    assert SparkV1beta2SparkApplication.from_dict(body).to_dict() == body
    body["spec"]["executor"]["heap"] = "1g"
    assert SparkV1beta2SparkApplication.from_dict(body).to_dict() != body, "a slip is seen"


@pytest.mark.parametrize("pod", list(of_pods()), ids=lambda pod: pod[0])
def test_pods_meet_the_restricted_standard_and_write_to_nothing_of_the_image(pod):
    _, own, container = pod
    assert own["runAsNonRoot"] is True
    assert own["runAsUser"] == own["fsGroup"] == 10001
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_image_and_spark_are_those_of_this_version():
    text = "\n".join(path.read_text() for path in [*EXTRAS.glob("*.yaml"), HOWTO])
    images = set(re.findall(r"ghcr\.io/kraftquorum/[\w./:-]+", text))
    assert images == {f"ghcr.io/kraftquorum/pipeline:{PROJECT['version']}"}
    locked = re.search(
        r"^pyspark==(\S+)", (ROOT / "requirements" / "pipeline.txt").read_text(), re.MULTILINE
    )
    assert application()["spec"]["sparkVersion"] == locked[1].rstrip("\\").strip()


def test_nodes_are_asked_by_the_names_that_the_operator_gives_them():
    pods = [names.pod("demo", number) for number in range(3)]
    service = names.headless_service("demo")
    wanted = ",".join(f"{pod}.{service}:{names.API_PORT}" for pod in pods)
    [export] = [one for one in application()["spec"]["arguments"] if "bootstrap" in one]
    assert export == f"--bootstrap-server={wanted}"
    assert wanted in (EXTRAS / "export-cronjob.yaml").read_text()
    assert wanted in HOWTO.read_text()


def test_driver_has_rights_in_its_namespace_only_and_the_cronjobs_have_none():
    kinds = [one["kind"] for one in objects("rbac.yaml")]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding"]
    account = objects("rbac.yaml")[0]["metadata"]["name"]
    assert application()["spec"]["driver"]["serviceAccount"] == account
    assert f"driver.serviceAccountName={account} " in HOWTO.read_text()
    for name in ("export-cronjob.yaml", "audit-cronjob.yaml"):
        spec = objects(name)[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert "serviceAccountName" not in spec


def test_every_file_is_named_in_the_howto():
    for path in EXTRAS.glob("*.yaml"):
        assert path.name in HOWTO.read_text()
