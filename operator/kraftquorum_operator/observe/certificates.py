"""Reads the Secrets with a quorum's certificates into facts.

The keys stay in the answers of the API server; only `NodeAccess` keeps what the operator presents
to the nodes, and it is no part of an observation.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.clients.cache import KubeReader
from kraftquorum_operator.clients.handshake import why_refused
from kraftquorum_operator.clients.node_access import NodeAccess
from kraftquorum_operator.errors import KubeError, RefusedError
from kraftquorum_operator.model.certificates import (
    OPERATOR,
    Authority,
    AuthoritySecret,
    Certificates,
    KeyStore,
)
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.pem import PemError, read_bundle, read_leaves
from kraftquorum_operator.observe.foreign import belongs_to
from kraftquorum_operator.observe.missing_right import is_right_missing, why_unreadable

CA = "ca.crt"
PREPARED = "next-ca"
SIGNING = "ca"


async def read_certificates(
    kube: KubeReader, owner: Owner, resource: Body, secret_name: str | None
) -> tuple[Certificates, NodeAccess | None]:
    """Read what there is; an object that may not be read is a fact too.

    Args:
        kube: reads the objects.
        owner: the resource.
        resource: its body, for the annotations of a person.
        secret_name: the Secret that the resource names; None: none.

    Raises:
        KubeError: the API server did not answer for the operator's own objects.
    """
    marks = _annotations(resource)
    asked = Certificates(
        int(time.time()),
        renewal=marks.get(names.ANNOTATION_RENEW, ""),
        rotation=marks.get(names.ANNOTATION_ROTATE_CA, ""),
    )
    name = owner.name
    wanted = [
        ("Secret", names.authority(name)),
        ("Secret", names.node_tls(name)),
        ("Secret", names.operator_tls(name)),
        ("ConfigMap", names.client_ca(name)),
    ]
    answers = await asyncio.gather(
        *(_get(kube, owner, kind, part) for kind, part in wanted),
        *([_get(kube, owner, "Secret", secret_name, KubeError)] if secret_name else []),
    )
    refused = _refusals(owner, wanted, answers)
    bodies = [None if isinstance(answer, KubeError) else answer for answer in answers]
    authority, nodes, operator, clients, *rest = bodies
    foreign = [
        f"{body['kind']}/{body['metadata']['name']} belongs to another owner: delete it or rename "
        "the resource"
        for body in (authority, nodes, operator, clients)
        if body is not None and _is_foreign(owner, body)
    ]
    ours = operator is not None and not _is_foreign(owner, operator)
    operator_data = data_of(operator) if operator is not None and ours else {}
    if refused or foreign:
        # Without what it presents to the nodes the operator could repair nothing.
        why = "; ".join(dict.fromkeys([*refused, *foreign]))
        return replace(asked, unreadable=why), _access(operator_data)
    certificates = replace(
        asked,
        authority=None if authority is None else _read_authority(authority),
        nodes=None if nodes is None else read_store(nodes, _stems(data_of(nodes))),
        operator=None if operator is None else read_store(operator, _own_stem(operator_data)),
        clients=None if clients is None else read_store(clients, {}),
        source=_read_source(owner, rest[0]) if rest and rest[0] is not None else None,
    )
    return certificates, _access(operator_data)


def _refusals(
    owner: Owner,
    wanted: Sequence[tuple[str, str]],
    answers: Sequence[Body | KubeError | None],
) -> list[str]:
    """Why objects cannot be read; a right on Secrets that is missing is named once for all."""
    kinds = [kind for kind, _ in wanted] + ["Secret"] * (len(answers) - len(wanted))
    errors = [(k, a) for k, a in zip(kinds, answers, strict=True) if isinstance(a, KubeError)]
    denied = [error for kind, error in errors if kind == "Secret" and is_right_missing(error)]
    others = [str(error) for _, error in errors if error not in denied]
    return [why_unreadable(error, owner.namespace) for error in denied[:1]] + others


async def _get(
    kube: KubeReader, owner: Owner, kind: str, name: str, facts: type[KubeError] = RefusedError
) -> Body | KubeError | None:
    """An object, or the error if that is a fact, too.

    A person's Secret that the API server cannot decrypt must not hold back the quorum.
    """
    try:
        return await kube.get(kind, owner.namespace, name)
    except facts as error:
        return error


def _is_foreign(owner: Owner, body: Body) -> bool:
    """Whether an object is another owner's; the CA may be that of an earlier resource."""
    if body["metadata"]["name"] != names.authority(owner.name):
        return belongs_to(owner, body) is False
    labels = cast("dict[str, str]", body["metadata"].get("labels") or {})
    made = labels.get(names.LABEL_MANAGED_BY), labels.get(names.LABEL_INSTANCE)
    return made != (names.MANAGER, owner.name)


def data_of(body: Body) -> dict[str, bytes]:
    """The entries of a Secret or a ConfigMap; an entry that is no base64 is left out."""
    entries = cast("dict[str, str]", body.get("data") or {})
    if body.get("kind") == "ConfigMap":
        return {key: value.encode() for key, value in entries.items()}
    data: dict[str, bytes] = {}
    for key, value in entries.items():
        with suppress(ValueError):
            data[key] = base64.b64decode(value)
    return data


