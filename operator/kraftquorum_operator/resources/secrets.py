"""Bodies of the Secrets with a quorum's certificates, and of the ConfigMap with its CAs."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.resources.metadata import metadata


def encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    """Data as a Secret has it."""
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


def _secret(meta: Body, data: Mapping[str, bytes], annotations: Mapping[str, str]) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": meta | ({"annotations": dict(annotations)} if annotations else {}),
        "data": encoded(data),
    }


def authority_secret(owner: Owner, cluster_id: str, data: Mapping[str, bytes]) -> Body:
    """The CA with its key.

    It has no owner, as the latch: with `deletion.claims: Retain` it stays with the data, since the
    certificates have the cluster id of the data.
    """
    meta = metadata(owner, names.authority(owner.name))
    del meta["ownerReferences"]
    meta["labels"] = meta["labels"] | {names.LABEL_OWNER_UID: owner.uid}
    return _secret(meta, data, {names.ANNOTATION_CLUSTER_ID: cluster_id})


def store_secret(
    owner: Owner, name: str, data: Mapping[str, bytes], annotations: Mapping[str, str]
) -> Body:
    """The certificates of the nodes, or of the operator; it goes with the resource."""
    return _secret(metadata(owner, name), data, annotations)


def client_ca(owner: Owner, pem: bytes) -> Body:
    """The CAs, for clients to mount."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, names.client_ca(owner.name)),
        "data": {"ca.crt": pem.decode("ascii")},
    }
