"""The CRD on a real API server: what is refused, with which path; columns; scale."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from typing import Any

import pytest

from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.errors import CommandError

pytestmark = pytest.mark.cluster


REPORTED = {
    "observedGeneration": 1,
    "phase": "Waiting",
    "replicas": 3,
    "readyVoters": 0,
    "faultTolerance": 0,
    "labelSelector": "app=demo",
}
"""What a status must have."""


CLIENT: dict[str, Any] = {"name": "shop", "roles": ["read"], "tokenSecret": {"name": "shop"}}


def body(**spec: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "kraftquorum.io/v1alpha1",
            "kind": "KRaftQuorum",
            "metadata": {"name": "demo"},
            "spec": spec,
        }
    )


def refusal(cluster: DevCluster, namespace: str, text: str) -> str:
    with pytest.raises(CommandError) as caught:
        cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"voters": 0}, r"spec\.voters.*greater than or equal to 1"),
        ({"voters": 10}, r"spec\.voters.*less than or equal to 9"),
        ({"voters": "three"}, r"spec\.voters.*must be of type integer"),
        ({"votters": 3}, r'unknown field "spec\.votters"'),
        ({"storage": {"sise": "1Gi"}}, r'unknown field "spec\.storage\.sise"'),
        ({"tls": {"mode": "Secret"}}, r"spec\.tls\.secretName.*needs tls\.secretName"),
        (
            {"tls": {"mode": "Managed", "secretName": "mine"}},
            r"spec\.tls\.secretName.*for tls\.mode Secret only",
        ),
        (
            {"tls": {"mode": "CertManager"}},
            r"spec\.tls\.issuerRef.*needs tls\.issuerRef",
        ),
        (
            {"tls": {"mode": "Managed", "issuerRef": {"name": "ours"}}},
            r"spec\.tls\.issuerRef.*for tls\.mode CertManager only",
        ),
        (
            {"tls": {"mode": "CertManager", "issuerRef": {"name": "ours", "kind": "Isuer"}}},
            r"spec\.tls\.issuerRef\.kind.*must be Issuer or ClusterIssuer",
        ),
        (
            {"tls": {"mode": "CertManager", "issuerRef": {"name": ""}}},
            r"spec\.tls\.issuerRef\.name.*should match",
        ),
        (
            {"tls": {"mode": "CertManager", "issuerRef": {"kind": "Issuer"}}},
            r"spec\.tls\.issuerRef\.name.*Required value",
        ),
        (
            {
                "tls": {
                    "mode": "CertManager",
                    "issuerRef": {"name": "ours"},
                    "certificateLifetime": "24h",
                    "renewBefore": "24h",
                }
            },
            r"spec\.tls\.renewBefore.*less than tls\.certificateLifetime",
        ),
        (
            {"tls": {"mode": "Managed", "renewBefore": "8h"}},
            r"spec\.tls\.renewBefore.*for tls\.mode CertManager only",
        ),
        (
            {"tls": {"mode": "Disabled", "plaintext": "Accepted"}},
            r"spec\.tls\.plaintext.*needs TLS: set tls\.mode",
        ),
        (
            {"tls": {"mode": "Managed", "certificateLifetime": "0h"}},
            r"spec\.tls\.certificateLifetime.*at least 1h",
        ),
        (
            {"tls": {"mode": "Managed", "caLifetime": "200h"}},
            r"spec\.tls\.caLifetime.*three times",
        ),
        ({"tls": {"certificateLifetime": "7d"}}, r"spec\.tls\.certificateLifetime.*should match"),
        ({"tls": {"mode": "On"}}, r"spec\.tls\.mode.*supported values"),
        (
            {"tls": {"mode": "Secret", "secretName": "mine", "issuerRef": {"name": "ours"}}},
            r"spec\.tls\.issuerRef.*for tls\.mode CertManager only",
        ),
        (
            {"access": {"clients": [{**CLIENT, "token": "in clear"}]}},
            r'unknown field "spec\.access\.clients\[0\]\.token"',
        ),
        (
            {
                "access": {
                    "clients": [{**CLIENT, "tokenSecret": {"name": "a", "token": "in clear"}}]
                }
            },
            r'unknown field "spec\.access\.clients\[0\]\.tokenSecret\.token"',
        ),
        (
            {"access": {"clients": [{**CLIENT, "tokenSecret": "in clear"}]}},
            r"spec\.access\.clients\[0\]\.tokenSecret.*must be of type object",
        ),
        (
            {"access": {"clients": [{**CLIENT, "roles": ["read", "append"]}]}},
            r'spec\.access\.clients\[0\]\.roles\[1\].*supported values: "read", "write"',
        ),
        (
            {"access": {"clients": [{**CLIENT, "certificate": {"commonNames": ["a"]}}]}},
            r"spec\.access\.clients\[0\].*set one of tokenSecret, certificate and serviceAccount",
        ),
        (
            {"access": {"anonymous": {"roles": ["everything"]}}},
            r"spec\.access\.anonymous\.roles\[0\].*supported values",
        ),
        (
            {"networkPolicy": {"clientsFrom": [{}]}},
            r"spec\.networkPolicy\.clientsFrom\[0\].*set podSelector .*or ipBlock",
        ),
        (
            {"networkPolicy": {"metricsFrom": [{"podSelector": {}, "ipBlock": {"cidr": "::/0"}}]}},
            r"spec\.networkPolicy\.metricsFrom\[0\].*ipBlock cannot be combined",
        ),
        (
            {"networkPolicy": {"clientsFrom": [{"ipBlock": {"cidr": "10.0.0.1"}}]}},
            r"spec\.networkPolicy\.clientsFrom\[0\]\.ipBlock\.cidr.*should match",
        ),
        (
            {"networkPolicy": {"clientsFrom": [{"podSelector": {"matchLabels": {"a": "b c"}}}]}},
            r"spec\.networkPolicy\.clientsFrom\[0\]\.podSelector\.matchLabels.*should match",
        ),
        (
            {
                "networkPolicy": {
                    "clientsFrom": [
                        {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
                    ]
                }
            },
            r"matchExpressions\[0\].*values must have an entry for In",
        ),
        (
            {"imagePullSecrets": [{"name": "No_Secret"}]},
            r"imagePullSecrets\[0\]\.name.*should match",
        ),
        ({"storage": {"size": "big"}}, r"spec\.storage\.size.*should match"),
        ({"storage": {"size": "255Mi"}}, r"spec\.storage\.size.*must be at least 256Mi"),
        (
            {"replacement": {"policy": "Sometimes"}},
            r'spec\.replacement\.policy.*supported values: "Automatic", "Manual", "Disabled"',
        ),
        (
            {"replacement": {"gracePeriodSeconds": 1}},
            r"spec\.replacement\.gracePeriodSeconds.*must be at least config\.fetch_timeout_ms",
        ),
        (
            {"nodeSettings": {"electionTimeoutMs": 3000}},
            r"election_timeout_ms must not be larger than config\.fetch_timeout_ms",
        ),
        (
            {"config": {"fetch_timeout_ms": 900}},
            r"election_timeout_ms must not be larger than config\.fetch_timeout_ms",
        ),
        (
            {"nodeSettings": {"electionTimeoutMs": 999}},
            r"election_timeout_ms must be at least half of config\.request_timeout_ms",
        ),
        (
            {"nodeSettings": {"fetchTimeoutMs": 3000}, "config": {"fetch_timeout_ms": 4000}},
            r"spec\.nodeSettings\.fetchTimeoutMs.*differ; set config",
        ),
        (
            {"config": {"log_retention_bytes": -2}},
            r"spec\.config\.log_retention_bytes.*greater than or equal to -1",
        ),
        (
            {"config": {"fetches_in_flight_max": 6}},
            r"spec\.config\.fetches_in_flight_max.*less than or equal to 5",
        ),
        (
            {"config": {"segment_bytes": "8Mi"}},
            r"spec\.config\.segment_bytes.*must be of type integer",
        ),
        (
            {"config": {"log_level": "loud"}},
            r'spec\.config\.log_level.*supported values: "debug", "info", "warning", "error"',
        ),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_refused_at_apply_with_its_path_and_what_is_allowed(
    devcluster: DevCluster, crd: None, namespace: str, spec: dict[str, Any], says: str
) -> None:
    message = refusal(devcluster, namespace, body(**spec))
    assert re.search(says, message)
    assert "in clear" not in message, "no message quotes a token"


def test_a_token_in_clear_is_stored_for_no_caller(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    """Also for one that asks for no validation of fields, and of whose object nothing else is kept."""
    text = body(access={"clients": [{**CLIENT, "token": "in clear"}]})
    devcluster.kubectl(
        *["-n", namespace, "create", "--validate=false", "-f", "-"],
        stdin=text,
    )
    stored = devcluster.kubectl("-n", namespace, "get", "krq", "demo", "-o", "json")
    assert "in clear" not in stored
    assert json.loads(stored)["spec"]["access"]["clients"][0]["tokenSecret"]["name"] == "shop"


def test_a_name_that_is_no_service_name_is_refused(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    text = body().replace('"demo"', '"1demo"')
    assert "DNS label that begins with a letter" in refusal(devcluster, namespace, text)


def test_unknown_fields_are_refused_for_any_caller_that_asks_for_strict_validation(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    context = ssl.create_default_context(cafile=str(devcluster.ca_file))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    request = urllib.request.Request(
        f"{devcluster.server_url}/apis/kraftquorum.io/v1alpha1/namespaces/{namespace}"
        "/kraftquorums?fieldValidation=Strict",
        data=body(votters=3).encode(),
        headers={
            "Authorization": f"Bearer {devcluster.token}",
            "Content-Type": "application/json",
        },
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open(request)
    assert caught.value.code == 400
    assert 'unknown field "spec.votters"' in json.load(caught.value)["message"]


def test_config_keeps_what_it_does_not_know_for_the_operator_to_name(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    """And its older name gives way where it has only what the CRD once filled in."""
    text = body(
        config={"log_retention_byte": 7, "fetch_timeout_ms": 4000},
        nodeSettings={"fetchTimeoutMs": 2000},
    )
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=text)
    found = json.loads(devcluster.kubectl("-n", namespace, "get", "krq", "demo", "-o", "json"))
    assert found["spec"]["config"] == {"log_retention_byte": 7, "fetch_timeout_ms": 4000}
    assert found["spec"]["nodeSettings"] == {"fetchTimeoutMs": 2000}


def test_a_resource_without_settings_is_stored_without_any(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    """A default in the CRD would reach resources that are there already."""
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=body(voters=3))
    found = json.loads(devcluster.kubectl("-n", namespace, "get", "krq", "demo", "-o", "json"))
    assert "config" not in found["spec"]
    assert found["spec"].get("nodeSettings", {}) == {}


def test_the_reported_settings_can_be_taken_away_again(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    """While the StatefulSet is missing no settings are known; the status is written all the same."""
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=body(voters=3))
    resource = json.loads(body(voters=3))
    for config in ({"fetch_timeout_ms": "4000"}, {}):
        resource["status"] = {**REPORTED, "config": config}
        devcluster.kubectl(
            *["-n", namespace, "apply", "--server-side", "--subresource=status"],
            *["--field-manager=kraftquorum", "-f", "-"],
            stdin=json.dumps({k: v for k, v in resource.items() if k != "spec"}),
        )
        found = devcluster.kubectl("-n", namespace, "get", "krq", "demo", "-o", "json")
        written = json.loads(found)
        assert written["status"].get("config", {}) == config


def test_storage_may_grow_and_neither_shrink_nor_change_its_class(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=body())
    for larger in ((1 << 30) + 1, "2Gi"):
        devcluster.kubectl(
            "-n", namespace, "apply", "-f", "-", stdin=body(storage={"size": larger})
        )
    for smaller in ("1Gi", (2 << 30) - 1, "2G"):
        says = refusal(devcluster, namespace, body(storage={"size": smaller}))
        assert re.search(r"spec\.storage\.size.*may not shrink", says), smaller
    says = refusal(devcluster, namespace, body(storage={"size": "2Gi", "className": "fast"}))
    assert re.search(r"spec\.storage.*className is immutable", says)


@pytest.mark.parametrize("size", ["1024Mi", 1 << 30, "1Gi"])
def test_the_same_size_in_another_notation_is_no_change(
    devcluster: DevCluster, crd: None, namespace: str, size: str | int
) -> None:
    storage = {"size": "1Gi", "className": "standard"}
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=body(storage=storage))
    again = storage | {"size": size}
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=body(storage=again))
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=body(storage=storage))


def test_values_that_yaml_reads_as_other_types_are_accepted(
    devcluster: DevCluster, crd: None, namespace: str
) -> None:
    """`cpu: 1` is an integer to YAML, and an unquoted `Disabled` is text, which `Off` was not."""
    text = """
