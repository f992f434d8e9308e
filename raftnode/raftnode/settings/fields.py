"""Types of settings, each with what its text is turned into."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from raftnode.core.types import Endpoint
from raftnode.settings.values import VoterAddress, each_once


def _endpoint(value: object) -> object:
    return Endpoint.parse(value) if isinstance(value, str) else value


def _listen(value: object) -> object:
    if isinstance(value, str) and value.endswith(":0"):
        return Endpoint(Endpoint.parse(f"{value[:-1]}1").host, 0)
    return _endpoint(value)


def _endpoints(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(Endpoint.parse(part.strip()) for part in value.split(",") if part.strip())


def _voters(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = (part.strip() for part in value.split(","))
    return each_once(VoterAddress.parse(part) for part in parts if part)


EndpointSetting = Annotated[Endpoint, BeforeValidator(_endpoint)]
ListenSetting = Annotated[Endpoint, BeforeValidator(_listen)]
EndpointsSetting = Annotated[tuple[Endpoint, ...], BeforeValidator(_endpoints)]
TlsMode = Literal["disabled", "permissive", "required"]
VotersSetting = Annotated[tuple[VoterAddress, ...], BeforeValidator(_voters)]
