"""`spec.access` on a real API server with real nodes: who is told apart, and how changes arrive."""

from __future__ import annotations

import base64
import json
import re
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kraftquorum_demo.background import BackgroundWriters
from kraftquorum_demo.plan import SHORT
from kraftquorum_devcluster.errors import CommandError
from kraftquorum_operator import names
from kraftquorum_operator.execute.certificate_signing import (
    LeafNames,
    Pair,
    issue_leaf,
    make_authority,
)
from kraftquorum_operator.model.access_state import MOUNTED_S, OPERATOR, AccessState
from raftnode.client import Credentials
from raftnode.core.types import Endpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

FIRST, SECOND = "shop-first-token-0123456789", "shop-second-token-0123456789"
SHOP = {
    "name": "shop",
    "roles": ["read", "write"],
    "keyPrefixes": ["shop/"],
    "tokenSecret": {"name": "shop-token"},
}

WRITER = {"name": "writer", "roles": ["read", "write"], "tokenSecret": {"name": "shop-token"}}
ACCOUNT = "shop"
LIVING: dict[str, Any] = {
    "voters": 3,
    "config": {"fetch_timeout_ms": 9000},
    "replacement": {"gracePeriodSeconds": 9},
    "tls": {"mode": "Disabled"},
}
"""No election but by a leadership transfer, however slow the machine."""


def ask(krq, method: str, path: str, token: str | None = None, *, ordinal: int = 0) -> int:
    """The status of a request to a node; a PUT writes one byte."""
    address = krq.get("pods", f"demo-{ordinal}")["status"]["podIP"]
    request = urllib.request.Request(
        f"http://{address}:9080{path}", data=b"x" if method == "PUT" else None, method=method
    )
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def write_token(krq, token: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "shop-token"},
        "stringData": {"token": f"{token}\n"},
    }
    krq.kubectl("apply", "-f", "-", stdin=json.dumps(body))


def patch_access(krq, access: dict[str, Any] | None) -> None:
    change = json.dumps({"spec": {"access": access}})
    krq.kubectl("patch", "krq", "demo", "--type=merge", "-p", change)


def access_ready(krq, reason: str) -> bool:
    condition = krq.condition("AccessReady")
    return condition.get("reason") == reason


def secrets(krq) -> list[str]:
    return krq.kubectl("get", "secrets", "-o", "name").split()


def uids(krq) -> set[str]:
    return {pod["metadata"]["uid"] for pod in krq.list("pods")}


