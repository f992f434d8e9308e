"""Bodies of cert-manager's Certificates: one for each pod, and one for the operator."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, Owner
from kraftquorum_operator.model.tls import QuorumTls
from kraftquorum_operator.resources.metadata import metadata


def certificate(
    owner: Owner, tls: QuorumTls, name: str, uris: Collection[str], hosts: Collection[str]
) -> Body:
    """A Certificate, whose Secret has the same name and goes with it.

    Args:
        owner: the resource.
        tls: has the issuer.
        name: of the pod, or `OPERATOR`.
        uris: its identity.
        hosts: DNS names and IP addresses.
    """
    meta = metadata(owner, names.issued(owner.name, name))
    reference = tls.issuer_ref.model_dump() if tls.issuer_ref is not None else {}
    addresses = sorted(host for host in hosts if _is_address(host))
    dns_names = sorted(set(hosts) - set(addresses))
    spec: Body = {
        "secretName": meta["name"],
        # cert-manager makes no owner of the Secret. By these labels the operator knows it.
        "secretTemplate": {"labels": meta["labels"] | {names.LABEL_OWNER_UID: owner.uid}},
        "issuerRef": reference,
        "duration": tls.certificate_lifetime,
        "uris": sorted(uris),
        "usages": ["digital signature", "server auth", "client auth"],
        "privateKey": {
            "algorithm": "ECDSA",
            "size": 256,
            "encoding": "PKCS8",
            "rotationPolicy": "Always",
        },
        "revisionHistoryLimit": 1,
    }
    if tls.renew_before is not None:
        spec["renewBefore"] = tls.renew_before
    if dns_names:
        spec["dnsNames"] = dns_names
    if addresses:
        spec["ipAddresses"] = addresses
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": meta,
        "spec": spec,
    }


def issue_again(written: Body, now: str) -> Body:
    """The status by which cert-manager issues a certificate again, as `cmctl renew` writes it.

    Args:
        written: the Certificate as it is.
        now: the time, as Kubernetes writes it.
    """
    meta = written["metadata"]
    condition = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": f"asked for by {names.ANNOTATION_RENEW} of the {names.KIND}",
        "lastTransitionTime": now,
        "observedGeneration": meta["generation"],
    }
    return {
        "apiVersion": written["apiVersion"],
        "kind": written["kind"],
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "status": {"conditions": [condition]},
    }


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
