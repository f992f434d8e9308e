"""`spec.access` on a real API server with real nodes: who is told apart, and how changes arrive."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from kraftquorum_devcluster.errors import CommandError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

FIRST, SECOND = "shop-first-token-0123456789", "shop-second-token-0123456789"
SHOP = {
    "name": "shop",
    "roles": ["read", "write"],
    "keyPrefixes": ["shop/"],
    "tokenSecret": {"name": "shop-token"},
}


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

    # A Secret that cannot be used leaves the file of before in force.
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


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (SHOP | {"roles": ["reed"]}, 'Unsupported value: "reed"'),
        (SHOP | {"certificate": {"commonNames": ["a"]}}, "set one of tokenSecret, certificate"),
        ({"name": "a", "roles": ["read"]}, "set one of tokenSecret, certificate"),
        (SHOP | {"roles": ["metrics"]}, "keyPrefixes restrict the roles read and write"),
        (SHOP | {"name": "kraftquorum:operator"}, "spec.access.clients[0].name"),
    ],
)
def test_the_api_server_refuses_a_wrong_entry(krq, entry: dict[str, Any], says: str) -> None:
    with pytest.raises(CommandError) as raised:
        krq.apply(voters=1, access={"clients": [entry]})
    assert says in str(raised.value)


def test_the_api_server_refuses_two_clients_of_one_name(krq) -> None:
    with pytest.raises(CommandError) as raised:
        krq.apply(voters=1, access={"clients": [SHOP, SHOP]})
    assert "Duplicate value" in str(raised.value)
