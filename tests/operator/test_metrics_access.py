"""The operator's metrics on a real API server: which accounts read them, and for how long."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kraftquorum_devcluster import DevCluster
from kraftquorum_operator.http.access import ALLOWED_S
from proofkit.loopback import LoopbackNetwork

pytestmark = [pytest.mark.cluster, pytest.mark.extended, pytest.mark.timeout(600)]

BASE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base" / "operator.yaml"
PORT = 18080


@pytest.fixture
def reader_role(devcluster: DevCluster, namespace: str) -> Iterator[str]:
    """The role of the base that allows an account to read the metrics."""
    (role,) = [
        body
        for body in yaml.safe_load_all(BASE.read_text())
        if body["metadata"]["name"] == "kraftquorum-metrics-reader"
    ]
    name = f"reader-{namespace}"
    text = yaml.safe_dump(role | {"metadata": {"name": name}})
    devcluster.kubectl("apply", "-f", "-", stdin=text)
    yield name
    devcluster.kubectl("delete", "clusterrole,clusterrolebinding", name, "--ignore-not-found")


def get(host: str, token: str | None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"https://{host}:{PORT}/metrics", headers=headers)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_an_account_reads_the_metrics_while_a_role_allows_it(
    krq, operators, reader_role: str, network: LoopbackNetwork
) -> None:
    host = network.host(1)
    operators.start(metrics_access="authenticated", metrics_host=host, metrics_port=PORT)
    krq.apply(voters=1)
    krq.ready(1)
    tokens = {}
    for name in ("prometheus", "stranger"):
        krq.kubectl("create", "serviceaccount", name)
        tokens[name] = krq.kubectl("create", "token", name).strip()
    subject = f"--serviceaccount={krq.namespace}:prometheus"
    krq.cluster.kubectl(
        "create", "clusterrolebinding", reader_role, f"--clusterrole={reader_role}", subject
    )
    krq.until("allowed", lambda: get(host, tokens["prometheus"])[0] == 200)
    assert "kraftquorum_operator_info" in get(host, tokens["prometheus"])[1]
    assert get(host, tokens["stranger"])[0] == 403
    assert get(host, None)[0] == 401
    forged = tokens["prometheus"][:-8] + "AAAAAAAA"
    assert get(host, forged)[0] == 401
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(f"http://{host}:{PORT}/metrics", timeout=30)

    # A right that is withdrawn ends with what the operator remembers of it.
    krq.cluster.kubectl("delete", "clusterrolebinding", reader_role)
    began = time.monotonic()
    krq.until("refused", lambda: get(host, tokens["prometheus"])[0] == 403)
    assert time.monotonic() - began < ALLOWED_S + 20
    # An account that is deleted belongs to no user.
    krq.kubectl("delete", "serviceaccount", "stranger")
    krq.until("unknown", lambda: get(host, tokens["stranger"])[0] == 401)
    log = operators.log()
    assert not [token for token in (*tokens.values(), forged) if token in log]
