"""What the chart renders, for each way of installing it; what its schema refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from guidelib.pages import Page
from kraftquorum_devcluster import chart
from kraftquorum_devcluster.errors import CommandError
from kraftquorum_devcluster.paths import binaries_dir
from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.resources.network_policy import network_policy
from kraftquorum_operator.resources.node_config import node_config
from kraftquorum_operator.resources.statefulset import statefulset
from kraftquorum_operator.rights import (
    CERT_MANAGER,
    KAFKA_ADVICE,
    LEASE,
    METRICS,
    WATCHED,
)
from kraftquorum_operator.settings import Settings
from usedrights import uses, uses_of_rights

pytestmark = pytest.mark.chart

CASES = {"default": []} | {
    path.stem: [f"--values={path}"] for path in sorted(chart.CASES.glob("*.yaml"))
}
Body = dict[str, Any]


def of_kind(objects: list[Body], kind: str) -> list[Body]:
    return [one for one in objects if one["kind"] == kind]


def deployment(*arguments: str) -> Body:
    return of_kind(chart.render(*arguments), "Deployment")[0]


def environment(*arguments: str) -> dict[str, Any]:
    container = deployment(*arguments)["spec"]["template"]["spec"]["containers"][0]
    names_of = [one["name"] for one in container["env"]]
    assert len(names_of) == len(set(names_of)), "a variable is set twice"
    return {one["name"]: one.get("value") for one in container["env"]}


@pytest.mark.parametrize("case", CASES)
def test_it_passes_helm_lint_and_strict_schemas(case: str) -> None:
    chart.lint(*CASES[case])
    chart.conform(chart.render(*CASES[case]))


def test_the_check_finds_an_unknown_field_a_wrong_type_and_an_unknown_kind() -> None:
    good = deployment()
    typo = json.loads(json.dumps(good))
    typo["spec"]["template"]["spec"]["containers"][0]["imagePulPolicy"] = "Always"
    wrong = json.loads(json.dumps(good))
    wrong["spec"]["replicas"] = "many"
    quorum = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "demo"},
        "spec": {"votters": 3},
    }
    unknown = {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "x"}}
    for bad, says in (
        (typo, "imagePulPolicy"),
        (wrong, "replicas"),
        (quorum, "votters"),
        (unknown, "could not find schema"),
    ):
        with pytest.raises(CommandError, match=says):
            chart.conform([good, bad])


def test_the_example_is_valid_by_the_same_schemas() -> None:
    chart.conform([yaml.safe_load((chart.ROOT / "examples" / "quorum.yaml").read_text())])


def test_roles_are_what_the_operator_declares() -> None:
    objects = chart.render()
    roles = {role["metadata"]["name"]: role for role in of_kind(objects, "ClusterRole")}
    assert uses(roles["kraftquorum"]["rules"]) == uses_of_rights(WATCHED)
    lease = of_kind(objects, "Role")
    assert [role["metadata"]["namespace"] for role in lease] == [chart.NAMESPACE]
    assert uses(lease[0]["rules"]) == uses_of_rights(LEASE)
    assert uses(roles["kraftquorum-metrics-reviews"]["rules"]) == uses_of_rights(METRICS)
    reader = roles["kraftquorum-metrics-reader"]["rules"]
    assert reader == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    limited = [rule.get("resourceNames") for rule in lease[0]["rules"]]
    assert limited == [None, [environment()["KRAFTQUORUM_LEASE_NAME"]]]
    for role in (roles["kraftquorum-view"], roles["kraftquorum-edit"]):
        assert {group for group, _, _ in uses(role["rules"])} == {names.GROUP}


def test_rights_on_certificates_of_cert_manager_are_granted_only_when_asked_for() -> None:
    asked = "--set=rbac.certManager=true"
    roles = {one["metadata"]["name"]: one for one in of_kind(chart.render(asked), "ClusterRole")}
    assert uses(roles["kraftquorum"]["rules"]) == uses_of_rights((*WATCHED, *CERT_MANAGER))
    assert not any(group == "cert-manager.io" for group, _, _ in uses_of_rights(WATCHED))
    objects = chart.render(*CASES["namespaced"], asked)
    assert not [
        one for one in of_kind(objects, "ClusterRole") if "cert-manager.io" in json.dumps(one)
    ]
    of_namespace = {right for right in uses_of_rights(CERT_MANAGER) if right[1] != "clusterissuers"}
    for role in of_kind(objects, "Role"):
        if role["metadata"]["name"] == "kraftquorum":
            assert uses(role["rules"]) == uses_of_rights(WATCHED) | of_namespace


def test_advice_about_kafka_is_installed_only_when_asked_for() -> None:
    without = chart.render()
    assert not [name for name in environment() if "KAFKA" in name]
    assert "kafkaquorum" not in json.dumps(without)
    asked = ("--set=kafka.advise=true",)
    objects = chart.render(*asked)
    assert environment(*asked)["KRAFTQUORUM_KAFKA_ADVICE"] == "true"
    roles = {one["metadata"]["name"]: one for one in of_kind(objects, "ClusterRole")}
    assert uses(roles["kraftquorum"]["rules"]) == uses_of_rights((*WATCHED, *KAFKA_ADVICE))
    crds = {one["metadata"]["name"] for one in of_kind(objects, "CustomResourceDefinition")}
    assert crds == {"kraftquorums.kraftquorum.io", "kafkaquorums.kraftquorum.io"}
    editing = uses(roles["kraftquorum-edit"]["rules"])
    assert ("kraftquorum.io", "kafkaquorums", "create") in editing
    assert ("kraftquorum.io", "kafkaquorums/status", "patch") not in editing
    namespaced = chart.render(*CASES["namespaced"], *asked)
    for role in of_kind(namespaced, "Role"):
        if role["metadata"]["name"] == "kraftquorum":
            assert uses(role["rules"]) == uses_of_rights((*WATCHED, *KAFKA_ADVICE))


def test_with_a_list_of_namespaces_nothing_is_granted_or_made_on_the_cluster() -> None:
    objects = chart.render(*CASES["namespaced"])
    assert {one["metadata"].get("namespace") for one in objects} == {
        chart.NAMESPACE,
        "team-a",
        "team-b",
    }
    roles = {
        (r["metadata"]["namespace"], r["metadata"]["name"]): r for r in of_kind(objects, "Role")
    }
    for namespace in ("team-a", "team-b"):
        assert uses(roles[namespace, "kraftquorum"]["rules"]) == uses_of_rights(WATCHED)
    assert uses(roles[chart.NAMESPACE, "kraftquorum-lease"]["rules"]) == uses_of_rights(LEASE)
    assert len(roles) == 3
    for binding in of_kind(objects, "RoleBinding"):
        meta = binding["metadata"]
        assert (meta["namespace"], binding["roleRef"]["name"]) in roles
        assert [one["namespace"] for one in binding["subjects"]] == [chart.NAMESPACE]
    assert environment(*CASES["namespaced"])["KRAFTQUORUM_NAMESPACE"] == "team-a,team-b"


@pytest.mark.parametrize("case", CASES)
def test_the_environment_is_settings_that_the_operator_takes(case: str, monkeypatch: Any) -> None:
    given = {k: v for k, v in environment(*CASES[case]).items() if k.startswith("KRAFTQUORUM_")}
    known = {f"KRAFTQUORUM_{name.upper()}" for name in Settings.model_fields}
    assert set(given) <= known
    for name, value in given.items():
        monkeypatch.setenv(name, "x" if value is None else value)
    settings = Settings()
    assert settings.lease_place == chart.NAMESPACE
    assert settings.metrics_port == 8080
    assert settings.node_image.endswith(("/node:0.1.0", "/node:0.1.0-debug"))


@pytest.mark.parametrize("case", CASES)
def test_no_quorum_takes_the_operator_s_pods_for_its_own(case: str) -> None:
    """A release may have the name of a quorum, whose Services and budget select by these."""
    body = deployment(*CASES[case])
    for labels in (body["metadata"]["labels"], body["spec"]["template"]["metadata"]["labels"]):
        assert labels[names.LABEL_APP] != names.APP
    selected = body["spec"]["selector"]["matchLabels"]
    assert selected.items() <= body["spec"]["template"]["metadata"]["labels"].items()


def test_names_that_look_like_numbers_stay_names() -> None:
    objects = chart.render(
        "--set-string=fullnameOverride=true,watch.namespaces={12,0x1}",
        "--set=networkPolicy.operator.restrictEgress=true,replicas=2",
        namespace="42",
    )
    chart.conform(objects)
    for one in objects:
        meta = one["metadata"]
        assert isinstance(meta["name"], str)
        assert isinstance(meta.get("namespace", ""), str)


def test_a_budget_only_protects_an_operator_that_has_another() -> None:
    assert not of_kind(chart.render("--set=replicas=1"), "PodDisruptionBudget")
    budget = of_kind(chart.render("--set=replicas=3"), "PodDisruptionBudget")[0]
    assert budget["spec"]["maxUnavailable"] == 1


def test_by_default_a_second_operator_takes_over_when_the_node_of_the_first_is_down() -> None:
    made = deployment()
    assert made["spec"]["replicas"] == 2
    (term,) = made["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    labels = term["podAffinityTerm"]["labelSelector"]["matchLabels"].items()
    assert labels <= made["spec"]["template"]["metadata"]["labels"].items()
    (budget,) = of_kind(chart.render(), "PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"].items() == labels


def test_the_operator_gets_the_cluster_domain() -> None:
    assert environment()["KRAFTQUORUM_CLUSTER_DOMAIN"] == "cluster.local"
    given = environment("--set=clusterDomain=corp.example")
    assert given["KRAFTQUORUM_CLUSTER_DOMAIN"] == "corp.example"
    with pytest.raises(CommandError, match="clusterDomain"):
        chart.render("--set=clusterDomain=Corp_")


def test_images_by_tag_by_digest_and_by_default() -> None:
    def image(*arguments: str) -> str:
        return deployment(*arguments)["spec"]["template"]["spec"]["containers"][0]["image"]

    digest = f"sha256:{'0' * 64}"
    assert image() == "ghcr.io/kraftquorum/operator:0.1.0"
    assert image("--set=image.tag=next") == "ghcr.io/kraftquorum/operator:next"
    wanted = f"ghcr.io/kraftquorum/operator@{digest}"
    assert image("--set=image.tag=next", f"--set=image.digest={digest}") == wanted


def test_a_cluster_that_assigns_users_can_take_ours_away() -> None:
    unset = "podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null"
    context = deployment(f"--set={unset}")["spec"]["template"]["spec"]["securityContext"]
    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize(
    ("arguments", "user"),
    [
        ([], "fixed"),
        (["--api-versions=security.openshift.io/v1"], "assigned"),
        (["--api-versions=security.openshift.io/v1", "--set=userIds=fixed"], "fixed"),
        (["--set=userIds=assigned"], "assigned"),
        (["--set=userIds=assigned,podSecurityContext.fsGroup=7"], "assigned"),
    ],
)
def test_openshift_assigns_the_users_of_the_operator_and_of_the_nodes(
    arguments: list[str], user: str
) -> None:
    """Its `restricted-v2` refuses a pod that names a user outside of the namespace's range."""
    context = deployment(*arguments)["spec"]["template"]["spec"]["securityContext"]
    ids = {} if user == "assigned" else {"runAsUser": 10001, "runAsGroup": 10001}
    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **ids}
    assert environment(*arguments)["KRAFTQUORUM_NODE_USER"] == user


