"""What the process node makes of an API server that was put back to an older copy."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.errors import ApiError, NotReadyToRunError
from kraftquorum_devcluster.informer import Informer
from kraftquorum_devcluster.processnode.sources import read_volume

Body = dict[str, Any]


class Server:
    """Answers a GET with what is stored under its path."""

    def __init__(self, **stored: Body) -> None:
        self.stored = stored

    async def get(self, path: str) -> Body:
        try:
            return self.stored[path.rpartition("/")[2]]
        except KeyError:
            raise ApiError(404, "NotFound", path) from None


def claim(uid: str, volume: str = "") -> Body:
    return {"metadata": {"name": "data", "uid": uid}, "spec": {"volumeName": volume}}


def volume(uid: str) -> Body:
    return {"metadata": {"name": "disk"}, "spec": {"claimRef": {"uid": uid}}}


def read(**stored: Body) -> Body:
    return asyncio.run(read_volume(cast("ApiClient", Server(**stored)), "default", "data"))


def test_a_claim_has_the_volume_that_is_bound_to_it():
    assert read(data=claim("1", "disk"), disk=volume("1")) == volume("1")


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"data": claim("1")},
        {"data": claim("1", "disk")},
        {"data": claim("1", "disk"), "disk": volume("2")},
    ],
    ids=["no-claim", "no-volume-named", "volume-gone", "volume-of-another-claim-of-that-name"],
)
def test_a_pod_waits_for_a_claim_without_a_volume_of_its_own(stored: dict[str, Body]):
    with pytest.raises(NotReadyToRunError, match="claim data is not bound") as found:
        read(**stored)
    assert found.value.reason == "FailedMount"


def test_another_object_of_the_same_name_and_version_is_told():
    """Resource versions are counted on from the copy, so two lives of a name may have the same."""
    told: list[tuple[str, str]] = []
    server = Server()
    informer = Informer(
        cast("ApiClient", server), "things", lambda kind, it: told.append((kind, uid(it)))
    )

    def listed(*uids: str) -> None:
        things = [{"metadata": {"name": "a", "uid": u, "resourceVersion": "7"}} for u in uids]
        server.stored["things"] = {"items": things, "metadata": {"resourceVersion": "7"}}
        asyncio.run(informer._list())

    def uid(thing: Body) -> str:
        return thing["metadata"]["uid"]

    listed("first")
    listed("first")
    assert told == [("ADDED", "first")]
    listed("second")
    assert told[1:] == [("DELETED", "first"), ("ADDED", "second")]
