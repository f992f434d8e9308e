"""The running operator, without a cluster."""

import asyncio
from typing import Any

import kopf

from kraftquorum_operator import app
from kraftquorum_operator.settings import load_settings


class NoLease:
    async def run(self) -> None:
        await asyncio.Event().wait()

    async def release(self) -> None: ...


async def test_kopf_is_told_who_it_is_and_need_not_look_the_user_up(monkeypatch):
    """A container's user has no entry in passwd, and kopf would end with a KeyError."""
    given: dict[str, Any] = {}

    async def operator(**arguments: Any) -> None:
        given.update(arguments)

    monkeypatch.setattr(kopf, "operator", operator)
    settings = load_settings(identity="me")
    await app._run(settings, NoLease(), kopf.OperatorRegistry(), None)
    assert given["identity"] == "me"
