"""A node accepts the random cluster ids."""

from __future__ import annotations

import uuid

import pytest
from pydantic import TypeAdapter

from kraftquorum_operator.execute import formation
from raftnode.api.model import ClusterIdText


@pytest.mark.parametrize("first", range(256))
def test_a_random_cluster_id_is_one_that_a_node_takes(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """The first six bits are the first character: 62 is a dash, 63 an underscore."""
    given = [bytes([byte]) + bytes(15) for byte in (first, 0xFF, 0xF8, 0x10)]

    def next_uuid() -> uuid.UUID:
        return uuid.UUID(bytes=given.pop(0))

    monkeypatch.setattr(formation.uuid, "uuid4", next_uuid)
    text = formation.random_cluster_id()
    assert len(text) == 22
    assert text[0] not in "-_"
    assert TypeAdapter(ClusterIdText).validate_python(text) == text
    assert len(given) == (0 if first >= 0xF8 else 3), "only those two are drawn again"
