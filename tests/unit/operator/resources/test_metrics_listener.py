"""The port of metrics: in the pod's template, its probes and its label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.model.config import find_name_faults
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.spec import QuorumSpec
from kraftquorum_operator.model.tls import TlsLevel
from kraftquorum_operator.resources.node_config import node_config
from kraftquorum_operator.resources.statefulset import statefulset
from raftnode.settings import NodeSettings

OWNER = Owner("test", "demo", "uid")
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def template(**given: Any) -> dict[str, Any]:
    spec = QuorumSpec.model_validate(given)
    return statefulset(OWNER, spec, node_config(spec, names.DEFAULTS))["spec"]["template"]


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


@pytest.mark.without(
    "kraftquorum_operator.resources.metrics_listener:metrics_port", "is_separate(spec)", "False"
)
def test_probes_and_metrics_move_to_the_port_of_their_own() -> None:
    pod = template(metricsListener="Separate")
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"peer": 9093, "api": 9080, "metrics": 9081}
    assert {container[probe]["httpGet"]["port"] for probe in PROBES} == {"metrics"}
    assert pod["metadata"]["labels"][names.LABEL_METRICS_PORT] == "metrics"
    settings = NodeSettings(
        node_id=0, log_dir=".", metrics_listen=environment(container)["RAFTNODE_METRICS_LISTEN"]
    )
    assert settings.metrics_listen is not None
    assert settings.metrics_listen.port == ports["metrics"]


def test_a_quorum_without_it_keeps_its_template() -> None:
    """A changed template would restart every pod at the upgrade of the operator."""
    pod = template()
    assert pod == template(metricsListener="Shared")
    (container,) = pod["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["peer", "api"]
    assert {container[probe]["httpGet"]["port"] for probe in PROBES} == {"api"}
    assert names.LABEL_METRICS_PORT not in pod["metadata"]["labels"]
    assert "RAFTNODE_METRICS_LISTEN" not in environment(container)


@pytest.mark.parametrize("level", ["permissive", "required"])
def test_a_pod_says_that_its_metrics_need_tls(level: TlsLevel) -> None:
    def labels(**given: Any) -> dict[str, str]:
        spec = QuorumSpec.model_validate(given)
        config = replace(node_config(spec, names.DEFAULTS), tls=level)
        return statefulset(OWNER, spec, config)["spec"]["template"]["metadata"]["labels"]

    assert labels()[names.LABEL_METRICS_SCHEME] == "https"
    separate = labels(metricsListener="Separate")
    assert separate[names.LABEL_METRICS_SCHEME] == "https"
    assert separate[names.LABEL_METRICS_PORT] == "metrics"
    assert names.LABEL_METRICS_SCHEME not in template()["metadata"]["labels"]


@pytest.mark.without(
    "kraftquorum_operator.resources.metrics_listener:metrics_port",
    '{"port": PORT_NAME if is_separate(spec) else "api", **scheme}',
    '{"port": PORT_NAME} if is_separate(spec) else {"port": "api", **scheme}',
)
def test_the_probes_speak_tls_where_the_listeners_require_it() -> None:
    def schemes(listener: str, level: TlsLevel) -> set[str | None]:
        spec = QuorumSpec.model_validate({"metricsListener": listener})
        config = replace(node_config(spec, names.DEFAULTS), tls=level)
        (container,) = statefulset(OWNER, spec, config)["spec"]["template"]["spec"]["containers"]
        return {container[probe]["httpGet"].get("scheme") for probe in PROBES}

    for listener in ("Shared", "Separate"):
        assert schemes(listener, "disabled") == {None}
        assert schemes(listener, "permissive") == {None}
        assert schemes(listener, "required") == {"HTTPS"}


def test_the_node_s_own_settings_of_the_listeners_are_not_for_the_resource() -> None:
    metrics, admin = find_name_faults(["metrics_listen", "admin_listen"])
    assert "config.metrics_listen cannot be set: set spec.metricsListener to Separate" in metrics
    assert "config.admin_listen cannot be set" in admin
