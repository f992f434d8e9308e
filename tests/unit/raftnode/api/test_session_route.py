"""How a session ends that a client breaks or leaves, over TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from proofkit.certificates import Authority
from proofkit.localquorum import eventually
from proofkit.memoryservice import MemoryService
from raftnode.api import session_route
from raftnode.api.guard import Guard
from raftnode.api.http import ApiLimits
from raftnode.api.listeners import Listener
from raftnode.api.metrics import LimitMetrics
from raftnode.api.server import ApiServer, make_app
from raftnode.api.session import greeting_of
from raftnode.core.types import Endpoint
from raftnode.limits.model import ClientLimits
from raftnode.log_limit import LineBudget
from raftnode.session import PATH, SUBPROTOCOL
from raftnode.tls.files import TlsFiles
from raftnode.tls.handshakes import ListenerTls
from raftnode.tls.material import TlsRules

SERVERS = Authority("servers")


@pytest.fixture(autouse=True)
def unused_line_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of earlier tests have logged, too."""
    monkeypatch.setattr(session_route, "_lines", LineBudget())


def spawn(coroutine: Any, *, name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coroutine, name=name)


@dataclass(frozen=True, slots=True)
class Api:
    """A listener with TLS, and a session on it."""

    guard: Guard
    registry: CollectorRegistry
    websocket: aiohttp.ClientWebSocketResponse

    @property
    def faults(self) -> float | None:
        return self.registry.get_sample_value(
            "raftnode_client_refusals_total", {"listener": "api", "limit": "session_fault"}
        )

    async def ended(self) -> None:
        """Wait until the node has ended the session."""

        async def look() -> bool | None:
            return self.guard.sessions.total == 0 or None

        await eventually(look, what="the session to end")


@asynccontextmanager
async def opened(tmp_path: Path, *, answers_pings: bool) -> AsyncGenerator[Api]:
    issued = SERVERS.issue(tmp_path / "node", hosts=["127.0.0.1"])
    rules = TlsRules(
        listener="api",
        mode="required",
        certificate_file=issued.certificate,
        key_file=issued.key,
        ca_file=None,
        client_certificates="optional",
        min_version="1.3",
        node_id=1,
    )
    registry = CollectorRegistry()
    guard = Guard(ClientLimits(), LimitMetrics(registry).of(Listener.API))
    server = ApiServer(
        make_app(MemoryService(), registry=registry, version="1", guard=guard),
        shutdown_grace_ms=0,
        tls=ListenerTls(TlsFiles(rules), spawn, lambda *_: None, 30.0),
    )
    try:
        at = await server.start(Endpoint("127.0.0.1", 0))
        context = ssl.create_default_context(cadata=SERVERS.pem.decode())
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(
                f"https://{at}{PATH}",
                protocols=(SUBPROTOCOL,),
                autoping=answers_pings,
                ssl=context,
            ) as websocket,
        ):
            await websocket.receive_bytes()
            yield Api(guard, registry, websocket)
    finally:
        await server.stop()


@pytest.mark.without(
    "api.session_route:SessionRoute._receive",
    "isinstance(message.data, WebSocketError)",
    "message.data",
)
async def test_a_client_that_answers_no_pings_has_gone_and_broke_no_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_route, "HEARTBEAT_S", 0.4)
    with capture_logs() as events:
        async with opened(tmp_path, answers_pings=False) as api:
            await api.ended()
            assert api.faults == 0
    assert not [event for event in events if event["event"] == "session_refused"]


@pytest.mark.without(
    "api.session_route:SessionRoute._receive",
    "message.type is WSMsgType.ERROR",
    "message.type is None",
)
async def test_the_log_says_that_a_message_is_too_large(tmp_path: Path) -> None:
    with capture_logs() as events:
        async with opened(tmp_path, answers_pings=True) as api:
            # The node reads no more of it, and may cut the client off before all is sent.
            with contextlib.suppress(ConnectionError):
                await api.websocket.send_bytes(bytes(greeting_of(ApiLimits()).credit_bytes + 1))
            await api.ended()
            assert api.faults == 1
    reasons = [event["reason"] for event in events if event["event"] == "session_refused"]
    assert len(reasons) == 1
    assert "exceeds limit" in reasons[0]