def test_a_new_quorum_denies_by_default_and_follows_its_secrets_without_a_restart(
    krq, operators
) -> None:
    operators.start()
    krq.apply(voters=1, access={"clients": [SHOP], "tokenOverlapSeconds": 20})
    krq.until("the Secret missed", lambda: access_ready(krq, "SecretMissing"))
    assert "spec.access.clients[0].tokenSecret" in krq.condition("AccessReady")["message"]
    krq.until_status("held", lambda now: now.get("waitingFor") == "access_file_written")
    assert not krq.list("sts"), "no node starts that would allow everything"

    write_token(krq, FIRST)
    krq.ready(1)
    krq.until("in force", lambda: access_ready(krq, "Enforced"))
    pods = uids(krq)
    assert ask(krq, "GET", "/healthz/live") == 200
    assert ask(krq, "GET", "/v1/kv/shop/a") == 401
    assert ask(krq, "GET", "/v1/node", "not-the-token-of-a-client") == 401
    assert ask(krq, "PUT", "/v1/kv/shop/a", FIRST) == 200
    assert ask(krq, "PUT", "/v1/kv/other", FIRST) == 403
    assert ask(krq, "GET", "/metrics", FIRST) == 403
    assert ask(krq, "POST", "/v1/quorum/resign", FIRST) == 403

    # Another token: both are valid for a while, then the new one alone.
    write_token(krq, SECOND)
    krq.until("the new token", lambda: ask(krq, "GET", "/v1/kv/shop/a", SECOND) == 200)
    assert ask(krq, "GET", "/v1/kv/shop/a", FIRST) == 200
    krq.until("the old token ended", lambda: ask(krq, "GET", "/v1/kv/shop/a", FIRST) == 401)
    assert ask(krq, "GET", "/v1/kv/shop/a", SECOND) == 200

    # A Secret that cannot be used leaves the previous file in force.
    write_token(krq, "too short")
    krq.until("reported", lambda: access_ready(krq, "TokenUnusable"))
    krq.kubectl("delete", "secret", "shop-token")
    krq.until("reported", lambda: access_ready(krq, "SecretMissing"))
    assert ask(krq, "GET", "/v1/kv/shop/a", SECOND) == 200
    events = [event["reason"] for event in krq.list("events")]
    assert "SecretMissing" in events
    write_token(krq, SECOND)
    krq.until("in force again", lambda: access_ready(krq, "Enforced"))

    # A client without a credential of its own; and what a person did to the Secret is put right.
    patch_access(krq, {"clients": [SHOP], "anonymous": {"roles": ["metrics"]}})
    krq.until("metrics for all", lambda: ask(krq, "GET", "/metrics") == 200)
    assert ask(krq, "GET", "/v1/kv/shop/a") == 401
    krq.kubectl("delete", "secret", "demo-access")
    krq.until("written again", lambda: "secret/demo-access" in secrets(krq))
    krq.until("in force again", lambda: access_ready(krq, "Enforced"))
    assert uids(krq) == pods, "no pod restarts for any of it"

    # No token is anywhere but in the Secrets of their own.
    shown = krq.kubectl("get", "krq,sts,pods,events", "-o", "json")
    files = json.loads(krq.kubectl("get", "secret", "demo-access", "-o", "json"))["data"]
    shown += "".join(base64.b64decode(text).decode() for text in files.values())
    log = "".join(path.read_text() for path in operators.logs.glob("operator-*.log"))
    for token in (FIRST, SECOND):
        assert token not in shown
        assert token not in log


def request_token(krq, account: str, audience: str = "kraftquorum") -> str:
    """A token that the API server signs for a ServiceAccount, as a projected volume has it."""
    status, answer = krq.api.post(
        f"api/v1/namespaces/{krq.namespace}/serviceaccounts/{account}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": 3600},
        },
    )
    assert status == 201, answer
    return answer["status"]["token"]


Start = Callable[[str], BackgroundWriters]


@pytest.fixture
def writers(krq, tmp_path: Path) -> Iterator[Start]:
    """Starts clients that write with a token until the end of the test."""
    started: list[BackgroundWriters] = []

    def start(token: str) -> BackgroundWriters:
        token_file = tmp_path / "token"
        token_file.write_text(token)
        domain = f"demo-peers.{krq.namespace}.svc.cluster.local"
        made = BackgroundWriters(
            [Endpoint(f"demo-{n}.{domain}", 9080) for n in range(3)],
            krq.cluster.hosts_file,
            SHORT,
            credentials=Credentials(token_file=token_file, plaintext_token=True),
        )
        started.append(made)
        return made.start()

    yield start
    for made in started:
        with suppress(Exception):
            made.finish()


