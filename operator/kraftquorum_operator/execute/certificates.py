"""Actions on the Secrets with certificates: each only if the Secrets are as they were observed."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.errors import ConflictError
from kraftquorum_operator.execute.certificate_signing import (
    LeafNames,
    Pair,
    issue_leaf,
    make_authority,
)
from kraftquorum_operator.execute.formation import random_cluster_id
from kraftquorum_operator.execute.tools import Tools
from kraftquorum_operator.judge.leaves import wanted_leaf
from kraftquorum_operator.model.certificates import OPERATOR
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.pem import PemError, fingerprint, load_certificates, to_pem
from kraftquorum_operator.observe.cert_manager import as_one_secret
from kraftquorum_operator.observe.certificates import data_of
from kraftquorum_operator.plan.actions import (
    ChangeAuthority,
    CreateAuthority,
    DeleteAuthority,
    DeleteIssued,
    IssueCertificates,
)
from kraftquorum_operator.resources.secrets import (
    authority_secret,
    client_ca,
    encoded,
    store_secret,
)

CA = "ca.crt"


async def create_authority(action: CreateAuthority, tools: Tools) -> str:
    """Create the CA; an existing one stays as it is."""
    cluster_id = action.cluster_id or random_cluster_id()
    data: dict[str, bytes] = {}
    if action.signs:
        made = _new_authority(tools)
        data = {"ca.crt": made.certificate, "ca.key": made.key}
    body = authority_secret(tools.owner, cluster_id, data)
    try:
        await tools.kube.create(body)
    except ConflictError:
        return "it exists already"
    return f"for cluster {cluster_id}"


def _new_authority(tools: Tools) -> Pair:
    owner = tools.owner
    return make_authority(
        f"{owner.namespace}/{owner.name}", tools.spec.tls.ca_lifetime_s, time.time()
    )


async def change_authority(action: ChangeAuthority, tools: Tools) -> str:
    """Change the CA's Secret.

    Raises:
        ConflictError: another client changed it meanwhile.
    """
    name, asked = names.authority(tools.owner.name), tools.observation.certificates
    meta: Body = {"resourceVersion": action.version}
    data: dict[str, str | None] = {}
    match action.change:
        case "identify":
            cluster_id = action.cluster_id or random_cluster_id()
            meta["labels"] = {names.LABEL_OWNER_UID: tools.owner.uid}
            meta["annotations"] = {names.ANNOTATION_CLUSTER_ID: cluster_id}
        case "renew":
            made = _new_authority(tools)
            data |= encoded({"ca.crt": made.certificate, "ca.key": made.key})
        case "prepare":
            made = _new_authority(tools)
            data |= encoded({"next-ca.crt": made.certificate, "next-ca.key": made.key})
            rotation = asked.rotation if asked is not None else ""
            meta["annotations"] = {names.ANNOTATION_ROTATE_CA: rotation}
        case "count":
            meta["annotations"] = {names.ANNOTATION_ISSUED: str(action.pods)}
        case "promote":
            live = await _read(tools, name)
            data |= encoded({"ca.crt": live["next-ca.crt"], "ca.key": live["next-ca.key"]})
            data |= {"next-ca.crt": None, "next-ca.key": None}
    change: Body = {"metadata": meta} | ({"data": data} if data else {})
    await tools.kube.patch("Secret", tools.owner.namespace, name, uid=action.uid, change=change)
    return action.change


async def _read(tools: Tools, name: str) -> dict[str, bytes]:
    body = await tools.kube.get("Secret", tools.owner.namespace, name)
    if body is None:
        raise ConflictError(409, "Conflict", f"there is no Secret {name} any more")
    return data_of(body)


async def issue_certificates(action: IssueCertificates, tools: Tools) -> str:
    """Write the Secrets of nodes and operator, and the ConfigMap of the CAs.

    Raises:
        ConflictError: another client changed a Secret that they are made from meanwhile.
    """
    owner = tools.owner
    given, version = await _read_source(tools)
    places = [names.node_tls(owner.name), names.operator_tls(owner.name)]
    bodies = [await tools.kube.get("Secret", owner.namespace, place) for place in places]
    versions = (version, *(body["metadata"]["resourceVersion"] if body else "" for body in bodies))
    if versions != action.versions:
        raise ConflictError(409, "Conflict", "a Secret with certificates has changed meanwhile")
    nodes, operator = (data_of(body) if body is not None else {} for body in bodies)
    bundle = _bundle(action, [given, nodes, operator])
    pairs = _pairs(action, tools, given)
    node_data: dict[str, bytes | None] = {CA: bundle}
    for name in action.dropped:
        if name != OPERATOR:
            node_data |= {f"{name}.crt": None, f"{name}.key": None}
    for name, pair in pairs.items():
        if name != OPERATOR:
            node_data |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    own = pairs.get(OPERATOR)
    operator_data: dict[str, bytes | None] = {CA: bundle}
    if OPERATOR in action.dropped:
        operator_data |= {"tls.crt": None, "tls.key": None}
    if own is not None:
        operator_data |= {"tls.crt": own.certificate, "tls.key": own.key}
    # The operator and the clients trust a CA before a node presents a certificate of it.
    await tools.kube.apply(client_ca(owner, bundle))
    await _write(tools, places[1], bodies[1], operator_data)
    await _write(tools, places[0], bodies[0], node_data)
    return action.reason


async def _read_source(tools: Tools) -> tuple[dict[str, bytes], str]:
    """What the certificates are made from, or copied from, and its version."""
    owner, tls = tools.owner, tools.spec.tls
    if tls.mode == "CertManager":
        facts = tools.observation.certificates
        cert_manager = facts.cert_manager if facts is not None else None
        issued = cert_manager.issued if cert_manager is not None else ()
        secrets: dict[str, Body] = {}
        for part in issued:
            if part.written and not part.foreign:
                place = names.issued(owner.name, part.name)
                secret = await tools.kube.get("Secret", owner.namespace, place)
                secrets |= {part.name: secret} if secret is not None else {}
        return as_one_secret(secrets)
    place = tls.secret_name if tls.mode == "Secret" else names.authority(owner.name)
    body = await tools.kube.get("Secret", owner.namespace, place or "")
    return (data_of(body), str(body["metadata"]["resourceVersion"])) if body else ({}, "")


def _bundle(action: IssueCertificates, stores: list[dict[str, bytes]]) -> bytes:
    """The CAs to trust, from the Secrets that have them."""
    pems: dict[str, bytes] = {}
    for store in stores:
        for key in (CA, "next-ca.crt"):
            with suppress(PemError):
                for certificate in load_certificates(store.get(key, b"")):
                    pems[fingerprint(certificate)] = to_pem(certificate)
    missing = action.authorities - set(pems)
    if missing:
        raise ConflictError(409, "Conflict", "a CA is in no Secret any more")
    return b"".join(pems[part] for part in sorted(action.authorities))


def _pairs(action: IssueCertificates, tools: Tools, given: Mapping[str, bytes]) -> dict[str, Pair]:
    """The new certificates: copied from those that are given, or signed by the CA."""
    spec, observation = tools.spec, tools.observation
    if spec.tls.mode in {"Secret", "CertManager"}:
        stems = {name: name if f"{name}.crt" in given else "tls" for name in action.names}
        return {
            name: Pair(given[f"{stem}.crt"], given[f"{stem}.key"]) for name, stem in stems.items()
        }
    authority = Pair(given["ca.crt"], given["ca.key"])
    pairs: dict[str, Pair] = {}
    for name in action.names:
        wanted = wanted_leaf(observation, action.cluster_id, name)
        leaf = LeafNames(name, wanted.uris, wanted.hosts)
        lifetime_s = spec.tls.certificate_lifetime_s
        pairs[name] = issue_leaf(authority, leaf, lifetime_s, time.time())
    return pairs


async def _write(
    tools: Tools, name: str, live: Body | None, data: Mapping[str, bytes | None]
) -> None:
    """Create a Secret, or change these keys of it."""
    asked = tools.observation.certificates
    annotations = {names.ANNOTATION_RENEW: asked.renewal if asked is not None else ""}
    if live is None:
        present = {key: value for key, value in data.items() if value is not None}
        await tools.kube.create(store_secret(tools.owner, name, present, annotations))
        return
    change: Body = {
        "metadata": {
            "resourceVersion": live["metadata"]["resourceVersion"],
            "annotations": annotations,
        },
        "data": {
            key: None if value is None else base64.b64encode(value).decode()
            for key, value in data.items()
        },
    }
    uid = cast("str", live["metadata"]["uid"])
    await tools.kube.patch("Secret", tools.owner.namespace, name, uid=uid, change=change)


async def delete_issued(action: DeleteIssued, tools: Tools) -> str:
    """Delete a Certificate of cert-manager, or its Secret, if it is the one that was observed."""
    kind, name = action.ref
    tools.failpoints.before_delete()
    try:
        await tools.kube.delete(kind, tools.owner.namespace, name, uid=action.uid)
    except ConflictError:
        return f"{action.ref} was recreated meanwhile and is kept"
    return str(action.ref)


async def delete_authority(action: DeleteAuthority, tools: Tools) -> str:
    """Delete the Secret with the CA, if it is the one that was observed."""
    name = names.authority(tools.owner.name)
    tools.failpoints.before_delete()
    try:
        await tools.kube.delete("Secret", tools.owner.namespace, name, uid=action.uid)
    except ConflictError:
        return f"{name} was recreated meanwhile and is kept"
    return name
