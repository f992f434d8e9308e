"""What was read by name is kept for a while, in memory, for looks that find nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.clients.kept_reads import KeepingReader, KeptReads
from kraftquorum_operator.errors import KubeUnavailableError
from kraftquorum_operator.model.objects import Body


@dataclass
class Kube:
    """The API server; answers with the number of the request."""

    fails: Exception | None = None
    asked: list[str] = field(default_factory=list[str])

    async def get(self, kind: str, namespace: str, name: str) -> Body | None:
        self.asked.append(f"{kind} {namespace}/{name}")
        if self.fails is not None:
            raise self.fails
        return {"kind": kind, "data": {"number": len(self.asked)}}

    async def read_url(self, url: str) -> Body:
        self.asked.append(url)
        return {"number": len(self.asked)}


def reader(kube: Kube, kept: KeptReads, max_age_s: float) -> KeepingReader:
    return KeepingReader(cast("KubeReader", kube), kept, max_age_s)


async def test_a_secret_is_read_again_only_once_it_is_old() -> None:
    kube, kept = Kube(), KeptReads()
    first = await reader(kube, kept, 0.0).get("Secret", "ns", "a")
    assert await reader(kube, kept, 60.0).get("Secret", "ns", "a") == first
    assert len(kube.asked) == 1
    assert await reader(kube, kept, 0.0).get("Secret", "ns", "a") != first
    await reader(kube, kept, 60.0).get("Secret", "other", "a")
    await reader(kube, kept, 60.0).get("Certificate", "ns", "a")
    await reader(kube, kept, 60.0).read_url("/keys")
    await reader(kube, kept, 60.0).read_url("/keys")
    assert len(kube.asked) == 5
    kept.clear()
    await reader(kube, kept, 60.0).get("Secret", "ns", "a")
    assert len(kube.asked) == 6


async def test_what_watches_bring_is_not_kept() -> None:
    kube, kept = Kube(), KeptReads()
    for _ in range(2):
        await reader(kube, kept, 60.0).get("StatefulSet", "ns", "a")
    assert len(kube.asked) == 2


@pytest.mark.without(
    "kraftquorum_operator.clients.kept_reads:KeptReads.read",
    "self._answers.pop(key, None)",
    "pass",
)
async def test_a_failure_is_no_answer_and_ends_the_last_one() -> None:
    kube, kept = Kube(), KeptReads()
    await reader(kube, kept, 0.0).get("Secret", "ns", "a")
    kube.fails = KubeUnavailableError(0, "Unreachable", "down")
    for max_age_s in (0.0, 60.0):
        with pytest.raises(KubeUnavailableError):
            await reader(kube, kept, max_age_s).get("Secret", "ns", "a")


async def test_a_reader_has_a_copy_of_its_own_and_nothing_shows_it() -> None:
    kube, kept = Kube(), KeptReads()
    body: Any = await reader(kube, kept, 60.0).get("Secret", "ns", "a")
    body["data"]["number"] = "changed"
    again = await reader(kube, kept, 60.0).get("Secret", "ns", "a")
    assert again == {"kind": "Secret", "data": {"number": 1}}
    assert "number" not in repr(kept)