@pytest.mark.extended
@pytest.mark.parametrize("known_by", ["token", "service_account"])
def test_a_serving_quorum_goes_to_access_control_and_back_without_a_failed_write(
    krq, operators, writers: Start, known_by: str
) -> None:
    operators.start()
    krq.apply(**LIVING)
    krq.ready(3)
    write_token(krq, FIRST)
    for account in (ACCOUNT, "other"):
        krq.kubectl("create", "serviceaccount", account)
    signed = request_token(krq, ACCOUNT)
    other_audience = request_token(krq, ACCOUNT, "https://kubernetes.default.svc")
    other_account = request_token(krq, "other")
    name = {"namespace": krq.namespace, "name": ACCOUNT}
    account = {"name": "account", "roles": ["read", "write"], "serviceAccount": name}
    # The client has its token before a node asks for one.
    writing = writers({"token": FIRST, "service_account": signed}[known_by])
    krq.until("writes", lambda: writing.acknowledged > 50)
    assert ask(krq, "GET", "/v1/node") == 200

    before = uids(krq)
    patch_access(krq, {"clients": [WRITER, account]})
    krq.until("in force", lambda: access_ready(krq, "Enforced") and krq.is_ready(3))
    assert not before & uids(krq), "each pod has restarted"
    for ordinal in range(3):
        assert ask(krq, "GET", "/healthz/live", ordinal=ordinal) == 200
        for token in (None, other_audience, other_account, "not-the-token-of-a-client"):
            assert ask(krq, "GET", "/v1/node", token, ordinal=ordinal) == 401
            assert ask(krq, "PUT", "/v1/kv/stranger", token, ordinal=ordinal) == 401
        for token in (FIRST, signed):
            assert ask(krq, "GET", "/v1/node", token, ordinal=ordinal) == 200
            assert ask(krq, "POST", "/v1/quorum/resign", token, ordinal=ordinal) == 403
    guarded = writing.acknowledged
    krq.until("writes under access control", lambda: writing.acknowledged > guarded + 50)

    before = uids(krq)
    patch_access(krq, None)

    def is_open() -> bool:
        return not before & uids(krq) and krq.is_ready(3)

    krq.until("open again", is_open)
    assert ask(krq, "GET", "/v1/node") == 200
    opened = writing.acknowledged
    krq.until("writes without access control", lambda: writing.acknowledged > opened + 50)
    outcome = writing.finish()
    sys.stdout.write(f"{outcome}\n")
    assert outcome.verdict.ok, outcome.verdict.differences
    assert outcome.verdict.lost == 0
    assert outcome.refused == 0
    # A leader that transfers leadership does not know what becomes of each writer's last write.
    assert outcome.unknown <= SHORT.writers * outcome.elections


# --- by what the nodes know the operator -------------------------------------------------------


def known_by(krq, operation: str) -> set[str]:
    """By what the nodes knew the operator when it changed something, by their audit logs."""
    return {
        line["authenticated_by"]
        for line in krq.audited()
        if line.get("operation") == operation and line.get("subject") == OPERATOR
    }


CLUSTER = "x" * 22
BATCH = f"spiffe://kraftquorum/cluster/{CLUSTER}/client/batch"


def own_certificates(krq, authority: Pair, *, operator: bool) -> str:
    """A Secret of a person with the certificate of a node, and one for the operator or none."""
    domain = f"*.demo-peers.{krq.namespace}.svc.cluster.local"
    node = LeafNames(
        "node", frozenset({names.node_identity(CLUSTER, 0)}), frozenset({domain, "localhost"})
    )
    wanted = {"tls": node}
    if operator:
        own = frozenset({names.operator_identity(CLUSTER)})
        wanted["operator"] = LeafNames("operator", own, frozenset())
    data = {"ca.crt": authority.certificate}
    for stem, leaf_names in wanted.items():
        leaf = issue_leaf(authority, leaf_names, 86_400, time.time())
        data |= {f"{stem}.crt": leaf.certificate, f"{stem}.key": leaf.key}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "mine"},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }
    return json.dumps(body)


@pytest.mark.parametrize(
    ("mode", "operator", "way"),
    [
        ("Managed", True, "certificate"),
        ("Secret", True, "certificate"),
        ("Secret", False, "token"),
        ("Disabled", False, "token"),
    ],
)
def test_the_nodes_know_the_operator_by_its_certificate_or_else_by_its_token(
    krq, operators, mode: str, operator: bool, way: str
) -> None:
    tls = {"mode": mode}
    if mode == "Secret":
        authority = make_authority("mine", 86_400, time.time())
        text = own_certificates(krq, authority, operator=operator)
        krq.kubectl("apply", "-f", "-", stdin=text)
        tls["secretName"] = "mine"
    operators.start()
    krq.apply(voters=1, tls=tls, access={"clients": []})
    krq.ready(1)
    assert known_by(krq, "form") == {way}