def _annotations(body: Body) -> dict[str, str]:
    return cast("dict[str, str]", body["metadata"].get("annotations") or {})


def _stems(data: Mapping[str, bytes]) -> dict[str, str]:
    """The pods with a certificate in the nodes' Secret."""
    stems = (key.removesuffix(".crt") for key in data if key.endswith(".crt") and key != CA)
    return {stem: stem for stem in stems}


def _own_stem(data: Mapping[str, bytes]) -> dict[str, str]:
    return {OPERATOR: "tls"} if "tls.crt" in data else {}


def source_stems(quorum: str, data: Mapping[str, bytes]) -> dict[str, str]:
    """Where a person's Secret has the certificate of each pod, and the operator's."""
    stems = {
        pod: pod if f"{pod}.crt" in data else "tls"
        for pod in (names.pod(quorum, ordinal) for ordinal in range(names.NODES_MAX))
        if f"{pod}.crt" in data or "tls.crt" in data
    }
    return stems | ({OPERATOR: OPERATOR} if f"{OPERATOR}.crt" in data else {})


def _read_source(owner: Owner, body: Body) -> KeyStore:
    """A person's Secret; a certificate that nodes would refuse is a fault, too."""
    data = data_of(body)
    stems = source_stems(owner.name, data)
    store = read_store(body, stems)
    if store.faults:
        return store
    refused = [
        f"nodes would refuse {stem}.crt: {why}"
        for stem in dict.fromkeys(stems.values())
        if (why := why_refused(data[CA], data[f"{stem}.crt"] + b"\n" + data[f"{stem}.key"]))
    ]
    return replace(store, faults=tuple(refused))


def read_store(body: Body, stems: Mapping[str, str]) -> KeyStore:
    """Facts of a Secret with certificates.

    Args:
        body: of the Secret, or of the ConfigMap with the CAs.
        stems: by the name of a certificate: what its keys in the Secret begin with.
    """
    meta, data = body["metadata"], data_of(body)
    marks = tuple(sorted(_annotations(body).items(), key=lambda mark: mark[0]))
    faults: list[str] = []
    authorities: tuple[Authority, ...] = ()
    try:
        if CA not in data:
            raise PemError("the key is missing")  # noqa: TRY301 - one way to report it
        certificates, authorities = read_bundle(data[CA])
    except PemError as error:
        certificates = []
        faults.append(f"{CA}: {error}")
    leaves, wrong = read_leaves(data, stems, certificates)
    return KeyStore(
        uid=meta["uid"],
        version=meta["resourceVersion"],
        authorities=authorities,
        leaves=tuple(leaves.items()),
        faults=(*faults, *wrong),
        marks=marks,
    )


def _read_authority(body: Body) -> AuthoritySecret:
    meta, data = body["metadata"], data_of(body)
    labels = cast("dict[str, str]", meta.get("labels") or {})
    return AuthoritySecret(
        uid=meta["uid"],
        version=meta["resourceVersion"],
        owner_uid=labels.get(names.LABEL_OWNER_UID, ""),
        cluster_id=_annotations(body).get(names.ANNOTATION_CLUSTER_ID, ""),
        signing=_read_ca(data, SIGNING),
        prepared=_read_ca(data, PREPARED),
        rotation=_annotations(body).get(names.ANNOTATION_ROTATE_CA, ""),
        issued_pods=issued_pods(body),
    )


def issued_pods(body: Body) -> int:
    """Below which ordinal pods may have Certificates of cert-manager, by the Secret with the CA."""
    text = _annotations(body).get(names.ANNOTATION_ISSUED, "")
    return min(int(text), names.NODES_MAX) if text.isdecimal() else 0


def _read_ca(data: Mapping[str, bytes], stem: str) -> Authority | None:
    """A CA whose key belongs to it."""
    leaves, _ = read_leaves(data, {stem: stem}, [])
    if stem not in leaves:
        return None
    try:
        return read_bundle(data[f"{stem}.crt"])[1][0]
    except PemError:
        return None


def _access(data: Mapping[str, bytes]) -> NodeAccess | None:
    """What the operator presents to the nodes; None: it has no CA to trust them by."""
    if CA not in data:
        return None
    certificate, key = data.get("tls.crt"), data.get("tls.key")
    if certificate is None or key is None:
        return NodeAccess(data[CA])
    return NodeAccess(data[CA], certificate + b"\n" + key)


async def authority_uid(kube: KubeReader, owner: Owner) -> str | None:
    """UID of the Secret with the CA, if it is this resource's; None also if it cannot be read."""
    with suppress(KubeError):
        body = await kube.get("Secret", owner.namespace, names.authority(owner.name))
        if body is not None:
            labels = cast("dict[str, str]", body["metadata"].get("labels") or {})
            if labels.get(names.LABEL_OWNER_UID) == owner.uid:
                return str(body["metadata"]["uid"])
    return None
