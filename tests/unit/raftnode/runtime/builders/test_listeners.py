"""The limits of the listeners for clients, from the settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from raftnode.runtime.builders.listeners import client_limits
from raftnode.settings import NodeSettings

LIMITS = {
    "connections_max": 60_000,
    "address_connections_max": 50_000,
    "requests_max": 40_000,
    "holder_requests_max": 30_000,
    "sessions_max": 20_000,
    "holder_sessions_max": 10_000,
    "bodies_max_bytes": 2 << 20,
    "unread_max_bytes": 3 << 20,
    "head_timeout_ms": 100,
    "body_timeout_ms": 200,
    "unread_timeout_ms": 300,
    "idle_timeout_ms": 400,
}
"""All but `reserved_max`, which is no setting; each is another value."""


@pytest.mark.without(
    "runtime.builders.listeners:client_limits",
    "holder_sessions_max=settings.api_holder_sessions_max",
    "holder_sessions_max=settings.api_sessions_max",
)
def test_each_limit_is_its_setting(tmp_path: Path) -> None:
    settings = NodeSettings.model_validate(
        {"node_id": 1, "log_dir": tmp_path}
        | {f"api_{name}": value for name, value in LIMITS.items()}
    )
    limits = asdict(client_limits(settings, files=100_000))
    assert limits.pop("reserved_max") == 64
    assert limits == LIMITS