@pytest.mark.parametrize("release", ["a" * 53, "a-" * 26 + "b", "x"])
def test_any_name_of_a_release_that_names_a_service_will_do(release: str) -> None:
    objects = chart.render(release=release)
    chart.conform(objects)
    services = [one["metadata"]["name"] for one in of_kind(objects, "Service")]
    assert all(re.fullmatch("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name) for name in services)


@pytest.mark.parametrize("release", ["1abc", "a.b"])
def test_a_release_whose_name_names_no_service_is_refused_before_anything_is_made(
    release: str,
) -> None:
    with pytest.raises(CommandError, match="fullnameOverride: set a name that begins with"):
        chart.render(release=release)
    assert chart.render("--set=fullnameOverride=kq", release=release)


def test_what_may_be_left_to_the_cluster_is_left_out_by_null() -> None:
    parts = ["resources", "podSecurityContext", "containerSecurityContext", "settings"]
    objects = chart.render("--set=" + ",".join(f"{part}=null" for part in parts))
    chart.conform(objects)
    (found,) = of_kind(objects, "Deployment")
    pod = found["spec"]["template"]["spec"]
    assert not {"securityContext", "resources"} & {*pod, *pod["containers"][0]}


@pytest.mark.parametrize("keep", ["true", "false"])
def test_the_crd_is_upgraded_with_the_chart_and_kept_unless_told_otherwise(keep: str) -> None:
    crd = of_kind(chart.render(f"--set=crds.keep={keep}"), "CustomResourceDefinition")[0]
    policy = crd["metadata"].get("annotations", {}).get("helm.sh/resource-policy")
    assert policy == ("keep" if keep == "true" else None)
    own = yaml.safe_load((chart.ROOT / "crds" / "kraftquorums.yaml").read_text())
    assert crd["spec"] == own["spec"]
    assert not of_kind(chart.render("--set=crds.install=false"), "CustomResourceDefinition")


def services_of(*arguments: str) -> dict[str, Body]:
    return {
        one["metadata"]["name"]: one["spec"] for one in of_kind(chart.render(*arguments), "Service")
    }


def test_the_status_page_is_on_localhost_unless_it_is_opened_and_can_be_left_out() -> None:
    assert "kraftquorum-status" not in services_of()
    assert environment()["KRAFTQUORUM_PAGE_PORT"] == "8082"
    assert environment()["KRAFTQUORUM_PAGE_HOST"] == "127.0.0.1"
    opened = "--set=statusPage.access=open"
    assert services_of(opened)["kraftquorum-status"]["ports"] == [
        {"name": "page", "port": 8082, "targetPort": "page"}
    ]
    assert environment(opened)["KRAFTQUORUM_PAGE_HOST"] == "$(POD_IP),127.0.0.1"
    container = deployment()["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["page"] == 8082
    off = ("--set=statusPage.enabled=false", opened)
    objects = chart.render(*off)
    assert "kraftquorum-status" not in {one["metadata"]["name"] for one in objects}
    assert not [name for name in environment(*off) if "PAGE" in name]
    assert "page" not in json.dumps([one["spec"] for one in of_kind(objects, "NetworkPolicy")])
    assert "page" not in json.dumps(deployment(*off))


def operator_policy(*arguments: str) -> Body:
    (policy,) = of_kind(chart.render(*arguments), "NetworkPolicy")
    assert policy["metadata"]["namespace"] == chart.NAMESPACE
    labels = deployment(*arguments)["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    return policy["spec"]


def test_by_default_only_the_metrics_of_the_operator_are_reached() -> None:
    spec = operator_policy()
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]
    assert environment()["KRAFTQUORUM_METRICS_ACCESS"] == "authenticated"
    local = ["--set=metrics.access=local"]
    assert operator_policy(*local)["ingress"] == [], "no port is served to others"
    assert environment(*local)["KRAFTQUORUM_METRICS_HOST"] == "127.0.0.1"
    assert services_of(*local) == {}


def test_policies_let_in_and_out_what_is_needed() -> None:
    spec = operator_policy(*CASES["everything"])
    metrics, page = spec["ingress"]
    assert [port["port"] for port in metrics["ports"]] == ["metrics"]
    assert [port["port"] for port in page["ports"]] == ["page"]
    assert [one["namespaceSelector"]["matchLabels"] for one in page["from"]] == [
        {"kubernetes.io/metadata.name": "ingress"}
    ]
    others, nodes, kafka = spec["egress"]
    assert {port["port"] for port in others["ports"]} == {53, 5353, 443, 6443}
    assert nodes["ports"] == [{"port": names.API_PORT, "protocol": "TCP"}]
    assert nodes["to"][0]["podSelector"]["matchLabels"] == {names.LABEL_APP: names.APP}
    assert [port["port"] for port in kafka["ports"]] == [9093, 9094]


def test_the_operator_s_policies_of_quorums_admit_its_own_pods(monkeypatch: Any) -> None:
    """The policy is made by the operator, and the chart says where the operator's pods are."""
    for name, value in environment(*CASES["everything"]).items():
        if name.startswith("KRAFTQUORUM_") and value is not None:
            monkeypatch.setenv(name, value)
    installation = Settings().installation
    body = network_policy(Owner("data", "demo", "uid"), QuorumSpec(), installation)
    admitted = body["spec"]["ingress"][1]["from"]
    operator = admitted[0]
    assert operator["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": chart.NAMESPACE
    }
    labels = deployment(*CASES["everything"])["spec"]["template"]["metadata"]["labels"]
    assert operator["podSelector"]["matchLabels"].items() <= labels.items()
    assert (
        admitted[1:]
        == yaml.safe_load((chart.CASES / "everything.yaml").read_text())["networkPolicy"]["nodes"][
            "metricsFrom"
        ]
    )
    assert installation.pull_secrets == ("registry", "mirror")


def test_readers_of_the_metrics_are_bound_to_the_role_for_it() -> None:
    def bindings(*arguments: str) -> dict[str, Body]:
        objects = of_kind(chart.render(*arguments), "ClusterRoleBinding")
        return {one["metadata"]["name"]: one for one in objects}

    assert "kraftquorum-metrics-reader" not in bindings()
    binding = bindings(*CASES["everything"])["quorums-metrics-reader"]
    assert binding["roleRef"]["name"] == "quorums-metrics-reader"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}
    ]
    for access in ("local", "open"):
        assert not [
            name for name in bindings(f"--set=metrics.access={access}") if "metrics" in name
        ]


def test_the_monitor_scrapes_as_the_metrics_are_served() -> None:
    def endpoint(*arguments: str) -> Body:
        on = "--set=monitoring.serviceMonitor.enabled=true"
        (monitor,) = of_kind(chart.render(on, *arguments), "ServiceMonitor")
        return monitor["spec"]["endpoints"][0]

    own = endpoint()
    assert own["scheme"] == "https"
    assert own["tlsConfig"] == {"insecureSkipVerify": True}
    assert own["bearerTokenFile"].endswith("/serviceaccount/token")
    given = endpoint("--set=metrics.certificateSecret=cert")
    assert given["tlsConfig"] == {
        "ca": {"secret": {"name": "cert", "key": "ca.crt"}},
        "serverName": f"kraftquorum-metrics.{chart.NAMESPACE}.svc",
    }
    assert "scheme" not in endpoint("--set=metrics.access=open")
    assert "bearerTokenFile" not in endpoint("--set=metrics.access=open")


def test_a_certificate_comes_from_its_secret_by_name_and_needs_no_right() -> None:
    pod = deployment("--set=metrics.certificateSecret=cert")["spec"]["template"]["spec"]
    (volume,) = pod["volumes"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert volume["secret"]["secretName"] == "cert"
    assert mount["readOnly"] is True
    given = environment("--set=metrics.certificateSecret=cert")
    for name in ("CERTIFICATE", "KEY"):
        assert given[f"KRAFTQUORUM_METRICS_{name}_FILE"].startswith(f"{mount['mountPath']}/tls.")


def test_monitors_find_what_they_are_for() -> None:
    objects = chart.render(*CASES["everything"])
    service = of_kind(objects, "Service")[0]
    monitor = of_kind(objects, "ServiceMonitor")[0]["spec"]
    labels = service["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert monitor["endpoints"][0]["honorLabels"] is True

    spec = QuorumSpec()
    config = node_config(spec, names.DEFAULTS)
    node = statefulset(Owner("data", "demo", "uid"), spec, config)["spec"]["template"]
    pods = of_kind(objects, "PodMonitor")[0]["spec"]
    assert pods["selector"]["matchLabels"].items() <= node["metadata"]["labels"].items()
    ports = {port["name"] for port in node["spec"]["containers"][0]["ports"]}
    shared, separate = pods["podMetricsEndpoints"]
    assert shared["port"] in ports
    apart = QuorumSpec.model_validate({"metricsListener": "Separate"})
    pod = statefulset(Owner("data", "demo", "uid"), apart, config)["spec"]["template"]
    assert separate["port"] in {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    # Such a pod has both ports, and is scraped at one of them.
    assert names.LABEL_METRICS_PORT in pod["metadata"]["labels"]
    drop = shared["relabelings"].pop(0)
    assert drop["sourceLabels"] == [_meta(names.LABEL_METRICS_PORT)]
    assert (drop["action"], drop["regex"]) == ("drop", ".+")
    # A pod with TLS says so, as a quorum has it by default.
    tls = statefulset(Owner("data", "demo", "uid"), spec, replace(config, tls="required"))
    assert tls["spec"]["template"]["metadata"]["labels"][names.LABEL_METRICS_SCHEME] == "https"
    for endpoint in (shared, separate):
        scheme = endpoint["relabelings"].pop(0)
        assert scheme["sourceLabels"] == [_meta(names.LABEL_METRICS_SCHEME)]
        assert (scheme["targetLabel"], scheme["regex"]) == ("__scheme__", "https")
        assert scheme["replacement"] == "https"
        assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
        given = {r["targetLabel"]: r for r in endpoint["relabelings"] if "targetLabel" in r}
        wanted = {"quorum": names.LABEL_INSTANCE, "node_id": names.LABEL_POD_INDEX}
        for target, label in wanted.items():
            assert given[target]["sourceLabels"] == [_meta(label)]
    assert pods["namespaceSelector"] == {"any": True}
    on = "--set=monitoring.podMonitor.enabled=true"
    some = of_kind(chart.render(*CASES["namespaced"], on), "PodMonitor")[0]["spec"]
    assert some["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


def test_a_quorum_with_tls_or_access_control_has_a_monitor_that_nodes_answer() -> None:
    on = [
        "--set=monitoring.podMonitor.enabled=true",
        "--set=monitoring.podMonitor.quorums[0].namespace=data",
        "--set=monitoring.podMonitor.quorums[0].name=demo",
    ]
    tls = "--set=monitoring.podMonitor.quorums[0].tls=true"
    token = "--set=monitoring.podMonitor.quorums[0].tokenSecret.name=reader"
    every, own = of_kind(chart.render(*on, tls, token), "PodMonitor")
    # The CA and the token are taken from the monitor's own namespace.
    assert own["metadata"]["namespace"] == "data"
    assert "namespaceSelector" not in own["spec"]
    shared, separate = own["spec"]["podMetricsEndpoints"]
    # A listener of its own speaks TLS and asks for the role as well.
    for endpoint in (shared, separate):
        assert endpoint["scheme"] == "https"
        assert endpoint["tlsConfig"] == {
            "ca": {"configMap": {"name": names.client_ca("demo"), "key": "ca.crt"}},
            "serverName": "localhost",
        }
        assert endpoint["tlsConfig"]["serverName"] in names.hosts("data", "demo", 0)
        assert endpoint["authorization"] == {"credentials": {"name": "reader", "key": "token"}}
    spec = QuorumSpec.model_validate({"tls": {"mode": "Managed"}})
    config = node_config(spec, names.DEFAULTS)
    pod = statefulset(Owner("data", "demo", "uid"), spec, config)["spec"]["template"]
    assert own["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    # No node is scraped twice.
    for endpoint in every["spec"]["podMetricsEndpoints"]:
        assert "scheme" not in endpoint
        (drop,) = [r for r in endpoint["relabelings"] if len(r["sourceLabels"]) == 2]
        assert drop == {
            "sourceLabels": ["__meta_kubernetes_namespace", _meta(names.LABEL_INSTANCE)],
            "regex": "data;demo",
            "action": "drop",
        }
    _, plain = of_kind(chart.render(*on, token), "PodMonitor")
    assert all("scheme" not in endpoint for endpoint in plain["spec"]["podMetricsEndpoints"])
    _, anonymous = of_kind(chart.render(*on, tls), "PodMonitor")
    assert all("authorization" not in e for e in anonymous["spec"]["podMetricsEndpoints"])
    assert len(of_kind(chart.render(on[0]), "PodMonitor")) == 1


def _meta(label: str) -> str:
    return "__meta_kubernetes_pod_label_" + re.sub(r"[^a-z]", "_", label)


def test_dashboards_and_rules_are_the_files_that_there_are(tmp_path: Path) -> None:
    on = "--set=monitoring.dashboards.enabled=true,monitoring.prometheusRule.enabled=true"
    copy = tmp_path / "kraftquorum"
    shutil.copytree(chart.CHART, copy)
    for folder in ("dashboards", "rules"):
        shutil.rmtree(copy / folder, ignore_errors=True)
    kinds = {"ConfigMap", "PrometheusRule"}
    assert not kinds & {one["kind"] for one in chart.render(on, chart=copy)}
    board = {"title": "{{ not a template }}", "panels": []}
    rule = {"groups": [{"name": "g", "rules": [{"alert": "A", "expr": 'x{q="{{ $labels.q }}"}'}]}]}
    for folder, name, content in (("dashboards", "b.json", board), ("rules", "r.yaml", rule)):
        (copy / folder).mkdir()
        (copy / folder / name).write_text(json.dumps(content))
    objects = chart.render(on, chart=copy)
    chart.conform(objects)
    config = of_kind(objects, "ConfigMap")[0]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config["data"]["b.json"]) == board
    assert of_kind(objects, "PrometheusRule")[0]["spec"] == rule
    assert not kinds & {one["kind"] for one in chart.render(chart=copy)}


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("replica=2", "additional properties 'replica' not allowed"),
        ("image.pullpolicy=Always", "'/image'.*'pullpolicy' not allowed"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy.*'Always', 'IfNotPresent', 'Never'"),
        ("image.repository=", "/image/repository"),
        ("image.digest=sha256:1", "/image/digest"),
        ("replicas=two", "/replicas.*want integer"),
        ("replicas=-1", "/replicas.*minimum"),
        ("watch.namespaces=a", "/watch/namespaces.*want array"),
        ("watch.namespaces={A}", "/watch/namespaces/0"),
        ("watch.namespaces={a,a}", "/watch/namespaces"),
        ("log.level=loud", "/log/level"),
        ("ports.metrics=0", "/ports/metrics"),
        ("settings.kraftquorum_x=1", "/settings"),
        ("settings.KRAFTQUORUM_NAMESPACE=other", "NAMESPACE: this variable is set by watch.names"),
        ("ports.page=8080", "ports.page: a port of its own"),
        ("statusPage.enabled=perhaps", "/statusPage/enabled"),
        ("networkPolicy.operator.pageFrom={all}", "/networkPolicy/operator/pageFrom"),
        ("ports.metrics=8081", "ports.metrics and ports.health: two ports"),
        ("commonLabels.app\\.kubernetes\\.io/instance=x", "take another label"),
        ("monitoring.podMonitor.interval=often", "/monitoring/podMonitor/interval"),
        ("monitoring.podMonitor.quorums[0].name=x", "/monitoring/podMonitor/quorums/0.*namespace"),
        ("monitoring.podMonitor.quorums[0].token=x", "/quorums/0.*'token' not allowed"),
        ("podLabels.app\\.kubernetes\\.io/name=kraftquorum", "take another label"),
        ("serviceAccount.create=false", "serviceAccount.name: name the account"),
        ("networkPolicy.nodes.enabled=true", "/networkPolicy/nodes.*'enabled' not allowed"),
        ("metrics.access=maybe", "/metrics/access"),
        ("userIds=1001", "/userIds"),
        ("metrics.readers[0].name=x", "/metrics/readers/0.*namespace"),
        (
            "metrics.access=open,metrics.readers[0].name=x,metrics.readers[0].namespace=y",
            "metrics.readers: only",
        ),
        ("metrics.access=local,monitoring.serviceMonitor.enabled=true", "no Prometheus reaches"),
        ("metrics.access=local,metrics.certificateSecret=x", "plain HTTP on localhost"),
        ("networkPolicy.operator.apiServerPorts={http}", "/networkPolicy/operator"),
        ("networkPolicy.operator.apiServerPorts=null", "/networkPolicy/operator.*apiServerPorts"),
        ("watch=null", "missing property 'watch'"),
        ("watch.namespaces=null", "/watch.*missing property 'namespaces'"),
        ("fullnameOverride=7e1", "fullnameOverride: set a name that begins with a letter"),
        ("extraEnv[0].name=POD_IP", "extraEnv: POD_IP is set already, by the chart"),
        ("extraEnv[0].name=KRAFTQUORUM_NAMESPACE", "by watch.namespaces"),
        ("extraEnv[0].name=A,extraEnv[1].name=A", "extraEnv: A is set already, by extraEnv"),
        (
            "settings.KRAFTQUORUM_X=1,extraEnv[0].name=KRAFTQUORUM_X",
            "extraEnv: KRAFTQUORUM_X is set already, by settings",
        ),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_path(argument: str, says: str) -> None:
    with pytest.raises(CommandError, match=f"(?s){says}"):
        chart.render(f"--set={argument}")


def test_every_variable_that_the_chart_sets_is_set_by_a_value_only() -> None:
    """Else `settings` would set it a second time."""
    for name in environment("--set=kafka.advise=true"):
        if name.startswith("KRAFTQUORUM_"):
            with pytest.raises(CommandError, match=f"settings.{name}: this variable is set by"):
                chart.render(f"--set-string=settings.{name}=1")


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(CommandError, match="requires kubeVersion"):
        chart.helm("template", "x", str(chart.CHART), "--kube-version=1.28.0")


def test_the_kustomize_base_is_current() -> None:
    for name, text in chart.manifests().items():
        assert (chart.BASE / name).read_text() == text, "run `make manifests`"


def test_kubectl_renders_the_kustomize_base() -> None:
    kubectl = binaries_dir() / "kubectl"
    done = subprocess.run(
        [kubectl, "kustomize", str(chart.BASE)], capture_output=True, text=True, check=True
    )
    objects = list(yaml.safe_load_all(done.stdout))
    chart.conform(objects)
    helm_objects = {(one["kind"], one["metadata"]["name"]) for one in chart.render()}
    found = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert found == helm_objects | {("Namespace", chart.NAMESPACE)}
    assert "helm" not in done.stdout.lower()


def test_alerts_lead_to_the_runbooks_of_the_place_that_was_given() -> None:
    for arguments, place in (
        (["--set=monitoring.prometheusRule.enabled=true"], "https://github.com/kraftquorum/"),
        (CASES["everything"], "https://wiki.example/runbooks/kraftquorum-"),
    ):
        [rule] = of_kind(chart.render(*arguments), "PrometheusRule")
        groups = {group["name"]: group["rules"] for group in rule["spec"]["groups"]}
        alerts = groups["kraftquorum.alerts"]
        assert len(alerts) > 20
        assert all(one["annotations"]["runbook_url"].startswith(place) for one in alerts)
        assert all("{{ $labels" in one["annotations"]["summary"] for one in alerts[:3])


def test_each_dashboard_is_a_config_map_as_it_is_in_its_file() -> None:
    found = {
        name: text
        for one in of_kind(chart.render(*CASES["everything"]), "ConfigMap")
        if one["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
        for name, text in one["data"].items()
    }
    files = {path.name: path for path in (chart.CHART / "dashboards").glob("*.json")}
    assert set(found) == set(files)
    assert len(files) == 5
    configs = of_kind(chart.render("--set=monitoring.dashboards.enabled=true"), "ConfigMap")
    installed = {name for config in configs for name in config.get("data", {})}
    assert set(files) - installed == {"kraftquorum-kafka.json"}, "it comes with kafka.advise"
    for name, path in files.items():
        assert json.loads(found[name]) == json.loads(path.read_text())


def test_the_values_of_the_page_on_metrics_name_the_readers(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(Page("howto/lock-down-metrics.md").examples["values"])
    objects = chart.render(f"--values={values}")
    [binding] = [
        body
        for body in of_kind(objects, "ClusterRoleBinding")
        if body["roleRef"]["name"] == "kraftquorum-metrics-reader"
    ]
    reader = {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}
    assert binding["subjects"] == [reader]
    assert of_kind(objects, "ServiceMonitor")
    assert of_kind(objects, "PodMonitor")
    chart.conform(objects)