def test_a_client_is_known_by_its_certificate_as_the_resource_says(
    krq, operators, tmp_path: Path
) -> None:
    authority = make_authority("mine", 86_400, time.time())
    text = own_certificates(krq, authority, operator=True)
    krq.kubectl("apply", "-f", "-", stdin=text)
    client = {"name": "batch", "roles": ["read"], "certificate": {"uriNames": [BATCH]}}
    operators.start()
    tls = {"mode": "Secret", "secretName": "mine"}
    krq.apply(voters=1, tls=tls, access={"clients": [client]})
    krq.ready(1)
    address = krq.get("pods", "demo-0")["status"]["podIP"]
    (tmp_path / "ca.crt").write_bytes(authority.certificate)

    def status(method: str, *uris: str, issuer: Pair | None = authority) -> int:
        context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        context.check_hostname = False
        if issuer is not None:
            leaf = LeafNames("batch", frozenset(uris), frozenset())
            pair = issue_leaf(issuer, leaf, 86_400, time.time())
            file = tmp_path / "client.pem"
            file.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(file)
        request = urllib.request.Request(
            f"https://{address}:9080/v1/kv/a", data=b"x" if method == "PUT" else None, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert status("GET", BATCH) == 404, "it may read, and there is no such key"
    assert status("PUT", BATCH) == 403
    assert status("GET", BATCH.replace("batch", "other")) == 401
    assert status("GET", issuer=None) == 401
    with pytest.raises((urllib.error.URLError, OSError)):
        status("GET", BATCH, issuer=make_authority("stranger", 86_400, time.time()))


@pytest.mark.extended
def test_on_the_way_to_tls_and_back_the_operator_is_known_all_along(krq, operators) -> None:
    """Its token, until each node has the file with its name; then its certificate alone."""
    operators.start()
    spec: dict[str, Any] = {"access": {"clients": []}, "replacement": {"gracePeriodSeconds": 5}}
    krq.apply(voters=1, **spec)
    krq.ready(1)
    assert known_by(krq, "form") == {"token"}
    krq.apply(voters=1, tls={"mode": "Managed"}, **spec)
    krq.until("TLS", lambda: krq.status().get("tls", {}).get("level") == "required")
    krq.ready(1)

    def in_force() -> bool:
        data = json.loads(krq.kubectl("get", "secret", "demo-access", "-o", "json"))["data"]
        state = AccessState.parse(base64.b64decode(data["state.json"]).decode())
        # A look of the operator may have begun before.
        return state.name_in_force(int(time.time()) - 10) is not None

    krq.until("the name known to all", in_force, timeout_s=MOUNTED_S + 60)
    krq.apply(voters=3, tls={"mode": "Managed"}, **spec)
    krq.ready(3)
    assert known_by(krq, "addVoter") == {"certificate"}
    krq.apply(voters=3, **spec)
    krq.until("plain", lambda: krq.status().get("tls", {}).get("level") == "disabled")
    krq.ready(3)
    assert ask(krq, "GET", "/v1/node") == 401


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (SHOP | {"roles": ["reed"]}, r'\[0\]\.roles\[0\]: Unsupported value: "reed"'),
        (SHOP | {"roles": ["read", "peer"]}, r'\[0\]\.roles\[1\]: Unsupported value: "peer"'),
        (SHOP | {"token": "in clear"}, r'unknown field "spec\.access\.clients\[0\]\.token"'),
        (
            SHOP | {"certificate": {"commonNames": ["a"]}},
            r"\[0\].*: set one of tokenSecret, certificate and serviceAccount",
        ),
        ({"name": "a", "roles": ["read"]}, r"\[0\].*: set one of tokenSecret, certificate and"),
        (
            SHOP | {"roles": ["metrics"]},
            r"\[0\]\.keyPrefixes.*keyPrefixes restrict the roles read and write",
        ),
        (SHOP | {"name": "kraftquorum:operator"}, r"\[0\]\.name.*should match"),
    ],
)
def test_the_api_server_refuses_a_wrong_entry(krq, entry: dict[str, Any], says: str) -> None:
    with pytest.raises(CommandError) as raised:
        krq.apply(voters=1, access={"clients": [entry]})
    message = str(raised.value)
    assert "spec.access.clients[0]" in message
    assert re.search(says, message), message


def test_the_api_server_refuses_two_clients_of_one_name(krq) -> None:
    with pytest.raises(CommandError) as raised:
        krq.apply(voters=1, access={"clients": [SHOP, SHOP]})
    assert "Duplicate value" in str(raised.value)
