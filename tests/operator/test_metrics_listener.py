"""`spec.metricsListener: Separate` with TLS and access control, on real nodes."""

from __future__ import annotations

import asyncio
import json
import ssl

import aiohttp
import pytest

from kraftquorum_operator import names

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

TOKENS = {"prometheus": "prometheus-token-0123456789", "shop": "shop-token-0123456789"}
ROLES = {"prometheus": ["metrics"], "shop": ["read", "write"]}
ACCESS = {
    "clients": [
        {"name": name, "roles": roles, "tokenSecret": {"name": name}}
        for name, roles in ROLES.items()
    ]
}


def provide_tokens(krq) -> None:
    bodies = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": {"token": token},
        }
        for name, token in TOKENS.items()
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    krq.kubectl("apply", "-f", "-", stdin=text)


def scrape(krq, port: int, path: str = "/metrics", client: str | None = None) -> int:
    """The status, asked as Prometheus asks by the chart's PodMonitor of one quorum."""
    body = json.loads(krq.kubectl("get", "configmap", "demo-client-ca", "-o", "json"))
    context = ssl.create_default_context(cadata=body["data"]["ca.crt"])
    url = f"https://{krq.get('pods', 'demo-0')['status']['podIP']}:{port}{path}"
    headers = {} if client is None else {"Authorization": f"Bearer {TOKENS[client]}"}

    async def ask() -> int:
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(url, ssl=context, server_hostname="localhost") as answer,
        ):
            return answer.status

    return asyncio.run(ask())


def test_prometheus_reads_the_metrics_of_a_quorum_with_tls_and_access_at_their_port(
    krq, operators
) -> None:
    """The probes have that port, too: with another scheme than its own no pod becomes ready."""
    provide_tokens(krq)
    operators.start()
    krq.apply(voters=1, tls={"mode": "Managed"}, access=ACCESS, metricsListener="Separate")
    krq.ready(1)

    def is_ready() -> bool:
        (container,) = krq.get("pods", "demo-0")["status"]["containerStatuses"]
        return container["ready"]

    krq.until("the probes answered", is_ready, timeout_s=30)
    labels = krq.get("pods", "demo-0")["metadata"]["labels"]
    assert labels[names.LABEL_METRICS_PORT] == "metrics"
    assert labels[names.LABEL_METRICS_SCHEME] == "https"
    assert scrape(krq, names.METRICS_PORT, client="prometheus") == 200
    assert scrape(krq, names.METRICS_PORT) == 401
    assert scrape(krq, names.METRICS_PORT, client="shop") == 403
    assert scrape(krq, names.METRICS_PORT, "/healthz/ready") == 200
    # Each port has its own part of the API.
    assert scrape(krq, names.METRICS_PORT, "/v1/node", client="shop") == 403
    assert scrape(krq, names.API_PORT, client="prometheus") == 403
    assert scrape(krq, names.API_PORT, "/v1/node", client="shop") == 200
    with pytest.raises(aiohttp.ClientError):
        plain_request(krq)


def plain_request(krq) -> None:
    """A scrape without TLS, which would show its token on the way."""
    url = f"http://{krq.get('pods', 'demo-0')['status']['podIP']}:{names.METRICS_PORT}/metrics"

    async def ask() -> None:
        async with aiohttp.ClientSession() as session, session.get(url):
            pass

    asyncio.run(ask())