apiVersion: kraftquorum.io/v1alpha1
kind: KRaftQuorum
metadata: {name: demo}
spec:
  replacement: {policy: Disabled}
  storage: {size: 1073741824}
  resources:
    requests: {cpu: 1, memory: 268435456}
    limits: {cpu: 2, memory: 1Gi}
"""
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=text)
    says = refusal(devcluster, namespace, body(resources={"limits": {"cpu": -1}}))
    assert re.search(r"spec\.resources\.limits\.cpu.*greater than or equal to 0", says)
    says = refusal(devcluster, namespace, body(storage={"size": 268435455}))
    assert re.search(r"spec\.storage\.size.*must be at least 256Mi", says)


def test_columns_scale_and_short_name(devcluster: DevCluster, crd: None, namespace: str) -> None:
    devcluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=body(voters=3))
    header = devcluster.kubectl("-n", namespace, "get", "krq").splitlines()[0].split()
    columns = "NAME VOTERS ACTUAL LEADER READY DOING AGE"
    assert header == columns.split()
    devcluster.kubectl("-n", namespace, "scale", "krq", "demo", "--replicas=5")
    found = devcluster.kubectl(
        "-n", namespace, "get", "krq", "demo", "-o", "jsonpath={.spec.voters}"
    )
    assert found == "5"
    with pytest.raises(CommandError, match="less than or equal to 9"):
        devcluster.kubectl("-n", namespace, "scale", "krq", "demo", "--replicas=10")
