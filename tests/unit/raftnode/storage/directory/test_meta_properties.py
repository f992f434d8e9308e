from __future__ import annotations

import uuid

import pytest

from raftnode.core.types import NodeId
from raftnode.errors import ConfigurationError
from raftnode.storage.directory.meta_properties import (
    MetaProperties,
    check_cluster_id,
    decode_meta_properties,
    encode_meta_properties,
)

pytestmark = pytest.mark.rule("P47")

OWN = uuid.UUID("f1e2d3c4-0000-4000-8000-000000000001")


@pytest.mark.without(
    "storage.directory.meta_properties:encode_meta_properties",
    'f"storage.id={own}"',
    'f"storage.id={meta.node_id}"',
)
def test_meta_properties_are_kafkas_with_storage_id() -> None:
    meta = MetaProperties(NodeId(3), OWN, "cluster-x")
    data = encode_meta_properties(meta)
    assert data == (
        b"version=1\nnode.id=3\ndirectory.id=8eLTxAAAQACAAAAAAAAAAQ\n"
        b"storage.id=8eLTxAAAQACAAAAAAAAAAQ\ncluster.id=cluster-x\n"
    )
    assert decode_meta_properties(b"#\n#Thu\n" + data) == meta
    plain = MetaProperties(NodeId(3), OWN)
    assert decode_meta_properties(encode_meta_properties(plain)) == plain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"version=1", b"version=0"),
        (b"version=1\n", b""),
        (b"node.id=3", b"node.id=-3"),
        (b"node.id=3", b"node.id=9999999999"),
        (b"storage.id=8", b"storage.id=9"),
        (b"storage.id=8eLTxAAAQACAAAAAAAAAAQ\n", b""),
        (b"node.id=3", b"node.id=3\nnode.id=3"),
        (b"node.id=3", b"node.id=3\nunknown=1"),
        (b"node.id=3", b"node.id 3"),
        (b"cluster.id=c", b"cluster.id="),
        (b"version", b"\xff"),
    ],
)
def test_other_meta_properties_are_refused(old: bytes, new: bytes) -> None:
    data = encode_meta_properties(MetaProperties(NodeId(3), OWN, "c"))
    with pytest.raises(ValueError):
        decode_meta_properties(data.replace(old, new))


@pytest.mark.parametrize("name", ["", "a b", "a=b", "ü", "x" * 65, "-a", "a\nb"])
def test_names_that_cannot_be_cluster_ids_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="letters, digits"):
        check_cluster_id(name)
