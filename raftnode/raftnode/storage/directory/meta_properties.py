"""The `meta.properties` file: the node and the cluster of this directory.

It has Kafka's keys (`version`, `node.id`, `directory.id`, `cluster.id`) and KIP-856's
`storage.id`, which is the same UUID as `directory.id` (P47). KIP-856 would generate a missing
`storage.id`; this node refuses the directory instead (S2). The file needs no checksum: each value
is compared with another copy of it (configuration, marker, latch, peers).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from raftnode.core.types import NodeId, format_directory_id, parse_directory_id
from raftnode.errors import ConfigurationError, StorageCorruptError
from raftnode.storage.files import Files

FILE_NAME = "meta.properties"
_CLUSTER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_KEYS = frozenset({"version", "node.id", "directory.id", "storage.id", "cluster.id"})


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What the file says."""

    node_id: NodeId
    directory_id: uuid.UUID
    cluster_id: str | None = None
    """None until this node knows which cluster it belongs to."""


def check_cluster_id(cluster_id: str) -> str:
    """Return the id if it can be one.

    Raises:
        ConfigurationError: it cannot, naming what is allowed.
    """
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise ConfigurationError(
            f"cluster id {cluster_id!r}: 1 to 64 letters, digits, '_', '.' or '-', "
            "the first a letter or a digit"
        )
    return cluster_id


def encode_meta_properties(meta: MetaProperties) -> bytes:
    """The file's content."""
    own = format_directory_id(meta.directory_id)
    lines = ["version=1", f"node.id={meta.node_id}", f"directory.id={own}", f"storage.id={own}"]
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    return ("\n".join(lines) + "\n").encode("ascii")


def decode_meta_properties(data: bytes) -> MetaProperties:
    """Read the file's content; comments and the order of the lines do not matter.

    Raises:
        ValueError: a key is unknown, missing or there twice, or a value is no value of it.
    """
    values: dict[str, str] = {}
    for line in data.decode("ascii").splitlines():
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or key not in _KEYS or key in values:
            raise ValueError(f"line {line!r}")
        values[key] = value
    missing = _KEYS - values.keys() - {"cluster.id"}
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))} missing")
    if values["version"] != "1":
        raise ValueError(f"version={values['version']}, expected 1")
    if not re.fullmatch(r"\d{1,10}", values["node.id"]) or int(values["node.id"]) >> 31:
        raise ValueError(f"node.id={values['node.id']}")
    if values["directory.id"] != values["storage.id"]:
        raise ValueError("directory.id and storage.id differ")
    cluster_id = values.get("cluster.id")
    if cluster_id is not None and not _CLUSTER_ID.fullmatch(cluster_id):
        raise ValueError(f"cluster.id={cluster_id}")
    own = parse_directory_id(values["directory.id"])
    return MetaProperties(NodeId(int(values["node.id"])), own, cluster_id)


def read_meta_properties(files: Files, path: Path) -> MetaProperties | None:
    """Read the file; None if there is none.

    Raises:
        StorageCorruptError: it is not what `encode_meta_properties` writes.
    """
    data = files.read_bytes(path)
    if data is None:
        return None
    try:
        return decode_meta_properties(data)
    except ValueError as error:
        raise StorageCorruptError(f"{path} is damaged: {error}") from error


def write_meta_properties(files: Files, path: Path, meta: MetaProperties) -> None:
    """Replace the file durably."""
    files.replace(path, encode_meta_properties(meta))
