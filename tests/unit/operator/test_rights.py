"""The table of rights covers every request of the operator to Kubernetes."""

from __future__ import annotations

import pytest

from kraftquorum_operator.clients import kube
from kraftquorum_operator.clients.cache import CACHED
from kraftquorum_operator.rights import CERT_MANAGER, KAFKA_ADVICE, LEASE, WATCHED, Right

RIGHTS = (*WATCHED, *CERT_MANAGER, *KAFKA_ADVICE, *LEASE)
KNOWN = {(right.group, right.resource) for right in RIGHTS}


@pytest.mark.parametrize("kind", kube._RESOURCES)
def test_every_kind_of_the_client_is_in_the_table(kind: str) -> None:
    parts = kube.path(kind, "ns").strip("/").split("/")
    group = "" if parts[0] == "api" else parts[1]
    assert (group, parts[-1]) in KNOWN


@pytest.mark.parametrize("kind", CACHED)
def test_what_is_watched_may_be_watched(kind: str) -> None:
    parts = kube.path(kind, None).strip("/").split("/")
    group, plural = "" if parts[0] == "api" else parts[1], parts[-1]
    (right,) = [one for one in WATCHED if (one.group, one.resource) == (group, plural)]
    assert {"list", "watch"} <= set(right.verbs)


def test_no_list_of_secrets_no_wildcard_and_nothing_of_roles() -> None:
    for right in RIGHTS:
        assert right.resource not in {"roles", "rolebindings", "nodes", "*"}
        if right.resource == "secrets":
            assert not {"list", "watch", "update", "deletecollection"} & set(right.verbs)
        assert "*" not in right.verbs
        assert right.why
    assert len(KNOWN) == len(WATCHED) + len(CERT_MANAGER) + len(KAFKA_ADVICE) + 1


def test_advice_about_kafka_needs_no_write_but_its_status() -> None:
    writes = {(right.resource, verb) for right in KAFKA_ADVICE for verb in right.verbs}
    assert writes - {("kafkaquorums", verb) for verb in ("list", "watch")} == {
        ("kafkaquorums/status", "patch")
    }


def test_a_right_is_written_as_kubectl_does() -> None:
    assert str(Right("apps", "statefulsets", (), "")) == "statefulsets.apps"
    assert str(Right("", "pods", (), "")) == "pods"
