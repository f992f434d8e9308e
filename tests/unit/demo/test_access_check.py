"""What a node answers to strangers is measured: on nodes that are shut, open, or speak no TLS."""

import ssl
from pathlib import Path

import pytest
from aiohttp import web

from kraftquorum_demo.access_check import Findings, NodeListeners, check_access
from kraftquorum_demo.credentials import PROMETHEUS, REPORTS, ClientFiles
from proofkit.certificates import Authority
from raftnode.client import Credentials


@pytest.fixture
def nodes_ca() -> Authority:
    return Authority("nodes")


@pytest.fixture
def files(tmp_path: Path, nodes_ca: Authority) -> ClientFiles:
    made = ClientFiles(tmp_path / "credentials")
    made.make()
    made.trust({"data": {"ca.crt": nodes_ca.pem.decode()}})
    return made


class Node:
    """Answers as a node does, and less carefully where a test wants it."""

    def __init__(self, token: str, *, anonymous: bool = False, writes: bool = False) -> None:
        self._token = token
        self._anonymous = anonymous
        self._writes = writes

    async def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            return web.Response(status=200 if self._anonymous else 401)
        denied = request.method == "PUT" and not self._writes
        return web.Response(status=403 if denied else 200)


async def found(
    host: str,
    node: Node,
    reader: Credentials,
    tls: ssl.SSLContext | None,
    peer_tls: ssl.SSLContext | None,
) -> Findings:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", node.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    findings = Findings()
    try:
        for port, context in ((9080, tls), (9093, peer_tls)):
            await web.TCPSite(runner, host, port, ssl_context=context).start()
        await check_access([NodeListeners("demo-0", host, 9080, 9093)], reader, findings)
    finally:
        await runner.cleanup()
    return findings


@pytest.mark.parametrize(
    ("faults", "tls", "asks_peers", "expected"),
    [
        ({}, True, True, (True, True, True, True)),
        ({"anonymous": True}, True, True, (True, False, True, True)),
        ({"writes": True}, True, True, (True, True, False, True)),
        ({}, True, False, (True, True, True, False)),
        ({}, False, False, (False, False, False, True)),
    ],
)
async def test_each_part_is_what_the_node_answered(
    tmp_path, session_network, nodes_ca, files, faults, tls, asks_peers, expected
):
    reader = files.credentials(REPORTS)
    node = Node(files.token_file(REPORTS).read_text(), **faults)
    issued = nodes_ca.issue(tmp_path, hosts=["localhost"])
    context, peer_context = (issued.server_context() if tls else None for _ in range(2))
    if peer_context is not None and asks_peers:
        peer_context.load_verify_locations(cadata=nodes_ca.pem.decode())
        peer_context.verify_mode = ssl.CERT_REQUIRED
    findings = await found(session_network.host(11), node, reader, context, peer_context)
    figures = findings.figures()
    names = ("encrypted", "anonymous_refused", "denied_by_role", "peer_refused")
    assert tuple(figures[name] for name in names) == expected
    assert bool(findings.plain_answers) is not tls
    assert findings.ok is all(expected)


async def test_a_node_of_another_ca_counts_as_not_encrypted(tmp_path, session_network, files):
    node = Node(files.token_file(REPORTS).read_text())
    context = Authority("other").issue(tmp_path, hosts=["localhost"]).server_context()
    reader = files.credentials(REPORTS)
    assert not (await found(session_network.host(12), node, reader, context, context)).encrypted


def test_each_client_has_a_token_of_its_own_that_only_the_owner_reads(files):
    tokens = [files.token_file(name) for name in (REPORTS, PROMETHEUS)]
    assert len({path.read_text() for path in tokens}) == len(tokens)
    assert {path.stat().st_mode & 0o777 for path in tokens} == {0o600}
